"""What all tests share: the repository, where artifacts go, what happens to browser tests without a browser."""

import asyncio
import os
import shutil
import signal
from pathlib import Path

import pytest

from pagedlab.bench.browser import BROWSER_ARGS, Jupyter, LabPage
from pagedlab.doctor import INSTALL_CHROMIUM, find_chromium

ROOT = Path(__file__).resolve().parent.parent
NO_CHROMIUM = f"no Chromium on this machine; {INSTALL_CHROMIUM}, then run this again"
# Why a test may be skipped in CI: what the operating system or the hardware lacks, and no install step can bring. A
# reason that is not here, word for word, is a failure there.
NO_INSTALL_BRINGS_IT = {
    "Triton exists on Linux only",
    "this machine has a GPU",
    "this machine has a GPU, and so it would be measured",
    "this machine's adapter has no numbers of 16 bits",
    "this machine's adapter has no timestamps",
    "this system cannot confine a program's writes",
    "this system does not list a process's children",
    "this system does not say how much memory of a process is its own",
    "this system has no /dev/full",
    "this system has no Triton",
    "this system hides a process that detached itself",
    "this system hides how much memory is in use",
    "this system's Python has no such fault",
}


def pytest_configure(config):
    # A shell lets what it starts in the background ignore Ctrl-C, and with it whatever is started from there.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if config.pluginmanager.hasplugin("nbval"):  # vLLM's environment does without
        import chapter_runs

        config.pluginmanager.register(chapter_runs)


def in_ci() -> bool:
    return os.environ.get("CI", "").lower() == "true"


def pytest_runtest_setup(item):
    """Without Chromium a browser test is skipped on a person's machine; in CI, where all is tested, it is an error."""
    if item.get_closest_marker("browser") and not find_chromium():
        if in_ci():
            pytest.fail(f"{NO_CHROMIUM} (CI=true, so this is an error)", pytrace=False)
        pytest.skip(NO_CHROMIUM)


def none_skipped_in_ci(report, reason: str):
    """In CI what was skipped, or was expected to fail, is a failure, but for the reasons of NO_INSTALL_BRINGS_IT:
    everything else, one has forgotten."""
    if in_ci() and report.skipped and reason not in NO_INSTALL_BRINGS_IT:
        report.outcome, report.longrepr = "failed", f"skipped, though CI=true: {reason}"


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    none_skipped_in_ci(report, str(call.excinfo.value) if call.excinfo else str(report.longrepr))
    if report.failed and hasattr(report, "wasxfail"):
        del report.wasxfail  # or pytest would still count it as expected


@pytest.hookimpl(hookwrapper=True)
def pytest_make_collect_report(collector):
    """A whole file can be skipped, too."""
    report = (yield).get_result()
    none_skipped_in_ci(report, str(report.longrepr[-1]).removeprefix("Skipped: ") if report.skipped else "")


def pytest_terminal_summary(terminalreporter):
    """A line that nobody overlooks, when browser tests were skipped."""
    skipped = [report for report in terminalreporter.stats.get("skipped", []) if NO_CHROMIUM in str(report.longrepr)]
    if skipped:
        terminalreporter.section("BROWSER TESTS SKIPPED", sep="!", red=True, bold=True)
        terminalreporter.line(f"{len(skipped)} browser tests did not run: {NO_CHROMIUM}.", red=True, bold=True)


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository's root folder."""
    return ROOT


@pytest.fixture(scope="session")
def compiling() -> dict[str, str]:
    """The environment of a process whose Triton compiles, whatever the tests before did with this one's."""
    return {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}


@pytest.fixture(scope="session")
def out_of_order():
    """Makes an engine in which B's table is not in order: A's blocks came free in between. Knobs: device, dtype."""
    from pagedlab.engine import LLM, SamplingParams

    def out_of_order(**knobs):
        llm = LLM("tiny-random", record=True, block_size=4, num_gpu_blocks_override=14, **knobs)
        for text, tokens in (("abcdefgh", 1), ("Hi there, you, who", 14), ("abcd", 3)):
            llm.add_request(text, SamplingParams(max_tokens=tokens, ignore_eos=True))
            llm.step()
        for _ in range(5):
            llm.step()
        return llm

    return out_of_order


@pytest.fixture(scope="session")
def chromium() -> str:
    """Path of the browser, for tests marked `browser`."""
    return find_chromium()


@pytest.fixture(scope="session")
def browser(chromium):
    """A running browser, one for all that is tested in this process: Playwright's synchronous side runs once in it."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, headless=True, args=BROWSER_ARGS)
        yield browser
        browser.close()


@pytest.fixture
def no_running_loop():
    """For what starts an event loop of its own: once there is a :func:`browser`, Playwright's stays the running one of
    this thread until the tests end."""
    running = asyncio._get_running_loop()
    asyncio._set_running_loop(None)
    yield
    asyncio._set_running_loop(running)


@pytest.fixture(scope="session")
def artifacts() -> Path:
    """A folder that git ignores, for what a person may want to look at after a run: screenshots, logs."""
    folder = ROOT / "artifacts"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def jupyter(chromium, tmp_path_factory):
    """A real JupyterLab, running. A test writes a notebook, opens it in ``lab_page``, and runs its cells."""
    server = Jupyter(tmp_path_factory.mktemp("jupyter"))
    yield server
    server.stop()
    shutil.rmtree(server.root, ignore_errors=True)


@pytest.fixture
def lab_page(jupyter, browser, artifacts, request):
    """A fresh page in it; the test fails if the page wrote an error to its console. Its last picture is kept."""
    context = browser.new_context(viewport={"width": 1380, "height": 900})
    page = context.new_page()
    lab = LabPage(jupyter, page)
    yield lab
    page.screenshot(path=artifacts / f"{request.node.name}.png")
    context.close()
    assert not lab.errors, "errors in the browser's console:\n" + "\n".join(lab.errors)
