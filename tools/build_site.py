"""Builds the course as a static site: ``python tools/build_site.py [--to FOLDER] [--jobs N] [NN ...]``.

Every chapter is run from top to bottom, then written as a page on which its labs step without a kernel, its charts
answer to the mouse, and its formulas are MathML. Where the reader's browser has WebGPU, the kernel lab runs its query
there, too. Nothing on a page is fetched from a network.
"""

from __future__ import annotations

import argparse
import html
import re
import shutil
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from plotly.io import to_html
from plotly.offline import get_plotlyjs
from tqdm import tqdm

sys.path.insert(0, str(Path(__file__).parent))
import site_pages as pages  # noqa: E402
from routes import ROOT, chapters, question  # noqa: E402

from pagedlab.viz import published  # noqa: E402

VIEW = "application/vnd.jupyter.widget-view+json"
CHART = "application/vnd.plotly.v1+json"
OWN_COLORS = re.compile(r"<style>(?:(?!</style>).)*\.output_html(?:(?!</style>).)*</style>", flags=re.S)
HIDDEN = shutil.ignore_patterns(".*")


def build(folder: Path, numbers: list[int], jobs: int) -> None:
    """Write the site of the chapters ``numbers`` into ``folder``. Raises RuntimeError where that cannot be written or a
    chapter fails, and for a link to what the whole site does not have."""
    there = chapters()
    try:  # better now than after the chapters have run
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise RuntimeError(f"{folder} cannot be written: {error.strerror}. Name another folder with --to.") from None
    with ProcessPoolExecutor(jobs) as pool:
        ran = list(tqdm(pool.map(run, [there[n] for n in numbers]), total=len(numbers), unit="chapter"))
    write_around(folder, numbers)
    for number, notebook in zip(numbers, ran, strict=True):
        write_chapter(folder, there[number], notebook, numbers)
    lost = [f"{page.name}: {link}" for page in sorted(folder.glob("*.html")) for link in dead_links(page)]
    if lost and len(numbers) == len(there):
        raise RuntimeError("The site has links that lead nowhere:\n" + "\n".join(lost))


def write_around(folder: Path, numbers: list[int]) -> None:
    """Write what the pages of the chapters ``numbers`` need: contents, documents, styles, scripts, exercises."""
    (folder / "plotly.min.js").write_text(get_plotlyjs(), encoding="utf-8")
    for name in pages.DOCS:
        (folder / f"{name}.html").write_text(pages.document(ROOT / "docs" / f"{name}.md"), encoding="utf-8")
    for picture in (ROOT / "docs").glob("*.svg"):
        shutil.copy(picture, folder)
    (folder / "index.html").write_text(pages.index(numbers), encoding="utf-8")
    (folder / "site.css").write_text(pages.styles(), encoding="utf-8")
    shutil.copytree(ROOT / "exercises", folder / "exercises", dirs_exist_ok=True, ignore=HIDDEN)


def write_chapter(folder: Path, path: Path, notebook: nbformat.NotebookNode, numbers: list[int]) -> None:
    """Write the page of the chapter at ``path``, of which ``notebook`` is a run: see :func:`of_a_page`."""
    (folder / f"{path.stem}.html").write_text(pages.chapter(path, notebook, numbers), encoding="utf-8")


def run(path: Path) -> nbformat.NotebookNode:
    """The chapter, run in its own folder, as a page shows it."""
    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        around = [nbformat.v4.new_code_cell(source) for source in (published.WATCH, published.PUBLISH.format(folder))]
        notebook.cells = [around[0], *notebook.cells, around[1]]
        try:
            NotebookClient(
                notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(path.parent)}}
            ).execute()
        except CellExecutionError as error:
            raise RuntimeError(f"{path.name} does not run, so there is no page of it: {error}") from None
        notebook.cells = notebook.cells[1:-1]
        return of_a_page(notebook, Path(folder))


def of_a_page(notebook: nbformat.NotebookNode, widgets: Path) -> nbformat.NotebookNode:
    """A notebook that has run, with HTML in the place of its widgets (from the folder ``widgets``) and charts, without
    what is not for a page."""
    notebook.cells = [cell for cell in notebook.cells if "colab" not in cell.metadata.get("tags", [])]
    for cell in notebook.cells:
        if cell.cell_type == "code":  # progress bars
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if VIEW in data:
                page = widgets / f"{data[VIEW]['model_id']}.html"
                output["data"] = {"text/html": page.read_text(encoding="utf-8")}
            elif CHART in data:
                output["data"] = {"text/html": of_a_chart(data[CHART])}
            elif "text/html" in data:  # shown source brings colours of its own, for a white page
                data["text/html"] = OWN_COLORS.sub("", data["text/html"])
    return notebook


def of_a_chart(chart: dict) -> str:
    """A chart of plotly as HTML, drawn by plotly's script on the page."""
    title, config = for_a_phone(chart["layout"]), chart.pop("config", {})
    return title + to_html(chart, config=config, include_plotlyjs=False, full_html=False, validate=False)


def for_a_phone(layout: dict) -> str:
    """Change a chart's layout so that it can be read on a narrow screen too. Returns its title, and what its vertical
    axis counts, as HTML: on the chart long ones would be cut."""
    title, unit = (html.escape(part.pop("title", {}).get("text") or "") for part in (layout, layout["yaxis"]))
    layout["margin"] = {"l": 10, "r": 10, "t": 10, "b": 10}
    layout["legend"] = {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"}
    layout["uniformtext"] = {"minsize": 11, "mode": "hide"}
    for axis in (layout["xaxis"], layout["yaxis"]):
        axis["automargin"] = True
        if axis.get("type") == "log":  # plotly writes the digits between powers of ten at three quarters of this size
            axis["tickfont"] = {"size": 15}
    return f"<p><strong>{title}</strong><br>{unit}</p>\n"


def dead_links(page: Path) -> list[str]:
    """Links of a page to files of the site that are not there."""
    links = set(re.findall(r'<a [^>]*href="([^"#]+)', page.read_text(encoding="utf-8")))
    return sorted(
        link for link in links if not re.match(r"https?:|mailto:", link) and not (page.parent / link).exists()
    )


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("chapters", nargs="*", type=int, metavar="NN", help="only these chapters")
    arguments.add_argument("--to", type=Path, default=ROOT / "site", metavar="FOLDER")
    arguments.add_argument("--jobs", type=int, default=2, help="chapters run at once")
    chosen = arguments.parse_args()
    unknown = sorted(set(chosen.chapters) - set(chapters()))
    if unknown:
        sys.exit(f"There is no chapter {unknown[0]}; there are {', '.join(map(str, chapters()))}.")
    if chosen.jobs < 1:
        sys.exit(f"jobs is {chosen.jobs}; at least one chapter is run at a time.")
    try:
        build(chosen.to, sorted(set(chosen.chapters)) or list(chapters()), chosen.jobs)
    except (RuntimeError, OSError) as error:
        sys.exit(str(error))
    print(f"{chosen.to / 'index.html'}  (chapters: {', '.join(question(path) for path in chapters().values())})")


if __name__ == "__main__":
    main()
