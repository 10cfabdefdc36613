"""Progress bars leave nothing behind: in a terminal no line on stderr, in a notebook no stderr at all."""

import pytest
from IPython.utils.capture import capture_output

from pagedlab import LLM, SamplingParams
from pagedlab.viz import knobs
from pagedlab.viz.kit import progress
from pagedlab.viz.kit.progress import Progress


class Notebook:
    """What a cell shows: display_id -> what it holds now."""

    kernel = object()

    def __init__(self, monkeypatch):
        import IPython
        from IPython import display as of

        self.shown, self.seen = {}, []
        monkeypatch.setattr(IPython, "get_ipython", lambda: self)
        monkeypatch.setattr(of, "display", self.display)

    def display(self, data, raw, display_id):
        assert raw and display_id is True
        return Handle(self, len(self.shown), data)


class Handle:
    def __init__(self, notebook, id, data):
        self.notebook, self.id = notebook, id
        self.update(data, raw=True)

    def update(self, data, raw):
        self.notebook.shown[self.id] = data["text/html"]
        self.notebook.seen.append(data["text/html"])


def test_in_a_notebook_a_bar_appears_and_goes_and_nothing_is_written_to_stderr(monkeypatch, capsys):
    notebook = Notebook(monkeypatch)
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    with Progress(3, "runs", "request") as bar:
        for done in (1, 2, 2, 3):
            bar.reach(done)
    assert [text.count("<progress") for text in notebook.seen] == [1, 1, 1, 0]
    assert "2 of 3 requests" in notebook.seen[1]
    assert set(notebook.shown.values()) == {""} and capsys.readouterr() == ("", "")


def test_one_that_cannot_tell_how_far_it_is_shows_at_once_and_goes_when_it_fails(monkeypatch, capsys):
    notebook = Notebook(monkeypatch)
    with pytest.raises(ValueError), Progress(None, "the kernel runs"):
        assert "the kernel runs" in notebook.shown[0]
        raise ValueError
    assert notebook.shown == {0: ""} and capsys.readouterr().err == ""


def test_in_a_terminal_the_line_is_wiped_and_a_short_run_writes_nothing(capsys):
    with Progress(3, "runs", "request") as bar:
        bar.reach(3)
    assert capsys.readouterr().err == ""
    with Progress(None, "the kernel runs"):
        pass
    assert capsys.readouterr().err.rpartition("\r")[2].strip() == ""  # what is on the line at the end


def test_the_labs_leave_no_stderr_in_a_notebook(monkeypatch, capsys):
    notebook = Notebook(monkeypatch)
    notebook.events = type("Events", (), {"register": lambda *_: None})()
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    with capture_output(display=False):
        knobs(fraction=64)
    assert notebook.seen and set(notebook.shown.values()) == {""}
    from pagedlab import kernels

    if kernels.runs_here():
        from pagedlab.viz import kernel_walk

        llm = LLM("tiny-random", record=True, block_size=4, num_gpu_blocks_override=8)
        llm.add_request("Hi there", SamplingParams(max_tokens=2, ignore_eos=True))
        llm.step()
        kernel_walk(llm)
    assert set(notebook.shown.values()) == {""}
    assert capsys.readouterr().err == ""
