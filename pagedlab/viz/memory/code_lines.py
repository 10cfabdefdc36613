"""Which lines did it? An event names its function; the statement in it that did the thing is found in the source that
runs here and now, so that the answer stays true when the source changes, and for a learner's own part.

For each kind of event there are a few words that such a statement has (vLLM's names, which a learner's part has too).
They are looked for in the function that the event names, and where it only passes the work on, in those that it calls.
Where nothing is found nothing is claimed.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

DEPTH = 3  # calls that are followed

# Regular expressions, each tried on one statement (of "if …:" and the like only the head).
_DOES = {
    "request_arrived": r"_queue\(|waiting\.append",
    "request_queued": r"waiting\.append\(",
    "request_admitted": r"running\.append\(",
    "request_preempted": r"running\.pop\(|(waiting|swapped)\.appendleft\(",
    "request_finished": r'finish_reason = (?!None)|status = "finished"',
    "request_forked": r"fork_table\(",
    "token_sampled": r"argmax\(|multinomial\(|\.sort\(key=|^return going_on",
    "prefix_looked_up": r"get_cached_block\(|hits\.append\(",
    "allocation_failed": r"get_num_free_blocks\(\)|^return (None|False)$",
    "blocks_allocated": r"popleft_n?\(|append\(.*allocate\(\)|\ballocate\(\) for\b",
    "block_touched": r"ref_cnt \+= 1|queue\.remove\(|fork_table\(",
    "block_cached": r"\.block_hash = (?!None)|hash_to_blocks\.setdefault\(",
    "block_evicted": r"_drop_hash\(|block_hash = None",
    "blocks_freed": r"prepend_n\(|append_n\(|allocator\.free\(",
    "block_copied": r"^new = .*allocate\(\)|^table\[-1\] = |^return last\.block_id",
    "blocks_swapped_out": r"_move\(",
    "blocks_swapped_in": r"_move\(",
    "free_queue_reordered": r"\bsort(ed)?\(|\b(min|max)\(|insort|heap|\.insert\(|(append|prepend)_n\(",
    "prefix_cache_reset": r"\.clear\(\)|block_hash = None",
    "slot_written": r"// (self\.block_)?size|block_ids\[|regions\[.*\]\[0\]",
    "table_edited": r"block_ids\[.*\] = ",
    "copy_on_write_switched": r"copy_on_write = ",
    "region_reserved": r"regions\[.*\] = ",
    "region_released": r"del self\.regions\[|regions\.pop\(",
    "step_started": r"\.schedule\(\)",
    "step_ended": r"update_from_output\(",
}


def doing(function: Callable[..., Any], kind: str) -> tuple[Callable[..., Any], list[int]]:
    """The function that did it, ``function`` or one that it calls, and the numbers of the lines (in its file) that did;
    none where they cannot be told. Raises OSError or TypeError where there is no source."""
    # Where the function tells the recorder itself, that is the line.
    patterns = [_DOES[kind]] if kind in _DOES else []
    patterns.append(r"\bev\." + "".join(word.capitalize() for word in kind.split("_")) + r"\b")
    level, seen = [function], {function}
    for _ in range(DEPTH + 1):
        for one in level:
            for pattern in patterns:
                if lines := [n for first, last, text in _statements(one) if re.search(pattern, text)
                             for n in range(first, last + 1)]:  # fmt: skip
                    return one, sorted(set(lines))
        level = [called for one in level for called in _called(one) if called not in seen]
        seen.update(level)
    return function, []


def _parsed(function: Callable[..., Any]) -> tuple[list[str], int, ast.AST]:
    lines, first = inspect.getsourcelines(function)
    return lines, first, ast.parse(textwrap.dedent("".join(lines)))


def _statements(function: Callable[..., Any]) -> Iterator[tuple[int, int, str]]:
    """First line, last line, and text on one line, of each statement; docstrings are none."""
    lines, start, tree = _parsed(function)
    for node in ast.walk(tree):
        if not isinstance(node, ast.stmt) or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        body = getattr(node, "body", None) or getattr(node, "cases", None)
        last = node.end_lineno
        if body:
            first_inside = body[0].pattern if isinstance(body[0], ast.match_case) else body[0]
            last = max(node.lineno, first_inside.lineno - 1)
        text = " ".join(line.strip() for line in lines[node.lineno - 1 : last])
        yield start + node.lineno - 1, start + last - 1, re.sub(r"\s*#.*", "", text)


def _called(function: Callable[..., Any]) -> Iterator[Callable[..., Any]]:
    """The functions of the same package that the function calls by a plain name, ``self.name`` or ``module.name``."""
    known = getattr(function, "__globals__", {})
    home = _owner(function)
    for node in ast.walk(_parsed(function)[2]):
        if not isinstance(node, ast.Call):
            continue
        called = node.func
        found = None
        if isinstance(called, ast.Name):
            found = known.get(called.id)
        elif isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name):
            where = known.get(called.value.id)
            if called.value.id == "self":
                found = getattr(home, called.attr, None)
            elif isinstance(where, ModuleType):
                found = getattr(where, called.attr, None)
        if inspect.isfunction(found) and found.__module__.split(".")[0] == function.__module__.split(".")[0]:
            yield found


def _owner(function: Callable[..., Any]) -> Any:
    """The class that a method was defined in."""
    thing: Any = inspect.getmodule(function)
    for name in function.__qualname__.split(".")[:-1]:
        thing = getattr(thing, name, None)
    return thing
