"""How the answers of exercise 05 are asked for."""

from __future__ import annotations

from typing import Any

import torch

from pagedlab.attention import LayerKV
from pagedlab.grading.plain import attempt
from pagedlab.grading.tasks.ex05.memory import build, numbers

NOWHERE = 1 << 20  # an entry of a block table behind a request's last block: never to be followed


def one_query(objects: dict[str, Any], case: dict) -> dict:
    memory, read = build(case), []
    spare = [b for b in range(len(memory.key)) if b not in memory.tables[0]][: case["spare"]]

    def read_block(block: int) -> tuple[torch.Tensor, torch.Tensor]:
        read.append(int(block))
        return memory.key[block, :, 0].clone(), memory.value[block, :, 0].clone()

    scale, query = case["head_size"] ** -0.5, memory.query[0, 0].clone()
    result = attempt(
        lambda: numbers(objects["attend"](query, read_block, memory.tables[0] + spare, case["lengths"][0], scale))
    )
    return {"result": result, "read": attempt(lambda: read)}


def batch(objects: dict[str, Any], case: dict) -> Any:
    memory = build(case)
    widest = max(map(len, memory.tables)) + 1
    tables = torch.tensor([table + [NOWHERE] * (widest - len(table)) for table in memory.tables], dtype=torch.int32)
    starts = torch.tensor([0, *case["queries"]]).cumsum(0).to(torch.int32)
    lengths = torch.tensor(case["lengths"], dtype=torch.int32)
    layer = LayerKV(memory.key, memory.value)
    return attempt(lambda: numbers(objects["my_attention"](memory.query, layer, tables, lengths, starts)))


def kernel(objects: dict[str, Any], case: dict) -> Any:
    memory = build(case)
    output, query = torch.full_like(memory.query, torch.nan), memory.query.contiguous()
    table = torch.tensor(memory.tables[0], dtype=torch.int32)

    def launch() -> list:
        try:
            objects["my_kernel"][(query.shape[1],)](
                output, query, memory.key, memory.value, table, case["lengths"][0], case["head_size"] ** -0.5,
                *memory.key.stride()[:3], GROUP=case["group"], BLOCK_SIZE=case["block_size"],
                HEAD_SIZE=case["head_size"],
            )  # fmt: skip
        except Exception as error:
            raise (error.__cause__ or error) from None  # the interpreter wraps what the kernel raised
        return numbers(output)

    return attempt(launch)


PROBES = {"05.1": one_query, "05.2": batch, "05.3": kernel}
