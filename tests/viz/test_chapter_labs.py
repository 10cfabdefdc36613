"""What the labs of the chapters say, at every step that a reader can go to, is never cut, and nothing lies over it."""

import re

import pytest
from chapters import CHAPTERS, NOTEBOOKS, labs_of
from geometry import Pictures

from pagedlab import LLM, SamplingParams
from pagedlab.viz import prefix_hits

pytestmark = pytest.mark.slow
# What a block holds, under narrow slots or in a card of the prefix tree: the beginning of it is shown, and says so.
PREVIEWS = re.compile(r"seen\.\d+\.line\d+|prompt\.\d+\.t|node\.\w+\.t")
LONG_TOKENS = re.compile(r"token\.\w+\.\d+\.t")  # in blocks of 32, as vLLM on a CPU has them: slots are narrow there
LEFT_OUT = re.compile(r"seen\.more|table\.more|orphan\.\w+")  # "… 4 more blocks": a line of its own


def parts(lab):
    """The pictures that a lab consists of."""
    both = [getattr(lab, name, None) for name in ("lab", "board", "map")]
    return [part for part in both if part is not None] or [lab]


def check(part, where, pictures):
    view = part.view()
    pictures.add(part, where, view)
    cut = [mark for mark in view.marks if mark.text.strip(" ").endswith("…") or mark.text.startswith("…")]
    cut = [mark for mark in cut if not PREVIEWS.fullmatch(mark.id) and not LEFT_OUT.fullmatch(mark.id)]
    if where.startswith("15_"):
        cut = [mark for mark in cut if not LONG_TOKENS.fullmatch(mark.id)]
    assert not cut, (where, part.position, part.selected, cut)
    words = view.words
    assert not any(text.endswith("…") for text in words.values()), (where, part.position, words)


def step_through(lab, where, pictures):
    for part in parts(lab):
        part.move(0)
        while True:
            for selected in part.selections() if part is lab else [part.selected]:
                part.choose(selected)
                check(part, where, pictures)
            if not part.can_step:
                break
            part.move(part.position + 1)


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_no_sentence_of_a_chapters_lab_is_cut_or_overlaps(chapter, monkeypatch, chromium, request):
    monkeypatch.chdir(NOTEBOOKS)
    monkeypatch.setattr("builtins.print", lambda *_, **__: None)
    labs = list(labs_of(chapter))  # all of them first: stepping one changes the engine that the next cell reads
    assert labs
    pictures = Pictures()
    for place, lab in labs:
        step_through(lab, f"{chapter}: {place}", pictures)
    if chromium:  # what is cut can be told without one
        assert not pictures.faults(request.getfixturevalue("ruler"))


def test_no_sentence_of_the_prefix_lab_is_cut():
    llm = LLM("tiny-random", record=True, block_size=4, num_gpu_blocks_override=16)
    params = SamplingParams(max_tokens=4, ignore_eos=True)
    for question in ("Why is it?", "Who are you", "What is it?"):
        llm.add_request("You help. " + question, params)
    lab = prefix_hits(llm, "You help. Who is it")
    while llm.has_unfinished_requests():
        llm.step()
    llm.add_request(range(100, 140), params)
    llm.add_request("You help. Why not", params)
    step_through(lab.lab, "prefix", Pictures())
