"""A recording of vLLM's ``KVCacheManager``, replayed against ours: same blocks, same free queue, same cached set
after every operation."""

from __future__ import annotations

from typing import Any, ClassVar

from pagedlab.engine.request import Request, SamplingParams
from pagedlab.errors import PagedlabError
from pagedlab.kv import BlockPool, KVCacheManager
from pagedlab.kv.block import block_ids
from pagedlab.parity.report import Difference, first_difference, need, need_tokens

NO_LIMIT = 1 << 40  # these recordings know no max_model_len


def compare(path: Any, header: dict[str, Any], lines: list[dict[str, Any]]) -> Difference | None:
    """The first difference, or None. Raises PagedlabError for a recording that contradicts itself."""
    return compare_lines(KVReplay(header, f"{path}, line 1"), path, lines)


def compare_lines(replay: KVReplay, path: Any, lines: list[dict[str, Any]]) -> Difference | None:
    for number, line in enumerate(lines, start=2):
        where = f"{path}, line {number}"
        op = line.get("op")
        if not isinstance(op, str) or op not in replay.RESULTS:
            raise PagedlabError(f"{where}: unknown operation {op!r}; known: {', '.join(replay.RESULTS)}.")
        need(line, where, **replay.INPUTS.get(op, {"req": str}))
        for field in replay.RESULTS[op]:
            if field not in line:
                raise PagedlabError(f"{where} lacks the field {field!r}.")
        ours = replay.do(op, line, where)
        found = first_difference(f"operation {number - 1} (line {number}, {op} {line.get('req', '')})", line, ours)
        if found:
            return found
    return None


class KVReplay:
    """Our manager and pool, and the requests that the recording has named so far."""

    # What a line of each kind tells about the state after it; the rest of the line is what was asked for.
    RESULTS: ClassVar[dict[str, tuple[str, ...]]] = {
        "add": ("admitted", "num_computed", "blocks", "free", "cached"),
        "resume": ("admitted", "num_computed", "blocks", "free", "cached"),
        "decode": ("allocated", "blocks", "free", "cached"),
        "free": ("free", "cached"),
        "preempt": ("free", "cached"),
        "reset_prefix_cache": ("done", "free", "cached"),
    }
    INPUTS: ClassVar[dict[str, dict[str, type]]] = {
        "add": {"req": str, "tokens": list}, "decode": {"req": str, "token": int}, "reset_prefix_cache": {},
    }  # fmt: skip

    def __init__(self, header: dict[str, Any], where: str) -> None:
        need(header, where, num_blocks=int, block_size=int, enable_caching=bool)
        self.block_size = header["block_size"]
        self.enable_caching = header["enable_caching"]
        try:
            self.pool = BlockPool(header["num_blocks"], self.enable_caching)
            self.manager: Any = self._make_manager(header, where)
        except ValueError as error:
            raise PagedlabError(f"{where}: {error}.") from None
        self.running: dict[str, Request] = {}
        self.waiting: dict[str, Request] = {}

    def _make_manager(self, header: dict[str, Any], where: str) -> Any:
        return KVCacheManager(self.pool, self.block_size, NO_LIMIT, self.enable_caching)

    def do(self, op: str, line: dict[str, Any], where: str) -> dict[str, Any]:
        """Do one recorded operation; returns our side of its line."""
        return getattr(self, "_" + op)(line, where) | self._state(line)

    def _state(self, line: dict[str, Any]) -> dict[str, Any]:
        return {
            "free": block_ids(self.pool.free_block_queue.get_all_free_blocks()),
            "cached": [block.block_id for block in self.pool.blocks if block.block_hash is not None],
        }

    def _add(self, line: dict[str, Any], where: str) -> dict[str, Any]:
        need_tokens(line["tokens"], where)
        if line["req"] in self.running or line["req"] in self.waiting:
            raise PagedlabError(f"{where}: request {line['req']!r} was added before.")
        request = Request(
            line["req"],
            line["tokens"],
            SamplingParams(),
            block_size=self.block_size,
            enable_caching=self.enable_caching,
        )
        return self._admit(request, line, where)

    def _resume(self, line: dict[str, Any], where: str) -> dict[str, Any]:
        request = self._named(line, where, self.waiting, "waiting")
        result = self._admit(request, line, where)
        if result["admitted"]:
            del self.waiting[request.request_id]
        return result

    def _admit(self, request: Request, line: dict[str, Any], where: str) -> dict[str, Any]:
        hits, num_hit = self.manager.get_computed_blocks(request)
        new = self.manager.allocate_slots(request, request.num_tokens - num_hit, new_computed_blocks=hits)
        if new is None:
            return {"admitted": False, "num_computed": num_hit, "blocks": None}
        request.num_computed_tokens = request.num_tokens
        self.running[request.request_id] = request
        return {"admitted": True, "num_computed": num_hit, "blocks": self.manager.get_block_ids(request.request_id)}

    def _decode(self, line: dict[str, Any], where: str) -> dict[str, Any]:
        need_tokens([line["token"]], where)
        request = self._named(line, where, self.running, "running")
        request.append_output_token(line["token"])
        if self.manager.allocate_slots(request, 1) is None:
            self._preempt(line, where)
            return {"allocated": False, "blocks": None}
        request.num_computed_tokens += 1
        return {"allocated": True, "blocks": self.manager.get_block_ids(request.request_id)}

    def _preempt(self, line: dict[str, Any], where: str) -> dict[str, Any]:
        request = self._named(line, where, self.running, "running")
        self.manager.free(request)
        request.num_computed_tokens = 0
        self.waiting[request.request_id] = self.running.pop(request.request_id)
        return {}

    def _free(self, line: dict[str, Any], where: str) -> dict[str, Any]:
        self.manager.free(self._named(line, where, self.running, "running"))
        del self.running[line["req"]]
        return {}

    def _reset_prefix_cache(self, line: dict[str, Any], where: str) -> dict[str, Any]:
        return {"done": self.manager.reset_prefix_cache()}

    def _named(self, line: dict[str, Any], where: str, among: dict[str, Request], kind: str) -> Request:
        if line["req"] not in among:
            raise PagedlabError(
                f"{where}: {line['op']} names request {line['req']!r}, but no such request is {kind} there."
            )
        return among[line["req"]]
