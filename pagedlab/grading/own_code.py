"""Is a part answered by the learner's code, or by pagedlab's own?

pagedlab holds what the exercises ask for, so ``from pagedlab.kv import BlockTable`` would be an answer without a
line written. It is refused, and so is a thin wrapper around it. What the notebook imports for the learner may be
used. This looks at the objects beside the learner's code, so it is no lock: whoever copies our source text gets past
it, and only a reader notices.
"""

from __future__ import annotations

import ast
import functools
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pagedlab.grading.notebook import Cell, reference_cells
from pagedlab.grading.parsing import parse
from pagedlab.grading.part import Part, Verdict

OURS = "pagedlab"
HINT = "What the notebook imports for you may be used. What the part asks for is to be your own code."


@dataclass(frozen=True)
class Rules:
    """What the notebook gives the learner. ``bases`` and ``methods``: of the classes in the part's own cell."""

    names: frozenset[str]  # everything that the notebook imports from pagedlab
    modules: frozenset[str]
    bases: frozenset[str]
    methods: dict[str, list[str]]  # class -> the methods that are to be written


def rules(part: Part) -> Rules | None:
    """From the reference notebook; None where there is no reference yet (its solution is being run)."""
    cells = reference_cells(part.name[:2])
    if cells is None:
        return None
    names, modules = set(), set()
    bases: set[str] = set()
    methods: dict[str, list[str]] = {}
    for cell in cells:
        if cell.kind != "code":
            continue
        tree = parse(cell.source)
        for module, name, _ in imports(tree):
            modules.add(module)
            names.add(name)
        if cell.role == "learner" and cell.part == part.name:
            for node in ast.walk(tree):
                if isinstance(node, ast.ClassDef):
                    bases |= {base.id for base in node.bases if isinstance(base, ast.Name)}
                    methods[node.name] = [
                        inner.name
                        for inner in node.body
                        if isinstance(inner, ast.FunctionDef)
                        and any(isinstance(statement, ast.Raise) for statement in inner.body)
                    ]
    allowed = frozenset(names - {""}) - set(part.answered_by)
    return Rules(allowed, frozenset(modules), frozenset(bases), methods)


def imports(tree: ast.AST) -> Iterator[tuple[str, str, str]]:
    """Each import from pagedlab: (module, name in it or "", the name that it gets here)."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and _is_ours(node.module or ""):
            for alias in node.names:
                yield node.module, alias.name, alias.asname or alias.name
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if _is_ours(alias.name):
                    yield alias.name, "", alias.asname or alias.name.split(".")[0]


def borrowed(part: Part, objects: dict[str, Any]) -> str | None:
    """What of ``objects`` is answered by pagedlab, in words; None where all is the learner's own."""
    allowed = rules(part)
    if allowed is None:
        return None
    for name, value in objects.items():
        if found := _borrowed(value, allowed, set(), top=True):
            return f"{name} is answered by pagedlab's own {found}"
    return None


def not_own(found: str) -> Verdict:
    return Verdict(False, "the answer is your own code", found, (HINT,))


def imports_the_grader(cells: list[Cell], part: Part) -> str | None:
    """Which import from the grader a learner's cell has that the notebook does not, in words."""
    given = {
        (module, name)
        for cell in reference_cells(part.name[:2]) or []
        if cell.kind == "code"
        for module, name, _ in imports(parse(cell.source))
    }
    for cell in cells:
        if cell.role not in ("learner", "added"):
            continue
        try:
            tree = parse(cell.source)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        for module, name, _ in imports(tree):
            if (module + ".").startswith(f"{OURS}.grading.") and (module, name) not in given:
                return f"a cell of yours imports {name or 'all'} from {module}, which knows the answers"
    return None


def _borrowed(value: Any, allowed: Rules, seen: set[int], top: bool = False) -> str | None:
    if id(value) in seen:
        return None
    seen.add(id(value))
    value = _unwrapped(value)
    if isinstance(value, types.ModuleType):
        return value.__name__ if _is_ours(value.__name__) else None
    if isinstance(value, type):
        return _borrowed_class(value, allowed, seen, top)
    if isinstance(value, types.FunctionType):
        if _is_ours(value.__module__):
            return None if not top and value.__name__ in allowed.names else f"{value.__module__}.{value.__qualname__}"
        return _borrowed_by_code(value.__code__, value, allowed, seen)
    if top and _is_ours(type(value).__module__):
        return f"{type(value).__module__}.{type(value).__qualname__}"
    return None


def _borrowed_class(cls: type, allowed: Rules, seen: set[int], top: bool) -> str | None:
    if _is_ours(cls.__module__):
        return None if not top and cls.__name__ in allowed.names else f"{cls.__module__}.{cls.__qualname__}"
    granted = {base for ours in cls.__mro__ if ours.__name__ in allowed.bases for base in ours.__mro__}
    for base in cls.__mro__:
        if base in granted:
            continue
        if _is_ours(base.__module__):
            return f"{base.__module__}.{base.__qualname__}"
        for member in vars(base).values():
            if isinstance(member, property):
                member = member.fget
            if isinstance(_unwrapped(member), types.FunctionType) and (
                found := _borrowed(member, allowed, seen, top=True)
            ):
                return found
    for name in allowed.methods.get(cls.__name__, ()) if top else ():
        method = _unwrapped(next((vars(base)[name] for base in cls.__mro__ if name in vars(base)), None))
        if _is_ours(getattr(method, "__module__", None)):
            return f"{method.__module__}.{method.__qualname__}"
    return None


def _borrowed_by_code(code: types.CodeType, function: types.FunctionType, allowed: Rules, seen: set[int]) -> str | None:
    """By the names that a function's code looks up, and those of the learner's functions that it uses."""
    for name in code.co_names:
        if _is_ours(name):  # an import inside the function
            module, given = sys.modules.get(name), name in allowed.modules
            taken = [n for n in code.co_names if hasattr(module, n) and not (given and n in allowed.names)]
            if taken or not given:
                return ".".join([name, *taken[:1]])
        elif name in function.__globals__ and (found := _borrowed(function.__globals__[name], allowed, seen)):
            return found
    for cell in function.__closure__ or ():
        try:
            held = cell.cell_contents
        except ValueError:  # not filled yet
            continue
        if found := _borrowed(held, allowed, seen):
            return found
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType) and (found := _borrowed_by_code(constant, function, allowed, seen)):
            return found
    return None


def _unwrapped(value: Any) -> Any:
    """The function inside of a partial, a method, a decorator that keeps ``fn`` (Triton's), and the like."""
    for _ in range(10):
        if isinstance(value, functools.partial):
            value = value.func
        elif isinstance(value, (types.MethodType, staticmethod, classmethod)):
            value = value.__func__
        elif type(value).__name__ in ("JITFunction", "InterpretedFunction"):
            value = value.fn
        else:
            break
    return value


def _is_ours(name: Any) -> bool:
    return isinstance(name, str) and (name == OURS or name.startswith(f"{OURS}."))
