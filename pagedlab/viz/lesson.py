"""Small things that every chapter uses: who produced this picture, the package's own source, the reader's
predictions."""

from __future__ import annotations

import ast
import html
import importlib.util
import inspect
import textwrap
from pathlib import Path
from typing import Any

from pagedlab.errors import PagedlabError

SCROLLS = "white-space: pre; overflow-x: auto"


def badge(header: dict[str, Any]) -> str:
    """What produced a picture, from a trace's header: ``live · CPU · float32``, ``recorded · NVIDIA H200 ·
    2026-11-29`` or, of another engine than ours, ``recorded · vLLM 0.32.0 · CPU · 2026-12-01``."""
    live = bool(header.get("live"))
    last = header["dtype"] if live else header["date"][:10]
    return " · ".join(filter(None, ("live" if live else "recorded", header.get("engine"), header["device"], last)))


def show_source(thing: Any) -> Any:
    """The source of a function or class of pagedlab, as it runs, under the name by which it is imported. Long lines can
    be scrolled to: JupyterLab by itself would break them, inside words too.

    ``thing`` may be that name, "module.name": then nothing is imported, so a Triton kernel can be read on a machine
    that has no Triton. Raises PagedlabError for a name that is not there.
    """
    from IPython.display import Code, Markdown, display

    if isinstance(thing, str):
        name, source = thing, _source_of(thing)
    else:
        name, source = f"{thing.__module__}.{thing.__qualname__}", inspect.getsource(thing)
    display(Markdown(f"`{name}`"))

    class Scrolled(Code):
        def _repr_html_(self) -> str:
            return super()._repr_html_().replace("<pre>", f'<pre style="{SCROLLS}">')

    return Scrolled(textwrap.dedent(source).strip("\n"), language="python")


class WgslSource:
    """A kernel of ``kernels/wgsl``, shown as it runs, under a line that folds it away."""

    def __init__(self, name: str, unfolded: bool) -> None:
        spec = importlib.util.find_spec("pagedlab.kernels.wgsl")
        path = Path(spec.submodule_search_locations[0], f"{name}.wgsl")
        if not path.exists():
            raise PagedlabError(f"There is no kernel {name!r} in WGSL; there are {', '.join(_wgsl_in(path.parent))}.")
        self.name, self.text, self.unfolded = name, path.read_text(encoding="utf-8").strip("\n"), unfolded

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        summary = f"<summary>In WGSL: <code>kernels/wgsl/{self.name}.wgsl</code></summary>"
        code = f'<pre style="{SCROLLS}"><code>{html.escape(self.text)}</code></pre>'
        return f"<details{' open' * self.unfolded}>{summary}\n{code}</details>"


def show_wgsl(name: str, unfolded: bool = False) -> WgslSource:
    """The kernel ``name`` in WGSL. Raises PagedlabError where there is none."""
    return WgslSource(name, unfolded)


def _wgsl_in(folder: Path) -> list[str]:
    return sorted(path.stem for path in folder.glob("*.wgsl"))


def _source_of(name: str) -> str:
    """The lines of a module's function or class, decorators included, read from its file."""
    module, _, wanted = name.rpartition(".")
    spec = importlib.util.find_spec(module) if module else None
    if spec is None or not spec.origin:
        raise PagedlabError(f"There is no module {module!r} to show {wanted!r} of.")
    text = Path(spec.origin).read_text(encoding="utf-8")
    for node in ast.parse(text).body:
        if getattr(node, "name", None) == wanted:
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            return "\n".join(text.splitlines()[first - 1 : node.end_lineno])
    raise PagedlabError(f"{module} has no function or class {wanted!r}.")


class Predictions:
    """The reader's own numbers, and what happened.

    ``ask`` shows an input that nobody has to fill in: an empty one counts as "no guess" and nothing waits for it, so
    a notebook runs from top to bottom unattended. ``reveal`` compares, ``summary`` does so for all at the end.
    """

    def __init__(self) -> None:
        self._inputs: dict[str, Any] = {}
        self._questions: dict[str, str] = {}
        self._actual: dict[str, float] = {}

    def ask(self, name: str, question: str) -> Any:
        """An input for the number called ``name``. Asking again replaces the input (a cell that is run twice)."""
        import ipywidgets

        self._questions[name] = question
        self._inputs[name] = ipywidgets.Text(placeholder="your guess", layout={"width": "160px"})
        label = ipywidgets.HTML(f"<b>Predict:</b> {html.escape(question)}")
        return ipywidgets.VBox([label, self._inputs[name]])

    def guess(self, name: str) -> float | None:
        """What the reader typed, as a number; None where that is nothing or no number."""
        self._check(name)
        text = self._inputs[name].value.strip().replace(",", "").replace("_", "")
        try:
            return float(text)
        except ValueError:
            return None

    def reveal(self, name: str, actual: float) -> str:
        """One line: the guess beside what happened."""
        self._check(name)
        self._actual[name] = actual
        guess = self.guess(name)
        if guess is None:
            return f"It is {_number(actual)}. (No guess made.)"
        if guess == actual:
            return f"You said {_number(guess)}, and it is. ✓"
        if guess and actual and guess > 0 < actual:
            factor = max(guess / actual, actual / guess)
            return f"You said {_number(guess)}; it is {_number(actual)}: off by a factor of {factor:.3g}."
        return f"You said {_number(guess)}; it is {_number(actual)}."

    def summary(self) -> Any:
        """A table of all that was asked, guessed and found."""
        from IPython.display import Markdown

        rows = ["| question | your guess | what happened |", "|---|---|---|"]
        for name, question in self._questions.items():
            guess, actual = self.guess(name), self._actual.get(name)
            cells = ["–" if value is None else _number(value) for value in (guess, actual)]
            rows.append(f"| {question} | {cells[0]} | {cells[1]} |")
        return Markdown("\n".join(rows))

    def _check(self, name: str) -> None:
        if name not in self._inputs:
            raise PagedlabError(
                f"Nothing called {name!r} was asked; asked were: {', '.join(self._inputs) or 'nothing'}."
            )


def _number(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.4g}"
