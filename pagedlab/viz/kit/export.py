"""A lab as one page that needs no kernel: the front end itself, and every picture it could ask for."""

from __future__ import annotations

import html
import json
from os import PathLike
from pathlib import Path
from typing import Any

from pagedlab.errors import PagedlabError, as_path
from pagedlab.viz.kit.messages import Messages as Lab
from pagedlab.viz.kit.predicting import SCORE
from pagedlab.viz.kit.script import script
from pagedlab.viz.kit.style import STATIC

MOST_PICTURES = 1500  # beyond that only the selected request's


def place(lab: Lab) -> str:
    """Where the lab goes on a page, with every picture of it.

    It opens where the lab stands; if that is the end, where nothing is left to do, at the first step that shows
    something.
    """
    recorded, at = lab.for_export(), lab.position
    try:
        if recorded.position == recorded.num_steps:
            recorded.rewind()
        still = recorded.svg()  # what stands there where scripts do not run; where they do, the lab takes its place
        messages, names = _messages(recorded)
    finally:
        if recorded is lab:
            lab.move(at)
        else:
            recorded.close()
    # In a script element nothing but "</" ends the text; JSON may write it with a backslash.
    predicting = {"names": names, "score": SCORE}
    data = {"picture": messages[0], "recorded": messages[1:], "predicting": predicting} | lab.for_page()
    text = json.dumps(data, ensure_ascii=False).replace("</", "<\\/")
    return (
        f'<div class="still">{still}</div>\n'
        f'<script type="application/json" class="pictures">{text}</script>\n'
    )


def front_end() -> str:
    """What brings the labs of a page to life; it stands behind them, once."""
    return f'<script type="module">\n{script("page.js")}</script>\n'


def styles() -> str:
    picture = "display: block; max-width: 960px; width: 100%; height: auto;"
    still = f".still {{ margin-bottom: 12px; }}\n.still > svg {{ {picture} }}"
    return f"{(STATIC / 'lab.css').read_text(encoding='utf-8')}\n{still}\n"


def save_html(lab: Lab, path: str | PathLike, *below: Lab) -> Path:
    """Write the page, see :func:`place`. ``below``: other labs on the same page, each with its own steps.
    Raises PagedlabError where the file cannot be written, and for what is no path."""
    path = as_path(path)
    page = (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f"<title>{html.escape(lab.title())}</title>\n"
        '<meta name="viewport" content="width=device-width">\n'
        f"<style>\n:root {{ color-scheme: light dark; }}\nbody {{ margin: min(16px, 2vw); }}\n{styles()}</style>\n"
        "</head>\n<body>\n"
        f"{''.join(map(place, (lab, *below)))}{front_end()}</body>\n</html>\n"
    )
    try:
        path.write_text(page.encode("utf-8", "replace").decode(), encoding="utf-8")
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the name
        what = getattr(error, "strerror", None) or error
        raise PagedlabError(f"The page could not be written to {path}: {what}.") from error
    return path


def _messages(lab: Lab) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """What the front end would have been sent if somebody had gone through all steps, for each selection; the first one
    is the picture to open with. And what each mark that can be pointed at is called."""
    names: dict[str, str] = {}

    def message(have: tuple[int, str | None] | None = None) -> dict[str, Any]:
        sent = lab._message(have, whole=have is None)
        asks = [question.for_page() for question in lab.asks()]
        if asks:
            shown = lab._sent[lab.position, lab.selected][1].values()
            names.update((mark.id, lab.name_of(mark.id)) for mark in shown if "askable" in mark.cls.split())
        sent |= {"asks": asks, "panes": {}, "stale": [], "question": "" if asks else sent["question"]}
        sent["run"]["over"] = sent["run"]["over"] or "End of the recording"
        return sent

    at, selected = lab.position, lab.selected
    first = message()
    others = [name for name in lab.selections() if name != selected]
    if (lab.num_steps + 1) * (len(others) + 1) > MOST_PICTURES:
        others = []
    messages, have = [first], (at, selected)
    for name in [selected, *others]:
        lab.choose(name)
        for position in range(lab.num_steps + 1):
            if (position, name) != (at, selected):
                lab.move(position)
                messages.append(message(have))
                have = (lab.position, lab.selected)
    lab.choose(selected)
    lab.move(at)
    return messages, names
