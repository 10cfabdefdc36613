"""Is a function the text of one of ours, copied?

Two functions are taken for the same text where they take as many arguments, do the same instructions in the same
order, with the same numbers and strings, and ask for the same names (globals and attributes). Names of arguments and
variables, comments, docstrings and annotations do not count. Small functions are alike by chance: the solutions and
the answers in tests/mutants have functions of up to 20 instructions that ours have, too. So what is smaller than
``SIZE`` is nobody's.

Whoever changes a line of ours has another text, and is not found out.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from inspect import CO_OPTIMIZED
from opcode import opmap
from pathlib import Path
from types import CodeType

SIZE = 35  # instructions; some five lines
LOAD_CONST = opmap["LOAD_CONST"]


def text_of(code: CodeType) -> tuple | None:
    """What stays when a function's text is copied, the same for equal texts; None for what is too small to be known."""
    kinds, arguments = code.co_code[::2], code.co_code[1::2]
    is_function = code.co_flags & CO_OPTIMIZED  # the names of a class's methods may be those that were asked for
    if not is_function or len(kinds) - kinds.count(0) < SIZE:  # 0 fills up places that are used while it runs
        return None
    # Which constant it is depends on whether there is a docstring before it.
    places = tuple(0 if kind == LOAD_CONST else place for kind, place in zip(kinds, arguments, strict=True))
    consts = code.co_consts
    if consts and type(consts[0]) is str:
        consts = consts[1:]  # a docstring stands first
    consts = tuple(const for const in consts if type(const) in (int, float, str))
    return code.co_argcount, code.co_kwonlyargcount, code.co_names, kinds, places, consts


def inside(code: CodeType) -> Iterator[CodeType]:
    """The code, and that of all functions and classes in it."""
    yield code
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from inside(const)


@lru_cache(maxsize=64)
def texts_in(place: str) -> dict[tuple, str]:
    """Of a Python file, or of all in a folder: the text of each function -> how it is called."""
    files = sorted(Path(place).rglob("*.py")) if Path(place).is_dir() else [Path(place)]
    return {
        text: code.co_qualname
        for file in files
        for code in inside(compile(file.read_text(encoding="utf-8"), str(file), "exec"))
        if (text := text_of(code))
    }
