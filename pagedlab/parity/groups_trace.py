"""A recording of vLLM's ``KVCacheManager`` with several groups, replayed against ours: in every group the same table
and the same hashes, and over all of them the same free queue and owners, after every operation."""

from __future__ import annotations

from typing import Any, ClassVar

from pagedlab.engine.request import Request
from pagedlab.errors import PagedlabError, is_whole
from pagedlab.kv.groups import GroupedKVCacheManager
from pagedlab.parity.kv_trace import NO_LIMIT, KVReplay, compare_lines
from pagedlab.parity.report import Difference, need, need_tokens

STATE = ("tables", "free", "cached", "ref")
KINDS = ("full", "sliding")


def compare(path: Any, header: dict[str, Any], lines: list[dict[str, Any]]) -> Difference | None:
    """The first difference, or None. Raises PagedlabError for a recording that contradicts itself."""
    return compare_lines(GroupsReplay(header, f"{path}, line 1"), path, lines)


class GroupsReplay(KVReplay):
    """Requests are computed in chunks here, and one that was refused keeps its place until it is preempted."""

    RESULTS: ClassVar[dict[str, tuple[str, ...]]] = {
        "add": ("admitted", "num_computed", "shared_prefix_boundary", *STATE),
        "resume": ("admitted", "num_computed", "shared_prefix_boundary", *STATE),
        "chunk": ("allocated", *STATE),
        "decode": ("allocated", *STATE),
        "free": STATE,
        "preempt": STATE,
        "reset_prefix_cache": ("done", *STATE),
    }
    INPUTS: ClassVar[dict[str, dict[str, type]]] = KVReplay.INPUTS | {
        "add": {"req": str, "tokens": list, "scheduled": int},
        "resume": {"req": str, "scheduled": int},
        "chunk": {"req": str, "scheduled": int},
    }

    def _make_manager(self, header: dict[str, Any], where: str) -> GroupedKVCacheManager:
        need(header, where, groups=list, full_sequence_must_fit=bool, num_lookahead_tokens=int)
        limits = {}
        for name in ("retention_interval", "max_in_flight_tokens"):
            if name not in header or not (header[name] is None or is_whole(header[name])):
                raise PagedlabError(f"{where}: {name!r} must be a whole number or null.")
            limits[name] = header[name]
        self.must_fit = header["full_sequence_must_fit"]
        return GroupedKVCacheManager(
            self.pool,
            self.block_size,
            NO_LIMIT,
            self.enable_caching,
            windows=[_window(group, where) for group in header["groups"]],
            num_lookahead_tokens=header["num_lookahead_tokens"],
            **limits,
        )

    def _state(self, line: dict[str, Any]) -> dict[str, Any]:
        tables = [list(table) for table in self.manager.get_block_ids(line.get("req", ""))]
        named = [(block.block_id, block.block_hash) for block in self.pool.blocks if block.block_hash is not None]
        return super()._state(line) | {
            "tables": tables if any(tables) else None,
            "cached": [[number for number, name in named if group.key(b"") == name[-len(group.key(b"")) :]]
                       for group in self.manager.groups],
            "ref": {str(b.block_id): b.ref_cnt for b in self.pool.blocks if b.ref_cnt and not b.is_null},
        }  # fmt: skip

    def _admit(self, request: Request, line: dict[str, Any], where: str) -> dict[str, Any]:
        hits, num_hit = self.manager.get_computed_blocks(request)
        new = self._allocate(where, request, line["scheduled"], hits, self.must_fit)
        if new is not None:
            request.num_computed_tokens = num_hit + line["scheduled"]
            self.running[request.request_id] = request
        return {
            "admitted": new is not None,
            "num_computed": num_hit,
            "shared_prefix_boundary": hits.shared_prefix_boundary,
        }

    def _chunk(self, line: dict[str, Any], where: str) -> dict[str, Any]:
        request = self._named(line, where, self.running, "running")
        if self._allocate(where, request, line["scheduled"]) is None:
            return {"allocated": False}
        request.num_computed_tokens += line["scheduled"]
        return {"allocated": True}

    def _decode(self, line: dict[str, Any], where: str) -> dict[str, Any]:
        need_tokens([line["token"]], where)
        drafts, accepted = line.get("drafts", 0), line.get("accepted", [])
        if not is_whole(drafts) or not isinstance(accepted, list) or not 0 <= len(accepted) <= drafts:
            raise PagedlabError(f"{where}: 'drafts' must be a number, and 'accepted' at most as many tokens.")
        request = self._named(line, where, self.running, "running")
        request.append_output_token(line["token"])
        if self._allocate(where, request, 1 + drafts) is None:
            return {"allocated": False}
        if accepted:
            need_tokens(accepted, where)
        for token in accepted:
            request.append_output_token(token)
        request.num_computed_tokens += 1 + len(accepted)
        return {"allocated": True}

    def _allocate(self, where: str, *given: Any) -> Any:
        try:
            return self.manager.allocate_slots(*given)
        except ValueError as error:
            raise PagedlabError(f"{where}: {error}.") from None


def _window(group: Any, where: str) -> int | None:
    kind = group.get("kind") if isinstance(group, dict) else group
    if kind not in KINDS:
        raise PagedlabError(f"{where}: a group is of kind {kind!r}; known are {', '.join(KINDS)}.")
    if kind == "full":
        return None
    need(group, where, window=int)
    return group["window"]
