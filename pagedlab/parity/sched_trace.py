"""A recording of vLLM's V1 ``Scheduler``, replayed against ours: same tokens for the same requests in the same
order, step by step.

vLLM was recorded in its synchronous form: a step's tokens are known before the next step is scheduled. (Its default
is asynchronous scheduling, see ``live_trace.py``.) The model is a stand-in, a formula."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

from pagedlab.engine.request import Request, SamplingParams
from pagedlab.engine.scheduler import Scheduler
from pagedlab.errors import PagedlabError
from pagedlab.kv import BlockPool, KVCacheManager
from pagedlab.kv.block import block_ids
from pagedlab.parity.report import POOL_AND_LIMITS, Difference, first_difference, need, need_tokens

FIELDS = ("step", "scheduled", "new", "resumed", "preempted", "tables", "free", "finished", "running", "waiting")


def compare(path: Any, header: dict[str, Any], lines: list[dict[str, Any]]) -> Difference | None:
    """The first difference, or None. Raises PagedlabError for a recording that cannot be read as one."""
    replay = SchedulerReplay(header, f"{path}, line 1")
    for number, line in enumerate(lines, start=2):
        for field in FIELDS:
            if field not in line:
                raise PagedlabError(f"{path}, line {number} lacks the field {field!r}.")
        found = first_difference(f"step {line['step']} (line {number})", line, replay.step())
        if found:
            return found
    left = replay.unfinished()
    if left:
        return Difference(f"the end, after {len(lines)} steps", "unfinished requests", [], left)
    return None


class SchedulerReplay:
    """Our scheduler, manager and pool, fed with the recording's requests as they arrive."""

    def __init__(
        self, header: dict[str, Any], where: str, next_token: Callable[[str, int], int] | None = None
    ) -> None:
        """``next_token``: in place of the header's formula."""
        need(header, where, **POOL_AND_LIMITS, next_token=str, requests=list)
        self.header = header
        self.next_token = next_token or formula(header["next_token"], where)
        self._where, self._names = where, set[str]()
        for item in header["requests"]:
            self.check_request(item)
            if next_token is None:
                self.next_token(item["req"], 1)
        try:
            self.pool = BlockPool(header["num_blocks"], header["enable_caching"])
            self.manager = KVCacheManager(
                self.pool, header["block_size"], header["max_model_len"], header["enable_caching"]
            )
            self.scheduler = Scheduler(
                self.manager,
                max_num_seqs=header["max_num_seqs"],
                max_num_batched_tokens=header["max_num_batched_tokens"],
                max_model_len=header["max_model_len"],
            )
        except ValueError as error:
            raise PagedlabError(f"{where}: {error}.") from None
        self.num_steps = 0

    def check_request(self, item: dict[str, Any]) -> None:
        """Raises PagedlabError for a request that is none, or has the name of one that was checked before."""
        where = self._where
        if not isinstance(item, dict):
            raise PagedlabError(f"{where}: each request must be an object.")
        need(item, where, req=str, arrive=int, tokens=list, max_tokens=int)
        need_tokens(item["tokens"], where)
        name, most = item["req"], self.header["max_model_len"]
        if item["max_tokens"] < 1 or len(item["tokens"]) >= most or name in self._names:
            raise PagedlabError(
                f"{where}: request {name!r} must have a name of its own, a max_tokens of at least 1, and "
                f"fewer tokens than max_model_len={most}."
            )
        self._names.add(name)

    def is_stop(self, request: Request) -> bool:
        """Does its last token end it, before its max_tokens? In a scheduler's recording none does."""
        return False

    def step(self) -> dict[str, Any]:
        """One step; returns our side of its line."""
        for item in self.header["requests"]:
            if item["arrive"] == self.num_steps:
                self.scheduler.add_request(
                    Request(
                        item["req"],
                        item["tokens"],
                        SamplingParams(max_tokens=item["max_tokens"], ignore_eos=True),
                        block_size=self.header["block_size"],
                        enable_caching=self.header["enable_caching"],
                    )
                )
        output = self.scheduler.schedule()
        scheduled = output.num_scheduled_tokens
        ours = {
            "step": self.num_steps,
            "scheduled": dict(scheduled),
            "new": {request.request_id: request.num_computed_tokens for request in output.new},
            "resumed": sorted(request.request_id for request in output.resumed),
            "preempted": sorted(request.request_id for request in output.preempted),
            "tables": {request_id: self.manager.get_block_ids(request_id) for request_id in scheduled},
            "free": block_ids(self.pool.free_block_queue.get_all_free_blocks()),
        }
        sampled = {
            request.request_id: self.next_token(request.request_id, request.num_tokens)
            for request in self.scheduler.running
            if request.num_computed_tokens + scheduled.get(request.request_id, 0) == request.num_tokens
        }
        finished = self.scheduler.update_from_output(output, sampled, is_stop=self.is_stop)
        self.num_steps += 1
        return ours | {
            "finished": sorted(request.request_id for request in finished),
            "running": [request.request_id for request in self.scheduler.running],
            "waiting": [request.request_id for request in self.scheduler.waiting],
        }

    def unfinished(self) -> list[str]:
        """Requests that have not arrived yet, wait, or run."""
        to_come = [item["req"] for item in self.header["requests"] if item["arrive"] >= self.num_steps]
        return to_come + [request.request_id for request in (*self.scheduler.running, *self.scheduler.waiting)]


# ------------------------------------------------------------------------------------------- the stand-in model

OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Mod: operator.mod,
    ast.FloorDiv: operator.floordiv,
}


def formula(text: str, where: str) -> Callable[[str, int], int]:
    """``next_token(req, position)`` from the header's formula: whole numbers, ``position``, ``int(req[1:])``, + - *
    // % and brackets. Both it and what it returns raise PagedlabError for what is no such formula, or gives no
    token.

    Read by hand rather than with ``eval``: a recording comes from somebody else.
    """

    def next_token(req: str, position: int) -> int:
        try:
            token = _value(tree, req, position)
        except (ValueError, ZeroDivisionError, RecursionError) as error:
            raise PagedlabError(f"{where}: next_token {text!r} cannot be computed for {req!r} ({error}).") from None
        need_tokens([token], f"{where}, next_token {text!r}")
        return token

    try:
        tree = ast.parse(text, mode="eval").body
    except (ValueError, SyntaxError, RecursionError, MemoryError) as error:
        raise PagedlabError(f"{where}: next_token {text!r} is no formula ({error}).") from None
    next_token("r1", 1)
    return next_token


def _value(node: ast.expr, req: str, position: int) -> int:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.Name) and node.id == "position":
        return position
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        return OPERATORS[type(node.op)](_value(node.left, req, position), _value(node.right, req, position))
    if ast.unparse(node) == "int(req[1:])":
        return int(req[1:])
    raise ValueError(f"{ast.unparse(node)!r} is not allowed")
