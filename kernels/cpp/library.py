"""Compiles the kernels in C++ for this processor, once: the result is kept in the cache folder."""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from pagedlab.cache import cache_folder
from pagedlab.errors import PagedlabError

FOLDER = Path(__file__).parent
# Products and sums may be joined into one operation; NaN and infinity stay what they are.
FLAGS = ("-std=c++17", "-O3", "-march=native", "-fopenmp", "-ffp-contract=fast", "-fno-math-errno", "-fPIC", "-w")
COMPILERS = ("g++", "c++")
# What each kernel takes, in order: p a pointer, l a long, f a float. With it ctypes takes Python's numbers as they are.
ARGUMENTS = {
    "linear": "pppplll",
    "rms_norm": "pppllf",
    "heads": "ppppppplllllf",
    "feed_forward": "ppppplllf",
    "attend": "pppppppl",
    "write_kv": "pppppplll",
}
KINDS = {"p": ctypes.c_void_p, "l": ctypes.c_long, "f": ctypes.c_float}
SECONDS = 60  # after which a compiler is given up


@cache
def loaded() -> ctypes.CDLL | None:
    """The kernels as a library, compiled where that was not done before; None where they are not to be had."""
    return None if why_not() else _library()


@cache
def why_not() -> str | None:
    """Why the kernels in C++ do not run here; None where they do."""
    if sys.platform != "linux":
        return "the kernels in C++ are for Linux"
    if _threads() is None:
        return "this torch brings no libgomp, whose threads they would share"
    try:
        _library()
    except (OSError, NoCompiler, subprocess.TimeoutExpired) as error:
        return str(error)
    return None


@cache
def _library() -> ctypes.CDLL:
    kept = _where_kept()
    if kept is not None and kept.exists():
        return _open(kept)
    with tempfile.TemporaryDirectory(prefix="pagedlab-") as folder:
        made = _compile(Path(folder) / "kernels.so")
        if kept is not None and os.access(kept.parent, os.W_OK):
            whole = kept.with_suffix(f".{os.getpid()}")  # beside it first: a file is there whole or not at all
            shutil.copyfile(made, whole)
            os.replace(whole, kept)
        return _open(made)  # a loaded file may be deleted


def _open(path: Path) -> ctypes.CDLL:
    library = ctypes.CDLL(str(path))
    for name, kinds in ARGUMENTS.items():
        kernel = getattr(library, name)
        kernel.argtypes, kernel.restype = [KINDS[kind] for kind in kinds], None
    return library


def _where_kept() -> Path | None:
    """The library's place in the cache folder; None where there can be no such folder."""
    try:
        cache_folder().mkdir(parents=True, exist_ok=True)
    except (OSError, PagedlabError):
        return None
    return cache_folder() / f"kernels-{_name()}.so"


class NoCompiler(PagedlabError):
    """There is none, or it cannot do this."""


def _compile(path: Path) -> Path:
    compiler = os.environ.get("CXX") or next(filter(None, map(shutil.which, COMPILERS)), None)
    if compiler is None:
        raise NoCompiler("there is no C++ compiler here; install one (Debian and Ubuntu: apt-get install g++)")
    # Threads of its own beside torch's would take the cores from each other: so it is linked with those torch has.
    threads = [str(_threads()), f"-Wl,-rpath,{_threads().parent}"]
    command = [*compiler.split(), *FLAGS, "-shared", "-o", str(path), *map(str, sorted(FOLDER.glob("*.cpp"))), *threads]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, stdin=subprocess.DEVNULL)
    except FileNotFoundError as error:
        raise NoCompiler(f"the C++ compiler {compiler} that CXX names is not there") from error
    if done.returncode:
        lines = done.stderr.splitlines() or [f"it ended with {done.returncode}"]
        reason = next((line for line in lines if "error" in line), lines[0])
        raise NoCompiler(f"{compiler} cannot compile the kernels in C++: {reason}")
    return path


def _name() -> str:
    """Of these files, flags, threads and this processor: another one of them needs another library."""
    files = sorted((*FOLDER.glob("*.cpp"), *FOLDER.glob("*.h")))
    parts = (b"".join(file.read_bytes() for file in files), FLAGS, _threads(), platform.machine(), _processor())
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def _processor() -> str:
    """What this processor can do, in Linux's words."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line for line in lines if line.startswith(("flags", "Features"))), "")


@cache
def _threads() -> Path | None:
    """The libgomp that torch has loaded, or None."""
    import torch

    folder = Path(torch.__file__).parent
    found = [*folder.glob("lib/libgomp*.so*"), *folder.parent.glob("torch.libs/libgomp*.so*")]
    return found[0] if found else None
