"""A variable is named by a noun: what it holds, not what happened to it. (The front end: `eslint.config.js`.)"""

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NO_NOUNS = {"said", "told", "asked"}


def names(node: ast.AST) -> set[str]:
    """The names that a node of a syntax tree gives or uses; of functions their parameters' only, as a test's own name
    is a sentence."""
    match node:
        case ast.Name(id=name) | ast.arg(arg=name) | ast.Attribute(attr=name) | ast.keyword(arg=str(name)):
            return {name.strip("_")}
        case _:
            return set()


def test_what_is_said_told_or_asked_has_a_noun():
    found = []
    for folder in ("pagedlab", "kernels", "tests", "tools"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                found += [f"{path.relative_to(ROOT)}:{node.lineno}: {name}" for name in names(node) & NO_NOUNS]
    assert not found
