"""A recording of vLLM v0.2.0's ``BlockSpaceManager`` (the paper's era), replayed against ours: same tables, same
reference counts, same copies, same stack of free blocks after every operation."""

from __future__ import annotations

from typing import Any

from pagedlab.engine.request import Request, SamplingParams
from pagedlab.engine.sequence_group import SequenceGroup
from pagedlab.errors import PagedlabError
from pagedlab.kv.paper import BlockSpaceManager
from pagedlab.parity.report import Difference, first_difference, need

# What was asked for, and what a line tells besides the state.
INPUTS = {
    "add": {"seq": int, "prompt_len": int},
    "append": {},
    "fork": {"parent": int, "child": int},
    "finish_seq": {"seq": int},
    "finish": {},
    "swap_out": {},
    "swap_in": {},
    "preempt": {},
    "resume": {},
}
RESULTS = {
    "add": ("admitted",),
    "resume": ("admitted",),
    "append": ("allocated", "copies"),
    "swap_out": ("done", "mapping"),
    "swap_in": ("done", "mapping"),
}
STATE = ("tables", "ref", "free_gpu", "free_cpu")


def compare(path: Any, header: dict[str, Any], lines: list[dict[str, Any]]) -> Difference | None:
    """The first difference, or None. Raises PagedlabError for a recording that contradicts itself."""
    replay = PaperReplay(header, f"{path}, line 1")
    for number, line in enumerate(lines, start=2):
        where = f"{path}, line {number}"
        op = line.get("op")
        if not isinstance(op, str) or op not in INPUTS:
            raise PagedlabError(f"{where}: unknown operation {op!r}; known: {', '.join(INPUTS)}.")
        need(line, where, group=str, **INPUTS[op])
        for name in (*RESULTS.get(op, ()), *STATE):
            if name not in line:
                raise PagedlabError(f"{where} lacks the field {name!r}.")
        need(line, where, tables=dict, ref=dict)
        try:
            ours = replay.do(op, line, where)
        except PagedlabError:
            raise
        except ValueError as error:  # the manager refuses to do what the recording says was done
            ours = {op: f"refused: {error}"}
            line = line | {op: "done"}
        # In which order the tables and counts are written down says nothing about memory.
        expected = line | {name: dict(sorted(line[name].items())) for name in ("tables", "ref")}
        found = first_difference(f"operation {number - 1} (line {number}, {op} {line['group']})", expected, ours)
        if found:
            return found
    return None


class PaperReplay:
    """Our manager, and the groups that the recording has named so far."""

    def __init__(self, header: dict[str, Any], where: str) -> None:
        need(header, where, num_gpu_blocks=int, num_cpu_blocks=int, block_size=int, watermark_blocks=int)
        try:
            self.manager = BlockSpaceManager(header["block_size"], header["num_gpu_blocks"], header["num_cpu_blocks"])
        except ValueError as error:
            raise PagedlabError(f"{where}: {error}.") from None
        self.manager.watermark_blocks = header["watermark_blocks"]
        self.groups: dict[str, SequenceGroup] = {}

    def do(self, op: str, line: dict[str, Any], where: str) -> dict[str, Any]:
        """Do one recorded operation; returns our side of its line."""
        if op == "add":
            if line["group"] in self.groups or line["prompt_len"] < 1:
                raise PagedlabError(f"{where}: group {line['group']!r} was added before, or has no prompt.")
            group = SequenceGroup(line["group"], None, [])
            tokens = [0] * line["prompt_len"]  # which tokens they are is of no importance in this era
            group.children.append(
                Request(str(line["seq"]), tokens, SamplingParams(), block_size=1, enable_caching=False)
            )
            result = self._resume(group, line)
            if result["admitted"]:
                self.groups[group.request_id] = group
        elif line["group"] not in self.groups:
            raise PagedlabError(f"{where}: group {line['group']!r} is unknown here (never admitted, or finished).")
        else:
            result = getattr(self, "_" + op)(self.groups[line["group"]], line) or {}
        return result | self._state()

    def _resume(self, group: SequenceGroup, line: dict[str, Any]) -> dict[str, Any]:
        admitted = self.manager.can_allocate(group)
        if admitted:
            self.manager.allocate(group)
        return {"admitted": admitted}

    def _append(self, group: SequenceGroup, line: dict[str, Any]) -> dict[str, Any]:
        if not self.manager.can_append_slot(group):
            return {"allocated": False, "copies": []}
        copies = []
        for sequence in self._running(group):
            sequence.append_output_token(0)
            pair = self.manager.append_slot(sequence)
            if pair is not None:
                copies.append(list(pair))
        return {"allocated": True, "copies": copies}

    def _fork(self, group: SequenceGroup, line: dict[str, Any]) -> None:
        parent = self._sequence(group, line["parent"])
        child = parent.fork(str(line["child"]), 0)
        self.manager.fork(parent, child)
        group.children.append(child)

    def _finish_seq(self, group: SequenceGroup, line: dict[str, Any]) -> None:
        self._end(self._sequence(group, line["seq"]))

    def _finish(self, group: SequenceGroup, line: dict[str, Any]) -> None:
        for sequence in group.get_seqs():
            self._end(sequence)
        del self.groups[group.request_id]

    def _preempt(self, group: SequenceGroup, line: dict[str, Any]) -> None:
        for sequence in self._running(group):
            self.manager.free(sequence)

    def _swap_out(self, group: SequenceGroup, line: dict[str, Any]) -> dict[str, Any]:
        done = self.manager.can_swap_out(group)
        mapping = self.manager.swap_out(group) if done else {}
        return {"done": done, "mapping": [list(pair) for pair in mapping.items()]}

    def _swap_in(self, group: SequenceGroup, line: dict[str, Any]) -> dict[str, Any]:
        done = self.manager.can_swap_in(group)
        mapping = self.manager.swap_in(group) if done else {}
        return {"done": done, "mapping": [list(pair) for pair in mapping.items()]}

    def _running(self, group: SequenceGroup) -> list[Request]:
        return [s for s in group.get_seqs() if s.request_id in self.manager.block_tables]

    def _sequence(self, group: SequenceGroup, number: int) -> Request:
        for sequence in group.get_seqs():
            if sequence.request_id == str(number):
                return sequence
        raise PagedlabError(f"group {group.request_id!r} of the recording has no unfinished sequence {number}.")

    def _end(self, sequence: Request) -> None:
        if sequence.request_id in self.manager.block_tables or sequence.request_id in self.manager.cpu_block_tables:
            self.manager.free(sequence)
        sequence.status = "finished"

    def _state(self) -> dict[str, Any]:
        m = self.manager
        tables, ref = {}, {}
        for prefix, of, allocator in (
            ("", m.block_tables, m.gpu_allocator),
            ("c", m.cpu_block_tables, m.cpu_allocator),
        ):
            tables |= {name: [f"{prefix}{b.block_id}" for b in table] for name, table in of.items()}
            ref |= {f"{prefix}{b.block_id}": b.ref_cnt for b in allocator.blocks if b.ref_cnt}
        return {
            "tables": dict(sorted(tables.items())),
            "ref": dict(sorted(ref.items())),
            "free_gpu": m.gpu_allocator.get_free_block_ids(),
            "free_cpu": m.cpu_allocator.get_free_block_ids(),
        }
