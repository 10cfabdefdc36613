"""How a page of the static site looks: a chapter, a document, the table of contents."""

from __future__ import annotations

import html
import re
from pathlib import Path

import latex2mathml.converter
import nbformat
from nbconvert import HTMLExporter
from nbconvert.filters import markdown2html
from pygments.formatters import HtmlFormatter
from routes import ROUTES, chapters, question

from pagedlab.viz.kit import export

DOCS = ("one-page", "glossary", "map", "where-next", "eviction", "learners")
CODE = re.compile(r"(```.*?```|`[^`\n]*`)", flags=re.S)
MATH = re.compile(r"\$\$(.+?)\$\$|(?<![\\$\w])\$([^$\n]+?)\$(?!\w)", flags=re.S)
# Files of the repository that the site has no page of: their name stays, as code.
ELSEWHERE = re.compile(r"\[([^\]]+)\]\((?:\.\./)+(?!exercises/|docs/|notebooks/)[^)]+\)|\[([^\]]+)\]\(instructors.md\)")
HERE = Path(__file__).parent


def chapter(path: Path, notebook: nbformat.NotebookNode, numbers: list[int]) -> str:
    """A chapter that has just been run, with links to those before and after it."""
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = for_the_site(cell.source)
    body, _ = HTMLExporter(template_name="basic").from_notebook_node(notebook)
    place, there = numbers.index(int(path.name[:2])), chapters()
    around = [there[numbers[i]] if 0 <= i < len(numbers) else None for i in (place - 1, place + 1)]
    links = [(f"{other.stem}.html", f"{other.name[:2]} · {question(other)}") for other in around if other]
    has_chart = "plotly-graph-div" in body
    scripts = '<script src="plotly.min.js" charset="utf-8"></script>\n' if has_chart else ""
    labs = export.front_end() if 'class="pictures"' in body else ""
    return page(f"{path.name[:2]} · {question(path)}", body, links=links, scripts=scripts, end=labs)


def document(path: Path) -> str:
    """A page of ``docs/``."""
    text = for_the_site(path.read_text(encoding="utf-8"))
    return page(text.partition("\n")[0].lstrip("# "), markdown2html(text))


def index(numbers: list[int]) -> str:
    """The table of contents: routes, and each chapter's question with what it takes."""
    there = chapters()
    rows = ["| chapter | the question | you will be able to | minutes |", "|---|---|---|---|"]
    for number in numbers:
        first = nbformat.read(there[number], as_version=4).cells[0].source.replace("\n", " ")
        can = re.search(r"After this chapter you can\*\*,? (.+?)\. ", first + " ")
        minutes = re.search(r"\*\*Time:\*\* (\d+)", first)
        rows.append(
            f"| {number:02d} | [{question(there[number])}]({there[number].stem}.html) | {can[1] if can else ''} | "
            f"{minutes[1] if minutes else ''} |"
        )
    routes = [f"* **{route}**: {', '.join(f'{stop:02d}' for stop in stops)}" for route, stops in ROUTES.items()]
    text = (HERE / "site_index.md").read_text(encoding="utf-8")
    text = text.replace("CHAPTERS", "\n".join(rows)).replace("ROUTES", "\n".join(routes))
    return page("pagedlab", markdown2html(text))


def page(title: str, body: str, *, links: list[tuple[str, str]] = (), scripts: str = "", end: str = "") -> str:
    around = "".join(f'<a href="{target}">{html.escape(text)}</a>' for target, text in links)
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{html.escape(title)}</title>\n'
        '<meta name="viewport" content="width=device-width">\n<link rel="icon" href="data:,">\n'
        f'<link rel="stylesheet" href="site.css">\n{scripts}</head>\n<body>\n'
        f'<nav><a href="index.html">pagedlab</a>{around}</nav>\n<main>\n{body}</main>\n{end}</body>\n</html>\n'
    )


def styles() -> str:
    """One style sheet for all pages: text, code in both themes, labs."""
    light = HtmlFormatter(style="default").get_style_defs(".highlight")
    dark = HtmlFormatter(style="github-dark").get_style_defs(".highlight")
    own = (HERE / "site.css").read_text(encoding="utf-8")
    return f"{light}\n@media (prefers-color-scheme: dark) {{\n{dark}\n}}\n{export.styles()}\n{own}"


def for_the_site(text: str) -> str:
    """Markdown of the repository as markdown of the site: links to its pages, formulas as MathML."""
    text = ELSEWHERE.sub(lambda found: f"`{found[1] or found[2]}`", text)
    text = re.sub(r"\]\((?:\.\./)?(?:notebooks/|docs/)?([\w-]+)\.(?:ipynb|md)(#[^)]*)?\)", r"](\1.html\2)", text)
    text = re.sub(r"\]\((?:\.\./)?exercises/", "](exercises/", text)
    pieces = CODE.split(text)  # every second piece is code
    pieces[::2] = [MATH.sub(_mathml, piece) for piece in pieces[::2]]
    return "".join(pieces)


def _mathml(found: re.Match) -> str:
    display = "block" if found[1] else "inline"
    return latex2mathml.converter.convert((found[1] or found[2]).strip(), display=display)
