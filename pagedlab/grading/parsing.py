"""Read Python source, from several threads, and a notebook's cells, which are not quite Python."""

from __future__ import annotations

import ast
from threading import Lock

_one_at_a_time = Lock()


def parse(source: str) -> ast.Module:
    """`ast.parse`, one thread at a time: up to Python 3.12 its depth is counted for all threads together, and two at
    once end, now and then, in "SystemError: AST constructor recursion depth mismatch" (cpython issue 106905). Raises
    SyntaxError as `ast.parse` does."""
    with _one_at_a_time:
        return ast.parse(source)


def parse_cell(source: str) -> ast.Module | None:
    """A cell, its magics turned into calls as IPython does; None for what is no Python even so."""
    from IPython.core.inputtransformer2 import TransformerManager

    for turned in (lambda: source, lambda: TransformerManager().transform_cell(source)):
        try:
            return parse(turned())
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
    return None
