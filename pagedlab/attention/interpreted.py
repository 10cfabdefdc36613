"""Call a function in a process of its own, where Triton interprets its kernels: whether it does is decided when Triton
is imported, and that may have happened here already."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from pagedlab.attention.kv_pool import KVPool, LayerKV
from pagedlab.errors import PagedlabError
from pagedlab.kernels import WHY_NOT, available


def interpreted(function: str, *arguments: Any) -> Any:
    """What ``module:function`` returns there; tensors and plain data go and come. Raises PagedlabError where there is
    no Triton, and where the function fails."""
    if not available():
        raise PagedlabError(f"{WHY_NOT}, so a kernel in Triton cannot run here.")
    with tempfile.TemporaryDirectory() as folder:
        question, answer = Path(folder, "question.pt"), Path(folder, "answer.pt")
        torch.save((function, arguments), question)
        done = subprocess.run(
            [sys.executable, "-m", "pagedlab.attention.interpreted", str(question), str(answer)],
            env=os.environ | {"TRITON_INTERPRET": "1"},
            capture_output=True,
            text=True,
        )
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise PagedlabError(f"The kernel could not run in Triton's interpreter: {last}")
        return torch.load(answer)


def some_blocks(layer: LayerKV, block_ids: list[int]) -> tuple:
    """Of a layer these blocks only, as plain data: (how many blocks it has, which, their K, their V)."""
    used = sorted(set(block_ids))
    return layer.num_blocks, used, layer.key[used].clone(), layer.value[used].clone()


def layer_of(num_blocks: int, used: list[int], key: torch.Tensor, value: torch.Tensor) -> LayerKV:
    """A layer that has these blocks under the same numbers; the others are zero, and take no memory."""
    layer = KVPool(1, num_blocks, *key.shape[1:], key.dtype).layer(0)
    layer.key[used], layer.value[used] = key, value
    return layer


if __name__ == "__main__":
    torch.set_num_threads(1)
    name, given = torch.load(sys.argv[1])
    module, _, function_name = name.partition(":")
    torch.save(getattr(import_module(module), function_name)(*given), sys.argv[2])
