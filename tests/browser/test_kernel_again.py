"""On a page of the kernel lab, the recorded query runs once more on the WebGPU of the browser: here Chromium's own,
which a CPU runs. Without a kernel, without a network."""

import json
import re

import pytest

from pagedlab.bench.browser import BROWSER_ARGS
from pagedlab.doctor import find_chromium
from pagedlab.kernels import WHY_NOT, available
from pagedlab.viz import kernel_walk

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not available(), reason=WHY_NOT),
]
WEBGPU = ["--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader", "--enable-features=Vulkan"]
DATA = re.compile(r'(class="pictures">)(.*?)(</script>)', flags=re.S)


@pytest.fixture(scope="module")
def text(tmp_path_factory, out_of_order):
    path = kernel_walk(out_of_order(), "B", layer=1).save_html(tmp_path_factory.mktemp("page") / "lab.html")
    return path.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def with_webgpu(browser):
    one = browser.browser_type.launch(executable_path=find_chromium(), headless=True, args=[*BROWSER_ARGS, *WEBGPU])
    yield one
    one.close()


@pytest.fixture
def opened(tmp_path):
    """Opens a page in a browser, offline; closed in the end, and no error may have been in its console."""
    contexts, errors = [], []

    def opened(browser, text, **look):
        (tmp_path / "lab.html").write_text(text, encoding="utf-8")
        contexts.append(browser.new_context(offline=True, **look))
        page = contexts[-1].new_page()
        page.on("console", lambda message: message.type == "error" and errors.append(message.text))
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto((tmp_path / "lab.html").as_uri())
        page.locator(".pagedlab").wait_for()
        return page

    yield opened
    for context in contexts:
        context.close()
    assert not errors


def click(page):
    """What it says then, and whether it is an alarm."""
    page.locator(".again button").click()
    page.wait_for_function("() => !document.querySelector('.again button').disabled")
    result = page.locator(".again p")
    return result.inner_text(), "alarm" in (result.get_attribute("class") or "")


def changed(text, **fields):
    """The page with other recorded values."""
    before, data, after = DATA.search(text).groups()
    data = json.loads(data)
    data["again"] |= fields
    return DATA.sub(lambda _: before + json.dumps(data).replace("</", "<\\/") + after, text)


@pytest.mark.parametrize("theme, width", [("light", 1000), ("dark", 1000), ("light", 390)])
def test_it_gives_the_recorded_output_and_names_the_adapter(with_webgpu, opened, text, artifacts, theme, width):
    page = opened(with_webgpu, text, color_scheme=theme, viewport={"width": width, "height": 800})
    assert page.locator(".again button").inner_text() == "Run it in this browser"  # it is no GPU
    words, alarm = click(page)
    assert words.startswith("It is the recorded result, up to rounding. It ran on google swiftshader (software, which ")
    assert "the CPU runs). It read the recorded blocks" in words
    assert "in the recorded order, #3 → #4 → #5 → #6 → #7 → #10. The largest difference between its output, " in words
    far = re.search(r"the recorded one \(Triton interpreter · CPU\) is (0\.\d+|0)\.$", words)[1]
    assert not alarm and 0 <= float(far) < 1e-5
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.screenshot(path=artifacts / f"again-{theme}-{width}.png", full_page=True)
    assert click(page) == (words, False)  # as often as one likes


def test_what_is_not_the_same_is_not_called_so(with_webgpu, opened, text):
    recorded = json.loads(DATA.search(text)[2])["again"]
    words, alarm = click(opened(with_webgpu, changed(text, output=recorded["query"])))
    assert alarm and words.startswith("It is not the recorded result. It ran on ")
    words, alarm = click(opened(with_webgpu, changed(text, read=[recorded["read"][0], [3, 4, 5, 6, 10, 7]])))
    assert alarm and "For query head 2 it read #3 → #4 → #5 → #6 → #7 → #10; the recording has #3 → #4 → #5 →" in words


def test_what_goes_wrong_is_one_sentence(with_webgpu, opened, text):
    page = opened(with_webgpu, text)
    page.evaluate("""() => {
      const real = GPUAdapter.prototype.requestDevice;
      GPUAdapter.prototype.requestDevice = async function () {
        const device = await real.call(this);
        device.destroy();
        return device;
      };
    }""")
    assert click(page) == ("It could not run here: the browser has lost the device. Try once more.", True)
    page.evaluate("() => { GPU.prototype.requestAdapter = async () => null; }")
    assert click(page) == (
        "It could not run here: the browser gives no adapter any more. Loading the page again may help.", True,
    )  # fmt: skip
    words, alarm = click(opened(with_webgpu, changed(text, wgsl="fn nothing() {}")))
    assert alarm and words.startswith("It could not run here: ") and len(words) < 300


def test_without_webgpu_the_page_is_as_it_was(browser, opened, text):
    page = opened(browser, text)
    assert page.evaluate("async () => await navigator.gpu?.requestAdapter() ?? null") is None
    page.wait_for_timeout(200)
    assert page.locator(".again").count() == 0 and page.locator("button", has_text="Run it").count() == 0
