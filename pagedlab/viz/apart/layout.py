"""Where everything stands in the picture of several answers. Places are pixels, out of 960 across."""

from __future__ import annotations

from collections.abc import Iterator

from pagedlab.viz.apart.answers import Answer
from pagedlab.viz.kit.areas import Area
from pagedlab.viz.kit.bars import time_bars
from pagedlab.viz.kit.flow import heading
from pagedlab.viz.kit.head import LEFT, RIGHT, top_line
from pagedlab.viz.kit.labels import listed, plural, quoted, token
from pagedlab.viz.kit.marks import Mark
from pagedlab.viz.kit.strip import Strip
from pagedlab.viz.kit.text import fitted

TOP, PITCH, HEIGHT = 100.0, 42.0, 34.0  # of the rows
NAMES, TOKENS, SHOWN = 190.0, 226.0, 8  # how wide names are; where tokens begin; how many of them there is room for
WIDTH = (RIGHT - TOKENS) / SHOWN


def size(rows: int) -> tuple[float, float]:
    return 960.0, TOP + rows * PITCH + 96


def areas(rows: int) -> tuple[Area, ...]:
    end = TOP + rows * PITCH
    lines = (Area((0, TOP + i * PITCH - 2, 960, PITCH)) for i in range(rows))
    chart = Area((0, end + 26, 960, 70), "chart", (LEFT, RIGHT))
    return (Area((0, 0, 960, TOP - 2)), *lines, Area((0, end, 960, 26)), chart)


def sentences(answers: list[Answer], position: int) -> list[str]:
    """The one thing to see after so many tokens, longest first."""
    now = [a for a in answers if a.flip is not None and a.flip == position - 1]
    gone = [a for a in answers if a.flip is not None and a.flip < position]
    if now:
        mine, other = (_token(answer, position) for answer in (answers[0], now[0]))
        short = f"Token {position}: {other} instead of {mine}"
        return [f"{short} in {listed((f'“{a.name}”' for a in now), most=2)}", short]
    if gone:
        first = min(a.flip for a in gone) + 1
        return [f"{len(gone)} of {plural(len(answers), 'run')} went another way; the first did at token {first}"]
    return [f"{plural(position, 'token')}, and all {len(answers)} runs gave the same"]


def _token(answer: Answer, number: int) -> str:
    """The answer's token of this number, from 1, in quotation marks."""
    return quoted(answer.tokens[number - 1][1]) if number <= len(answer.tokens) else "its end"


def marks(answers: list[Answer], position: int, badge: str, guess: int | None) -> list[Mark]:
    first = max(0, position - SHOWN)
    out = [
        *top_line(sentences(answers, position), badge, badge.startswith("live")),
        *heading("rows", (LEFT, 84), "ONE QUESTION", "a row for each run; a frame where it first leaves the top one"),
    ]
    for row, answer in enumerate(answers):
        out += _row(row, answer, first, position)
    if guess is not None:
        out.append(Mark("guess", (LEFT - 3, TOP + guess * PITCH - 3, NAMES + 6, HEIGHT + 6), "over guess"))
    bottom = TOP + len(answers) * PITCH
    out += heading("time.title", (LEFT, bottom + 20), "RUNS THAT WENT ANOTHER WAY", "by token")
    out.append(Mark("step", (RIGHT, bottom + 20), "text s12 soft end", f"step {position}"))
    return out


def _row(row: int, answer: Answer, first: int, position: int) -> Iterator[Mark]:
    y, middle = TOP + row * PITCH, TOP + row * PITCH + HEIGHT / 2 + 4.5
    away = answer.flip is not None and answer.flip < position
    hue = 1 if away else 0
    where = f"left at token {answer.flip + 1}" if away else "the same so far"
    look = f"card askable owned{'' if row else ' mine'} c{hue}"
    yield Mark(f"run.{row}", (LEFT, y, NAMES, HEIGHT), look, tip=f"{answer.name}: {where}")
    yield Mark(f"run.{row}.name", (LEFT + 10, middle), "text s13 semi", fitted(answer.name, NAMES - 20, "s13 semi"))
    for index in range(first, position):
        x = TOKENS + (index - first) * WIDTH
        id, box = f"token.{row}.{index}", (x, y, WIDTH - 6, HEIGHT)
        if index >= len(answer.tokens):
            continue
        own = answer.flip is not None and index >= answer.flip
        text = answer.tokens[index][1]
        tip = f"{answer.name}, token {index + 1}: {quoted(text)}, id {answer.tokens[index][0]}"
        yield Mark(id, box, f"card {'owned' if own else 'free'} c{hue}", tip=tip)
        style = f"text s13 mid {'bold' if index == answer.flip else ''} {'hue' if own else ''} c{hue}"
        shown = fitted(token(text), WIDTH - 14, "s13 bold")
        yield Mark(f"{id}.text", (x + (WIDTH - 6) / 2, middle), " ".join(style.split()), shown)
        if index == answer.flip:
            yield Mark(f"{id}.flip", (x - 3, y - 3, WIDTH, HEIGHT + 6), "over alarm")


def strip(answers: list[Answer], num_steps: int) -> Strip:
    time = Strip(LEFT, TOP + len(answers) * PITCH + 34, RIGHT - LEFT, 40, num_steps)
    gone = [sum(a.flip is not None and a.flip <= i for a in answers) for i in range(num_steps)]
    time.marks = time_bars(time, gone)
    return time
