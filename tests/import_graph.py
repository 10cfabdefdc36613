"""Who imports whom, read from the source; nothing is run.

An import counts wherever it stands, in a function too, for one day it runs; under `if TYPE_CHECKING` it never does.
Packages count as Python treats them:

- To import `pagedlab.kv.cow` is to import `pagedlab.kv` first: both count. A module *of* `pagedlab.kv` that names its
  neighbour does not wait for the package, which was begun before either of them: only the neighbour counts.
- `from pagedlab.kv import BlockPool` waits for the package, inside of it too: a circle, where the package imports the
  module that says so.
- A name that a package loads when it is asked for (the table of a module's `__getattr__`) counts as the module where
  it lives, for the one who asks.

What is put together at run time (`import_module(f"…ex{number}")`) is not seen.
"""

import ast
from collections.abc import Iterator
from importlib.util import resolve_name
from itertools import accumulate
from pathlib import Path

Graph = dict[str, set[str]]


def import_graph(folders: dict[str, Path]) -> Graph:
    """What each module imports; `folders`: where each package lies. Others' packages are named by their first word."""
    files = {_name(package, folder, file): file for package, folder in folders.items() for file in folder.rglob("*.py")}
    trees = {name: ast.parse(file.read_text(encoding="utf-8")) for name, file in files.items()}
    late = {name: _loaded_late(name, tree, trees) for name, tree in trees.items() if files[name].stem == "__init__"}
    graph = {}
    for name, tree in trees.items():
        package = name if name in late else name.rpartition(".")[0]
        targets = {_home(*imported, late, trees) for imported in _imports(tree, package)}
        graph[name] = {module for target in targets for module in _run_first(target, name, trees)} - {name}
    return graph


def circles(graph: Graph) -> list[list[str]]:
    """The strongly connected components of more than one module: each in it imports itself, by way of others."""
    reached = {module: _reach(graph, module) for module in graph}
    together = {tuple(sorted(other for other in reached[m] if m in reached.get(other, ()))) for m in graph}
    return [list(component) for component in sorted(together) if component]


def _name(package: str, folder: Path, file: Path) -> str:
    return ".".join([package, *file.relative_to(folder).with_suffix("").parts]).removesuffix(".__init__")


def _imports(tree: ast.AST, package: str) -> Iterator[tuple[str, str]]:
    """(module, name that is taken from it, or "")."""
    for node in ast.iter_child_nodes(tree):
        match node:
            case ast.If(test=test) if ast.unparse(test).endswith("TYPE_CHECKING"):
                continue
            case ast.Import():
                yield from ((alias.name, "") for alias in node.names)
            case ast.ImportFrom():
                module = resolve_name("." * node.level + (node.module or ""), package)
                yield from ((module, alias.name) for alias in node.names)
        yield from _imports(node, package)


def _loaded_late(package: str, tree: ast.Module, modules: dict) -> dict[str, str]:
    """Name -> module of the package's tables whose values are modules, by their full name or less the package's."""
    found = {}
    for node in tree.body:
        match node:
            case ast.Assign(value=ast.Dict(values=[ast.Constant(value=str()), *_])):
                names = ast.literal_eval(node.value).items()
                found |= {n: full for n, value in names for full in (value, f"{package}.{value}") if full in modules}
    return found


def _home(module: str, name: str, late: dict[str, dict[str, str]], modules: dict) -> str:
    """The module that `from module import name` needs."""
    if f"{module}.{name}" in modules:
        return f"{module}.{name}"
    elsewhere = late.get(module, {}).get(name)
    return _home(elsewhere, name, late, modules) if elsewhere else module


def _run_first(target: str, importer: str, modules: dict) -> set[str]:
    """The target and the packages around it that the importer is not in itself; a stranger's package as one word."""
    if target not in modules:
        return {target.partition(".")[0]}
    around = accumulate(target.split("."), "{}.{}".format)
    return {module for module in around if module == target or not f"{importer}.".startswith(f"{module}.")}


def _reach(graph: Graph, start: str) -> set[str]:
    reached, ahead = set(), [start]
    while ahead:
        new = graph.get(ahead.pop(), set()) - reached
        reached |= new
        ahead += new
    return reached
