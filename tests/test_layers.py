"""The layers of CONTRIBUTING.md and DESIGN: who may import whom; and that nobody imports itself by way of others."""

import sys
from pathlib import Path

import pytest
from import_graph import Graph, circles, import_graph

# Layer -> the layers that it may import, beside itself and EVERYBODYS. A row names rows above it only.
MAY_IMPORT = {
    "pagedlab": "",
    "errors": "",
    "cache": "",
    "terminal": "",
    "trace": "",
    "kv": "trace",
    "kernels": "trace",
    "attention": "kernels trace",
    "model": "attention kernels",
    "executor": "attention kernels kv model trace",
    "engine": "executor kv model trace",  # of the model its configuration: a test holds that no torch comes along
    "watch": "trace",
    "attach": "terminal trace watch",
    "explain": "terminal",
    "parity": "engine executor kv terminal trace",
    "hunt": "engine kv trace",
    "viz.kit": "trace",
    "viz": "attach attention engine kv trace viz.kit",
    "grading": "attention engine explain hunt kernels kv model terminal trace viz",
    "doctor": "kernels model terminal",
    "generate": "engine",
    "demo": "engine terminal trace viz",
    "bench": "attention doctor engine executor kernels kv model parity trace viz watch",
    "cli": "attach bench demo doctor engine explain generate grading model parity terminal trace",
    "__main__": "cli",
}
EVERYBODYS = {"pagedlab", "errors", "cache"}  # the version, the one exception, the folder of what is kept
STANDARD_LIBRARY_ONLY = {"pagedlab", "errors", "cache", "terminal", "trace", "kv", "explain"}
LONGEST = {"pagedlab/engine/llm.py": 450}  # lines; it is the file that everything would be added to

# What is still to be mended. A line that is not needed any more fails: delete it.
LAYERS_TO_COME = []
KNOWN_UPWARD = []
KNOWN_CIRCLES = []


@pytest.fixture(scope="module")
def graph(root) -> Graph:
    return import_graph({"pagedlab": root / "pagedlab", "pagedlab.kernels": root / "kernels"})


def layer(module: str) -> str | None:
    """The row that a module belongs to, the longest that fits; None for other people's packages."""
    inside = module.removeprefix("pagedlab.")
    rows = [row for row in MAY_IMPORT if f"{inside}.".startswith(f"{row}.")]
    return max((row for row in rows if row != "pagedlab" or module == row), key=len, default=None)


def upward(graph: Graph) -> dict[str, list[str]]:
    """Layer -> layer that the table does not allow, and the imports that do it."""
    found: dict[str, list[str]] = {}
    for module, imported in graph.items():
        here = layer(module)
        allowed = {here, *MAY_IMPORT[here].split(), *EVERYBODYS}
        for other in imported:
            if (there := layer(other)) and there not in allowed:
                found.setdefault(f"{here} -> {there}", []).append(f"{module} -> {other}")
    return found


def edges(graph: Graph) -> set[str]:
    """The imports that close circles."""
    components = circles(graph)
    return {f"{m} -> {other}" for circle in components for m in circle for other in graph[m] & set(circle)}


def without(graph: Graph, imports: list[str]) -> Graph:
    return {module: {o for o in imported if f"{module} -> {o}" not in imports} for module, imported in graph.items()}


def test_every_module_is_in_a_layer_and_every_layer_has_modules(graph):
    assert [module for module in graph if layer(module) is None] == []
    assert {row for row in MAY_IMPORT if row not in set(map(layer, graph))} == set(LAYERS_TO_COME)


def test_the_table_of_layers_leads_downwards_only():
    rows = list(MAY_IMPORT)
    for position, row in enumerate(rows):
        assert set(MAY_IMPORT[row].split()) <= set(rows[:position]), row


def test_nothing_imports_upwards(graph):
    found = upward(graph)
    assert {pair: imports for pair, imports in found.items() if pair not in KNOWN_UPWARD} == {}
    assert set(KNOWN_UPWARD) - set(found) == set(), "mended: delete these lines of KNOWN_UPWARD"


def test_the_lowest_layers_import_the_standard_library_only(graph):
    strangers = {
        f"{module} -> {other}" for module, imported in graph.items() if layer(module) in STANDARD_LIBRARY_ONLY
        for other in imported if layer(other) is None and other not in sys.stdlib_module_names
    }  # fmt: skip
    assert strangers == set()


def test_no_module_imports_itself_by_way_of_others(graph):
    circular = {module: graph[module] & set(circle) for circle in circles(graph) for module in circle}
    assert edges(without(circular, KNOWN_CIRCLES)) == set()
    others = {known: [other for other in KNOWN_CIRCLES if other != known] for known in KNOWN_CIRCLES}
    mended = [known for known in KNOWN_CIRCLES if known not in edges(without(circular, others[known]))]
    assert mended == [], "mended: delete these lines of KNOWN_CIRCLES"


def written(folder: Path, files: dict[str, str]) -> Graph:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return import_graph({"pagedlab": folder})


def test_a_made_up_circle_is_found_also_through_a_function(tmp_path):
    graph = written(tmp_path, {
        "kv/__init__.py": "", "kv/a.py": "import json\nimport pagedlab.kv.b", "kv/b.py": "from .c import x",
        "kv/c.py": "def x():\n    from pagedlab.kv import a", "kv/d.py": "from pagedlab.kv import a",
    })  # fmt: skip
    assert circles(graph) == [["pagedlab.kv.a", "pagedlab.kv.b", "pagedlab.kv.c"]]
    assert edges(without(graph, ["pagedlab.kv.c -> pagedlab.kv.a"])) == set()


def test_a_made_up_import_upwards_is_found(tmp_path):
    graph = written(tmp_path, {
        "kv/a.py": "import pagedlab.engine.llm\nfrom pagedlab.trace import store", "engine/llm.py": "",
        "engine/__init__.py": "", "trace/__init__.py": "", "trace/store.py": "import numpy.linalg",
    })  # fmt: skip
    assert graph["pagedlab.trace.store"] == {"numpy"} and layer("numpy") is None
    assert list(upward(graph)) == ["kv -> engine"]
    assert sorted(upward(graph)["kv -> engine"]) == [
        "pagedlab.kv.a -> pagedlab.engine", "pagedlab.kv.a -> pagedlab.engine.llm"]  # fmt: skip


def test_a_package_counts_for_who_waits_for_it(tmp_path):
    """Not for its own module that names a neighbour; and a name loaded late counts as the module where it lives."""
    graph = written(tmp_path, {
        "__init__.py": "_HOME = {'LLM': 'pagedlab.engine'}",
        "engine/__init__.py": "from pagedlab.engine.request import Request\n_HOME = {'LLM': 'llm'}",
        "engine/llm.py": "from pagedlab.engine.request import Request", "engine/request.py": "",
        "engine/typed.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import pagedlab.engine.llm",
        "cli.py": "from pagedlab import LLM", "engine/waits.py": "from pagedlab.engine import Request",
    })  # fmt: skip
    assert graph["pagedlab.engine.llm"] == {"pagedlab.engine.request"}
    assert graph["pagedlab.engine.typed"] == {"typing"}
    assert graph["pagedlab.engine.waits"] == {"pagedlab.engine"}
    assert graph["pagedlab.cli"] == {"pagedlab.engine", "pagedlab.engine.llm"}
    assert circles(graph) == []
    (tmp_path / "engine/request.py").write_text("from pagedlab.engine import Scheduler")
    assert circles(import_graph({"pagedlab": tmp_path})) == [["pagedlab.engine", "pagedlab.engine.request"]]


@pytest.mark.parametrize("file, most", LONGEST.items())
def test_the_engine_stays_a_file_that_one_reads(file, most, root):
    assert len((root / file).read_text().splitlines()) < most
