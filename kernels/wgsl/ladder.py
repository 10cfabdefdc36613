"""The ladder's five kernels in WGSL, started as those in Triton are: with torch tensors, on any device.

For lessons: each call copies all it needs to the device of WebGPU, and back.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from pagedlab.kernels.wgsl.gpu import open_gpu

LANES = 64


def run(*given: Any) -> list[np.ndarray]:
    """As `GPU.run`, on this machine's first adapter."""
    return open_gpu().run(*given)


def copy(source: torch.Tensor, destination: torch.Tensor | None = None, piece: int = 64) -> torch.Tensor:
    """As `pagedlab.kernels.ladder1_copy.copy`."""
    destination = torch.empty_like(source) if destination is None else destination
    constants = dict(LENGTH=len(source), PIECE=piece)
    found = run("ladder1_copy", constants, (-(-len(source) // piece),), _numbers(source), _numbers(destination))
    return _back(found[1], destination)


def gather(key: torch.Tensor, table: torch.Tensor, length: int) -> torch.Tensor:
    """As `pagedlab.kernels.ladder2_gather.gather`."""
    constants = dict(BLOCK_SIZE=key.shape[1], HEAD_SIZE=key.shape[2], LANES=LANES)
    destination = key.new_empty(length, key.shape[2])
    arrays = _numbers(key), _numbers(table, np.uint32), _numbers(destination)
    return _back(run("ladder2_gather", constants, (length,), *arrays)[2], destination)


def scores(query: torch.Tensor, key: torch.Tensor, table: torch.Tensor, length: int, scale: float) -> torch.Tensor:
    """As `pagedlab.kernels.ladder3_dot.scores`."""
    constants = dict(BLOCK_SIZE=key.shape[1], HEAD_SIZE=key.shape[2], LENGTH=length, SCALE=float(scale))
    result = torch.empty(length, device=key.device)
    arrays = _numbers(query), _numbers(key), _numbers(table, np.uint32), _numbers(result)
    return _back(run("ladder3_scores", constants, (-(-length // key.shape[1]),), *arrays)[3], result)


def online_softmax(scores: torch.Tensor, piece: int = 16) -> tuple[float, float]:
    """As `pagedlab.kernels.ladder4_softmax.online_softmax`."""
    constants, result = dict(LENGTH=len(scores), PIECE=piece), np.zeros(2, np.float32)
    largest, total = run("ladder4_softmax", constants, (1,), _numbers(scores), result)[1].tolist()
    return largest, total


def decode(query, layer, block_tables, seq_lens, scale: float, diary: torch.Tensor | None = None) -> torch.Tensor:
    """As `pagedlab.kernels.ladder5_decode.decode`."""
    requests, query_heads, head_size = query.shape
    width = block_tables.shape[1]
    constants = dict(
        BLOCK_SIZE=layer.block_size, GROUP=query_heads // layer.num_kv_heads, QUERY_HEADS=query_heads,
        HEAD_SIZE=head_size, TABLE=width, SCALE=float(scale), DIARY=int(diary is not None),
    )  # fmt: skip
    pages = np.zeros((requests, query_heads, width, 4), np.uint32)
    arrays = _numbers(query), _numbers(layer.key), _numbers(layer.value)
    tables = _numbers(block_tables, np.uint32), _numbers(seq_lens, np.uint32)
    output = torch.empty_like(query)
    found = run("ladder5_decode", constants, (query_heads, requests), *arrays, *tables, _numbers(output), pages)
    if diary is not None:  # where it was and what it knew: two whole numbers, and the bits of two others
        pages = np.concatenate(
            [found[6][..., :2], found[6][..., 2:].copy().view(np.float32)], axis=-1, dtype=np.float64
        )
        diary.copy_(torch.from_numpy(pages))
    return _back(found[5], output)


def _numbers(tensor: torch.Tensor, kind: type = np.float32) -> np.ndarray:
    """In order, as the kernels want them; bfloat16 is no type of numpy's."""
    return np.ascontiguousarray((tensor.float() if kind is np.float32 else tensor).numpy(force=True).astype(kind))


def _back(found: np.ndarray, tensor: torch.Tensor) -> torch.Tensor:
    return tensor.copy_(torch.from_numpy(found.copy()))
