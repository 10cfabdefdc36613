"""A lab as one page that needs no kernel: the front end itself, and every picture it could ask for."""

from __future__ import annotations

import html
import json
from os import PathLike
from pathlib import Path
from typing import Any

from pagedlab.errors import PagedlabError, as_path
from pagedlab.viz.kit.messages import Messages as Lab
from pagedlab.viz.kit.style import STATIC

MOST_PICTURES = 1500  # beyond that only the selected request's

# What anywidget gives the front end in a notebook, for a page without a kernel.
_START = """
for (const element of document.querySelectorAll("script[id^=pictures]")) {
  const data = JSON.parse(element.textContent);
  const model = { get: (name) => data[name], on() {}, off() {}, send() { throw new Error("no kernel"); } };
  const lab = factory();
  lab.initialize({ model });
  lab.render({ model, el: document.getElementById(element.id.replace("pictures", "lab")) });
}
"""


def place(lab: Lab, id: str) -> str:
    """Where the lab goes on a page, with every picture of it. ``id``: another one for each lab of a page."""
    recorded = lab.for_export()
    try:
        still = recorded.svg()  # what stands there where scripts do not run; where they do, the lab takes its place
        messages = _messages(recorded)
    finally:
        if recorded is not lab:
            recorded.close()
    # In a script element nothing but "</" ends the text; JSON may write it with a backslash.
    data = json.dumps({"picture": messages[0], "recorded": messages[1:]}, ensure_ascii=False).replace("</", "<\\/")
    return (
        f'<div id="lab{id}" class="still">{still}</div>\n'
        f'<script type="application/json" id="pictures{id}">{data}</script>\n'
    )


def front_end() -> str:
    """What brings the labs of a page to life; it stands behind them, once."""
    script = (STATIC / "lab.js").read_text(encoding="utf-8").replace("export default", "const factory =")
    return f'<script type="module">\n{script}{_START}</script>\n'


def styles() -> str:
    picture = "display: block; max-width: 960px; width: 100%; height: auto;"
    still = f".still {{ margin-bottom: 12px; }}\n.still > svg {{ {picture} }}"
    return f"{(STATIC / 'lab.css').read_text(encoding='utf-8')}\n{still}\n"


def save_html(lab: Lab, path: str | PathLike, *below: Lab) -> Path:
    """Write the page; it opens at the lab's own step. ``below``: other labs on the same page, each with its own steps.
    Raises PagedlabError where the file cannot be written, and for what is no path."""
    path = as_path(path)
    places = [place(one, str(number or "")) for number, one in enumerate((lab, *below))]
    page = (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f"<title>{html.escape(lab.title())}</title>\n"
        '<meta name="viewport" content="width=device-width">\n'
        f"<style>\n:root {{ color-scheme: light dark; }}\nbody {{ margin: 16px; }}\n{styles()}</style>\n"
        "</head>\n<body>\n"
        f"{''.join(places)}{front_end()}</body>\n</html>\n"
    )
    try:
        path.write_text(page.encode("utf-8", "replace").decode(), encoding="utf-8")
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the name
        what = getattr(error, "strerror", None) or error
        raise PagedlabError(f"The page could not be written to {path}: {what}.") from error
    return path


def _messages(lab: Lab) -> list[dict[str, Any]]:
    """What the front end would have been sent if somebody had gone through all steps, for each selection; the first one
    is the picture to open with."""
    at, selected = lab.position, lab.selected
    first = lab._message(whole=True)
    others = [name for name in lab.selections() if name != selected]
    if (lab.num_steps + 1) * (len(others) + 1) > MOST_PICTURES:
        others = []
    messages, have = [first], (at, selected)
    for name in [selected, *others]:
        lab.choose(name)
        for position in range(lab.num_steps + 1):
            if (position, name) != (at, selected):
                lab.move(position)
                messages.append(lab._message(have))
                have = (lab.position, lab.selected)
    lab.choose(selected)
    lab.move(at)
    for message in messages:
        message |= {"panes": {}, "question": "", "verdict": "", "stale": []}
        message["run"]["over"] = message["run"]["over"] or "End of the recording"
    return messages
