"""An engine made of a learner's own parts: those that the exercises in a folder hold, where they are solved.

Of each part's notebook, down to its check, the imports, functions, classes and assignments are run here, without the
engines and pictures that it plays with; then the part is examined with fresh cases. What passes goes into the engine;
for what does not, pagedlab's own stands in, and :attr:`MyEngine.rows` says which and why. This runs the learner's code
in the learner's own process: it gives no points.
"""

from __future__ import annotations

import ast
import contextlib
import io
import random
import sys
import tempfile
import types
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pagedlab.errors import PagedlabError
from pagedlab.grading.notebook import Cell, read_cells, read_reference
from pagedlab.grading.parsing import parse_cell
from pagedlab.grading.part import EXERCISES, ask_here, examine, load_exercise, load_part
from pagedlab.grading.plain import cells_of
from pagedlab.grading.restore import restore

# Part -> the names in it that go into an engine.
TAKEN = {
    "03.1": ("BlockTable",),
    "03.2": ("slot_mapping",),
    "05.1": ("attend",),
    "05.2": ("my_attention",),
    "06.1": ("BlockAllocator",),
    "06.2": ("fork",),
    "06.3": ("append_slot",),
    "07.1": ("FreeQueue",),
    "07.2": ("block_hashes",),
    "07.3": ("longest_hit",),
    "07.4": ("BlockPool",),
    "08.3": ("schedule_running",),
}


@dataclass
class MyEngine:
    """The learner's objects by name, and for each part (part, names, whose it is)."""

    own: dict[str, Any] = field(default_factory=dict)
    rows: list[tuple[str, str, str]] = field(default_factory=list)

    def v1(self) -> dict[str, Any]:
        """Replacements for ``LLM(...)``: table, pool, manager and scheduler. Empty where nothing is the learner's."""
        own, parts = self.own, {}
        if "BlockTable" in own or "slot_mapping" in own:
            parts["block_table"] = _table(own)
        if "BlockPool" in own or "FreeQueue" in own:
            parts["block_pool"] = _pool(own)
        if "block_hashes" in own or "longest_hit" in own:
            parts["kv_cache_manager"] = _manager(own)
        if "schedule_running" in own:
            parts["scheduler"] = _scheduler(own)
        return parts

    def attention(self) -> dict[str, Any]:
        """The learner's attention, apart: thirty layers of Python loops take their time."""
        return {"attention": self.own["my_attention"]} if "my_attention" in self.own else {}

    def paper(self) -> dict[str, Any]:
        """The same for ``LLM(..., era="paper")``: allocator, and a manager that asks for forks and copies."""
        own, parts = self.own, {}
        if "BlockAllocator" in own:
            parts["block_pool"] = own["BlockAllocator"]
        if "fork" in own or "append_slot" in own:
            parts["kv_cache_manager"] = _paper_manager(own)
        if "BlockTable" in own or "slot_mapping" in own:
            parts["block_table"] = _table(own)
        return parts

    def _repr_markdown_(self) -> str:
        lines = ["| part | | whose |", "|---|---|---|"]
        return "\n".join(lines + [f"| {part} | `{names}` | {whose} |" for part, names, whose in self.rows])

    def __repr__(self) -> str:
        return "\n".join(f"{part}  {names:<16} {whose}" for part, names, whose in self.rows)


def load(folder: str | Path = "../exercises") -> MyEngine:
    """Take what is solved in the exercise notebooks of ``folder``. A missing notebook counts as not solved."""
    mine = MyEngine()
    for name, wanted in TAKEN.items():
        number = name[:2]
        if number not in EXERCISES:
            continue
        objects, why = _take(Path(folder) / f"{load_exercise(number).name}.ipynb", name, wanted)
        mine.own |= objects
        whose = "yours" if objects else f"pagedlab's own ({why})"
        mine.rows.append((name, ", ".join(wanted), whose))
    if {"attend", "my_attention"} <= mine.own.keys():
        mine.own["my_attention"].__globals__["walk"] = mine.own["attend"]  # part 2 stands on part 1
    return mine


def _take(path: Path, name: str, wanted: tuple[str, ...]) -> tuple[dict[str, Any], str]:
    """The part's objects, or none and why."""
    part = load_part(name)
    if part.missing():
        return {}, part.missing()
    try:
        cells = restore(read_reference(name[:2]), read_cells(path)).cells
        objects = _run(cells[: _check(cells, name)], wanted)
    except PagedlabError as error:
        return {}, "the notebook is not there" if not path.exists() else str(error)
    missing = [w for w in wanted if w not in objects]
    if missing:
        return {}, f"{', '.join(missing)} is not defined there"
    cases = part.cases(random.Random(), 0)
    with contextlib.redirect_stdout(io.StringIO()):
        verdict = examine(part, cases, [ask_here(part, objects, case) for case in cases])
    if verdict.passed:
        return objects, ""
    return {}, "not solved yet" if verdict.property == "an answer" else f"yours is not right yet: {verdict.property}"


def _check(cells: list[Cell], name: str) -> int:
    return max(i for i, cell in enumerate(cells) if cell.role == "check" and cell.part == name)


def _run(cells: list[Cell], wanted: tuple[str, ...]) -> dict[str, Any]:
    """The wanted names that the cells define. A statement that fails gives nothing, and the next one is run."""
    module = types.ModuleType("submission")
    sys.modules["submission"] = module
    lines: list[str] = []
    places: list[list[Any]] = []
    statements: list[ast.stmt] = []
    for cell in cells:
        if cell.kind == "code" and cell.role != "check" and (tree := parse_cell(cell.source)):
            own = cell.source.split("\n")
            statements += ast.increment_lineno(tree, len(lines)).body
            places.append([len(lines) + 1, len(lines) + len(own), f"part {cell.part}" if cell.part else "a cell"])
            lines += own
    played = {alias.asname or alias.name for node in statements for alias in _played(node)}
    with tempfile.TemporaryDirectory(prefix="pagedlab-own-") as folder:
        file = str(Path(folder) / "own_parts.py")
        Path(file).write_text("\n".join(lines) + "\n", encoding="utf-8")
        cells_of(file, places)
        with contextlib.redirect_stdout(io.StringIO()):
            for node in statements:
                if _defines(node, played):
                    with contextlib.suppress(Exception):
                        exec(compile(ast.Module([node], []), file, "exec"), module.__dict__)
    return {name: module.__dict__[name] for name in wanted if name in module.__dict__}


def _played(node: ast.stmt) -> list[ast.alias]:
    """What a statement imports to play with: engines, stories, pictures. What is imported from pagedlab.kv is used."""
    ours = isinstance(node, ast.ImportFrom) and f"{node.module}.".startswith("pagedlab.")
    return node.names if ours and not node.module.startswith("pagedlab.kv") else []


def _defines(node: ast.stmt, played: set[str]) -> bool:
    if isinstance(node, (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return True
    assigns = isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign))
    return assigns and not any(isinstance(inner, ast.Name) and inner.id in played for inner in ast.walk(node))


# ------------------------------------------------------------------------ the parts, joined as the exercises join them


def _table(own: dict[str, Any]) -> Any:
    from pagedlab.kv import BlockTable

    slots = own.get("slot_mapping", lambda ids, size, start, end: BlockTable(size, ids).slot_mapping(start, end))

    class Table(own.get("BlockTable", BlockTable)):
        def slot_mapping(self, start: int, end: int) -> list[int]:
            return slots(self.block_ids, self.block_size, start, end)

    return Table


def _pool(own: dict[str, Any]) -> Any:
    from pagedlab.kv import BlockPool

    if "BlockPool" in own:

        class Pool(own["BlockPool"]):
            make_queue = own.get("FreeQueue", own["BlockPool"].make_queue)

        return Pool

    class OurPool(BlockPool):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.free_block_queue = own["FreeQueue"](self.blocks[1:])

    return OurPool


def _manager(own: dict[str, Any]) -> Any:
    from pagedlab.kv import KVCacheManager

    class Manager(KVCacheManager):
        def get_computed_blocks(self, request: Any) -> tuple[list, int]:
            self._name(request)
            if "longest_hit" not in own:
                return super().get_computed_blocks(request)
            find = self.block_pool.get_cached_block
            hits = own["longest_hit"](request.block_hashes, request.num_tokens, self.block_size, find)
            return hits, len(hits) * self.block_size

        def allocate_slots(self, request: Any, *args: Any, **kwargs: Any) -> Any:
            self._name(request)
            return super().allocate_slots(request, *args, **kwargs)

        def _name(self, request: Any) -> None:
            if "block_hashes" in own:
                request.block_hashes = own["block_hashes"](request.all_token_ids, self.block_size)

    return Manager


def _scheduler(own: dict[str, Any]) -> Any:
    from pagedlab.engine.scheduler import Scheduler

    class MyScheduler(Scheduler):
        def _schedule_running(self, output: Any, budget: int) -> int:
            scheduled, preempted = own["schedule_running"](self.running, self.waiting, self.kv_cache_manager)
            for request, new_blocks in scheduled:
                num_tokens = request.num_tokens - request.num_computed_tokens
                output.num_scheduled_tokens[request.request_id] = num_tokens
                output.new_block_ids[request.request_id] = [block.block_id for block in new_blocks]
                budget -= num_tokens
            output.preempted += preempted
            return budget

    return MyScheduler


def _paper_manager(own: dict[str, Any]) -> Any:
    from pagedlab.kv.paper import BlockSpaceManager

    class Manager(BlockSpaceManager):
        def fork(self, parent: Any, child: Any) -> None:
            if "fork" not in own:
                return super().fork(parent, child)
            self.block_tables[child.request_id] = own["fork"](self.block_tables[parent.request_id])
            return None

        def append_slot(self, sequence: Any) -> Any:
            if "append_slot" not in own:
                return super().append_slot(sequence)
            table = self.block_tables[sequence.request_id]
            return own["append_slot"](table, len(sequence.all_token_ids), self.block_size, self.gpu_allocator)

    return Manager
