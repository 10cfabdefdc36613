"""What a page without a kernel keeps of the widgets of a notebook: in the kernel that ran it, before it ends.

Who wants a page of a notebook runs the cell ``WATCH`` before its first cell and ``PUBLISH``, with a folder, after its
last: ``tools/build_site.py``, and the tests, whose one run of a chapter serves for its page, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pagedlab.viz.kit.export import place
from pagedlab.viz.kit.widget import Lab

WATCH = "from pagedlab.viz import published\npublished.watch()"
PUBLISH = "published.publish({!r})"
RUN_ON = 40  # steps that a live run is taken further than the notebook took it, to have something to step through

_shown: dict[str, tuple[Any, list[tuple[Lab, int]]]] = {}  # model id -> widget, and where its labs stood


def watch() -> None:
    """From now on keep in mind every widget that a cell shows, and where its labs stand at that moment."""
    import ipywidgets
    from IPython import get_ipython

    def note(widget: Any) -> Any:
        _shown[widget.model_id] = widget, [(lab, lab.position) for lab in _labs(widget)]
        return widget._repr_mimebundle_()

    formatter = get_ipython().display_formatter.mimebundle_formatter
    formatter.for_type(ipywidgets.Widget, note)


def publish(folder: str | Path) -> None:
    """Write a piece of HTML for each widget that was shown, ``MODEL_ID.html`` in ``folder``: its labs with all their
    steps, and the words around them."""
    labs = [lab for _, opened in _shown.values() for lab, _ in opened]
    for lab in labs:
        lab.forward(RUN_ON)
    for model_id, (widget, opened) in _shown.items():
        pieces = [f"<p>{words}</p>\n" for words in _words(widget)]
        for lab, position in opened:
            lab.seek(min(position, lab.num_steps))
            pieces.append(place(lab))
        (Path(folder) / f"{model_id}.html").write_text("".join(pieces), encoding="utf-8")


def _labs(widget: Any) -> Iterator[Lab]:
    if isinstance(widget, Lab):
        yield widget
    for child in getattr(widget, "children", ()):
        yield from _labs(child)


def _words(widget: Any) -> Iterator[str]:
    """The texts of a form: what it asks can be read on the page, if not answered."""
    import ipywidgets

    if isinstance(widget, ipywidgets.HTML):
        yield widget.value
    for child in getattr(widget, "children", ()):
        yield from _words(child)
