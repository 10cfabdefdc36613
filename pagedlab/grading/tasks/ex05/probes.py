"""How the answers of exercise 05 are asked for."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch

from pagedlab.attention import LayerKV
from pagedlab.grading.plain import attempt
from pagedlab.grading.tasks.ex05.fence import fenced
from pagedlab.grading.tasks.ex05.memory import build, numbers
from pagedlab.grading.tasks.ex05.wgsl import runnable
from pagedlab.kernels import available

NOWHERE = 1 << 20  # an entry of a block table behind a request's last block: never to be followed


def one_query(objects: dict[str, Any], case: dict) -> dict:
    memory, read = build(case), []
    spare = [b for b in range(len(memory.key)) if b not in memory.tables[0]][: case["spare"]]

    def read_block(block: int) -> tuple[torch.Tensor, torch.Tensor]:
        read.append(int(block))
        return memory.key[block, :, 0], memory.value[block, :, 0]

    query, table = memory.query[0, 0].clone(), memory.tables[0] + spare

    def attend(query: torch.Tensor) -> Any:
        return objects["attend"](query, read_block, table, case["lengths"][0], case["scale"])

    result, first = _kept_result(lambda: attend(query))
    blocks = attempt(lambda: read[:])
    later = attempt(_after, lambda: attend(-query), first)
    before = build(case)
    pairs = ((query, before.query[0, 0]), (memory.key, before.key), (memory.value, before.value))
    kept = table == before.tables[0] + spare and all(_equal(a, b) for a, b in pairs)
    return {"result": result, "read": blocks, "kept": kept, "later": later}


def batch(objects: dict[str, Any], case: dict) -> Any:
    memory = build(case)
    widest = max(map(len, memory.tables)) + 1
    tables = torch.tensor([table + [NOWHERE] * (widest - len(table)) for table in memory.tables], dtype=torch.int32)
    starts = torch.tensor([0, *case["queries"]]).cumsum(0).to(torch.int32)
    lengths = torch.tensor(case["lengths"], dtype=torch.int32)
    layer, given = LayerKV(memory.key, memory.value), [memory.query, tables, lengths, starts, memory.key, memory.value]
    before = [tensor.clone() for tensor in given]

    def attention(query: torch.Tensor) -> Any:
        return objects["my_attention"](query, layer, tables, lengths, starts)

    result, first = _kept_result(lambda: attention(memory.query))
    later = attempt(_after, lambda: attention(-memory.query), first)
    names = ("query", "block_tables", "seq_lens", "query_start_loc", "layer.key", "layer.value")
    changed = [name for name, a, b in zip(names, given, before, strict=True) if not _equal(a, b)]
    return {"result": result, "changed": ", ".join(changed), "later": later}


def _kept_result(call: Callable[[], Any]) -> tuple[Any, Any]:
    """What a call gave, as plain numbers, and the tensor itself (None where it raised)."""
    kept: list[Any] = []

    def called() -> list:
        kept.append(call())
        return numbers(kept[0])

    return attempt(called), kept[0] if kept else None


def _after(call: Callable[[], Any], first: Any) -> list:
    """What is in the first result once another call has been made."""
    call()
    return numbers(first)


def _equal(a: torch.Tensor, b: torch.Tensor) -> bool:
    """The same numbers, and NaN in the same places."""
    return torch.equal(a.isnan(), b.isnan()) and torch.equal(a.nan_to_num(), b.nan_to_num())


def kernels(objects: dict[str, Any], case: dict) -> dict:
    """What one launch of a kernel left behind; which one, the case says."""
    return split(objects["split_kernel"], case) if case["kernel"] == "split" else merge(objects["merge_kernel"], case)


def split(kernel: Any, case: dict) -> dict:
    """The three results of each (head, split). The table ends with the context."""
    memory = build(case)
    query, key, value = memory.query[0].contiguous(), memory.key, memory.value
    table, (heads, width), splits = torch.tensor(memory.tables[0], dtype=torch.int32), query.shape, case["splits"]
    partial = torch.full((heads, splits, width), torch.nan)
    largest, total = torch.full((2, heads, splits), torch.nan)
    results = {"partial": partial, "largest": largest, "total": total}

    def launch() -> None:
        runnable("split_kernel", kernel)[(heads, splits)](
            partial, largest, total, query, key, value, table, case["lengths"][0], case["scale"], *key.stride()[:3],
            GROUP=case["group"], BLOCK_SIZE=case["block_size"], HEAD_SIZE=width, BLOCKS_A_SPLIT=case["blocks_a_split"],
        )  # fmt: skip

    given = {"query": query, "key": key, "value": value, "table": table}
    ran = _launched(kernel, launch, given, results)
    return {"ran": ran} | {name: numbers(found)[1] for name, found in results.items()}


def merge(kernel: Any, case: dict) -> dict:
    """The rows that came of the partial results."""
    partial, largest, total = parts(case)
    output = torch.full((case["heads"], case["head_size"]), torch.nan)

    def launch() -> None:
        sizes = {"SPLITS": case["splits"], "HEAD_SIZE": case["head_size"]}
        runnable("merge_kernel", kernel)[(case["heads"],)](output, partial, largest, total, **sizes)

    given = {"partial": partial, "largest": largest, "total": total}
    return {"ran": _launched(kernel, launch, given, {"output": output}), "output": numbers(output)[1]}


def parts(case: dict) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Partial results as a split kernel leaves them: ``partial`` `[heads, splits, head size]`, ``largest`` and
    ``total`` `[heads, splits]`."""
    random = torch.Generator().manual_seed(case["seed"])
    heads, splits = case["heads"], case["splits"]
    partial = torch.randn(heads, splits, case["head_size"], generator=random)
    largest = case["apart"] * torch.randn(heads, splits, generator=random) + case["level"]
    total = 1 + 5 * torch.rand(heads, splits, generator=random)
    for nothing in case["empty"]:  # a split without blocks
        partial[:, nothing], largest[:, nothing], total[:, nothing] = 0.0, -torch.inf, 0.0
    return partial, largest, total


def _launched(kernel: Any, launch: Any, reads: dict[str, torch.Tensor], writes: dict[str, torch.Tensor]) -> Any:
    """None; or what was raised, without the interpreter's wrapping. WGSL text has a fence of its own."""

    def run() -> None:
        try:
            with nullcontext() if isinstance(kernel, str) or not available() else fenced(reads, writes):
                launch()
        except Exception as error:
            raise (error.__cause__ or error) from None

    return attempt(run)


PROBES = {"05.1": one_query, "05.2": batch, "05.3": kernels}
