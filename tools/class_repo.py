"""Writes a template repository for a class: exercises, chapters, the grader, no solutions. `make class-repo DIR=…`.

    python tools/class_repo.py FOLDER [--seed N] [--url https://…]

The repository stands alone: it holds the package as a wheel made from this clone, and the versions that this clone is
tested with. It has a seed of its own, so that the predictions which it asks for are not those of anybody else's
solutions. ``--url`` is where the repository will be found, for Colab.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import nbformat

from pagedlab.grading.make_exercises import colab_source, exercise, text_of
from pagedlab.grading.notebook import COLAB_ID, SEED_LINE

ROOT = Path(__file__).resolve().parents[1]
PARTS = ROOT / "tools" / "class_repo"


def write(folder: Path, seed: int, url: str = "") -> None:
    """Write the repository into ``folder``, which must be new or empty."""
    (folder / ".github" / "workflows").mkdir(parents=True)
    (folder / "exercises").mkdir()
    wheel = build_wheel(folder)
    course = f"{url.rstrip('/')}/raw/main/{wheel.name}" if url else ""
    for path in sorted((ROOT / "solutions").glob("[0-9]*.ipynb")):
        nb = exercise(nbformat.read(path, as_version=4))
        (folder / "exercises" / path.name).write_text(text_of(for_class(nb, seed, course)), encoding="utf-8")
    ignore = shutil.ignore_patterns(".ipynb_checkpoints")
    shutil.copytree(ROOT / "notebooks", folder / "notebooks", ignore=ignore)
    for name in ("constraints.txt", "LICENSE", ".gitattributes"):
        shutil.copy(ROOT / name, folder / name)
    for name in ("webgpu.sh", "setup.sh", "grade.sh", "README.md"):
        text = (PARTS / name).read_text(encoding="utf-8").replace("@SEED@", str(seed))
        (folder / name).write_text(text, encoding="utf-8")
    shutil.copy(PARTS / "grade.yml", folder / ".github" / "workflows" / "grade.yml")
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    (folder / "SHA256SUMS").write_text(f"{digest}  {wheel.name}\n")
    (folder / ".gitignore").write_text(".venv/\nresults/\n.ipynb_checkpoints/\n__pycache__/\n")


def for_class(nb: nbformat.NotebookNode, seed: int, course: str) -> nbformat.NotebookNode:
    """An exercise with the class's seed. From the seed on, stored outputs would be those of another puzzle."""
    seeded = False
    for cell in nb.cells:
        if cell.cell_type != "code":
            continue
        if cell.id.startswith(COLAB_ID):
            cell.source = colab_source(course)
        if SEED_LINE.search(cell.source):
            seeded, cell.source = True, SEED_LINE.sub(rf"\g<1>{seed}", cell.source)
        if seeded:
            cell.outputs, cell.execution_count = [], None
    return nb


def build_wheel(folder: Path) -> Path:
    """The package as a wheel in ``folder``, built from a copy, so that nothing is left behind in this tree."""
    with tempfile.TemporaryDirectory() as name:
        tree = Path(name)
        for file in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
            shutil.copy(ROOT / file, tree / file)
        for part in ("pagedlab", "kernels", "tools/jupyter"):
            shutil.copytree(ROOT / part, tree / part, ignore=shutil.ignore_patterns("__pycache__"))
        command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "wheel", "--no-deps"]
        command += ["--no-build-isolation", "--wheel-dir", str(folder), str(tree)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"The package could not be built.\n{done.stderr}")
    (wheel,) = folder.glob("pagedlab-*.whl")
    return wheel


def cannot_write(folder: Path, error: OSError) -> str:
    return f"{folder} cannot be written: {error.strerror}. Name a folder whose place is yours, and has room."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("folder", help="a new or empty folder")
    parser.add_argument("--seed", type=int, help="of the class; by default a random one")
    parser.add_argument("--url", default="", help="where the repository will be found, for Colab")
    arguments = parser.parse_args()
    folder = Path(arguments.folder) if arguments.folder else None
    if folder is None:
        sys.exit("Say where the repository is to be written: make class-repo DIR=../my-class")
    try:
        if os.path.lexists(folder) and (not folder.is_dir() or any(folder.iterdir())):
            sys.exit(f"{folder} is there already. Give a new or an empty folder.")
    except OSError as error:
        sys.exit(cannot_write(folder, error))
    seed = arguments.seed if arguments.seed is not None else 1000 + secrets.randbelow(9000)
    if not 0 <= seed < 10**9:
        sys.exit(f"seed is {seed}; it is a number from 0 to 999,999,999.")
    try:
        write(folder, seed, arguments.url)
    except OSError as error:
        sys.exit(cannot_write(folder, error))
    print(f"{folder}: {len(list((folder / 'exercises').iterdir()))} exercises, seed {seed}. Next: docs/instructors.md.")


if __name__ == "__main__":
    main()
