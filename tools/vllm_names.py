"""The names that vLLM's sources have, for the table of claims: ``python tools/vllm_names.py FOLDER/vllm-0.32.0 …``.

Each FOLDER is an unpacked release, named as the table's column ``source`` names it. Its cited files are read, and
``docs/claims/<source>.json`` is written: ``{path: [class, function, Class.method, Class.attribute, …]}``; for a folder
(its path ends in ``/``) the files in it. A citation of something that is not there is an error.
"""

from __future__ import annotations

import argparse
import ast
import csv
import json
import re
from pathlib import Path

CLAIMS = Path(__file__).resolve().parent.parent / "docs" / "claims"


def claims() -> list[dict[str, str]]:
    """All rows of ``docs/claims/NN.csv``, each with its ``chapter``."""
    rows = []
    for path in sorted(CLAIMS.glob("[0-9][0-9].csv")):
        with path.open(encoding="utf-8", newline="") as file:
            rows += [{"chapter": path.stem, **row} for row in csv.DictReader(file)]
    return rows


def targets(node: ast.AST) -> list[ast.expr]:
    """What a statement assigns to; tuples are taken apart."""
    found = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [one for target in found for one in getattr(target, "elts", [target])]


def names(body: list[ast.stmt], owner: str = "") -> set[str]:
    """What ``body`` defines: classes, functions and assigned names, those of a class with its name in front; of a
    method also what it assigns to ``self``."""
    found = set()
    for node in body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(owner + node.name)
        if isinstance(node, ast.ClassDef):
            found |= names(node.body, f"{owner}{node.name}.")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assigned = [ast.unparse(target) for part in ast.walk(node) for target in targets(part)]
            found |= {owner + one.removeprefix("self.") for one in assigned if re.fullmatch(r"self\.\w+", one)}
        elif isinstance(node, ast.If | ast.Try | ast.With):
            found |= names([part for part in ast.iter_child_nodes(node) if isinstance(part, ast.stmt)], owner)
        found |= {owner + one.id for one in targets(node) if isinstance(one, ast.Name)}
    return found


def names_in(path: Path) -> list[str]:
    """The sorted names of a Python file; the files of a folder; nothing for another file."""
    if path.is_dir():
        return sorted(one.name for one in path.iterdir() if one.name != "__pycache__")
    return sorted(names(ast.parse(path.read_text(encoding="utf-8")).body)) if path.suffix == ".py" else []


def write(folder: Path) -> None:
    """Write the list of the release in ``folder``. Raises SystemExit where a claim cites what is not in it."""
    cited = [row for row in claims() if row["source"] == folder.name]
    missing = sorted({row["path"] for row in cited if not (folder / row["path"]).exists()})
    found = {path: names_in(folder / path) for path in sorted({row["path"] for row in cited} - set(missing))}
    missing += sorted(
        f"{row['name']} in {row['path']}"
        for row in cited
        if row["name"] and row["path"] in found and row["name"] not in found[row["path"]]
    )
    if missing:
        raise SystemExit(f"{folder.name} has no " + ", no ".join(missing) + "; the list is not written")
    lines = ",\n".join(f"{json.dumps(path)}: {json.dumps(there)}" for path, there in found.items())
    (CLAIMS / f"{folder.name}.json").write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")
    print(f"{folder.name}: {len(found)} files, {sum(map(len, found.values()))} names")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER", help="a release, as FOLDER/vllm-0.32.0")
    for each in parser.parse_args().folders:
        write(each.resolve())
