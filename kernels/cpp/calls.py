"""The kernels in C++ called with tensors: each for few rows of float32 on a CPU, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

import torch
from torch import Tensor

from pagedlab.kernels.cpp.library import loaded

FEW_TOKENS = 48  # of fewer rows our product is as quick as torch's, or quicker; beyond, slower
Plain = Callable[..., Tensor]


def in_one_go(kernel: Plain) -> Callable[[Plain], Plain]:
    """Decorates a function in torch with the kernel that says the same for few rows of float32 on a CPU, in one pass
    over the memory; the first argument decides. What is decorated serves all else, and is its attribute ``plain``."""

    def decorate(plain: Plain) -> Plain:
        @wraps(plain)
        def either(x: Tensor, *others: object) -> Tensor:
            return kernel(x, *others) if suits(x) else plain(x, *others)

        either.plain = plain
        return either

    return decorate


def suits(x: Tensor) -> bool:
    """Few rows of float32 on a CPU, each row one run of memory, and kernels that could be compiled?"""
    return (
        x.device.type == "cpu"
        and 0 < len(x) <= FEW_TOKENS
        and x.dtype == torch.float32
        and x.stride(-1) == 1
        and loaded() is not None
    )


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x [tokens, in], weight [out, in], bias [out] -> [tokens, out]."""
    x, y = x.contiguous(), x.new_empty(len(x), len(weight))
    sizes = len(x), x.shape[1], len(weight)
    loaded().linear(at(x), at(weight), None if bias is None else at(bias), at(y), *sizes)
    return y


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """x [tokens, n], weight [n] -> [tokens, n]."""
    x = x.contiguous()  # as it mostly is already
    y = torch.empty_like(x)
    loaded().rms_norm(at(x), at(weight), at(y), len(x), x.shape[1], eps)
    return y


def heads(
    hidden: Tensor, norm: Tensor, eps: float, weight: Tensor, bias: Tensor | None, cos: Tensor, sin: Tensor, turned: int
) -> Tensor:
    """As `pagedlab.model.llama.rotated_heads`."""
    hidden, cos, sin, size = hidden.contiguous(), cos.contiguous(), sin.contiguous(), 2 * cos.shape[-1]
    y = hidden.new_empty(len(hidden), len(weight) // size, size)
    given = at(hidden), at(norm), at(weight), None if bias is None else at(bias)
    loaded().heads(*given, at(cos), at(sin), at(y), *hidden.shape, *y.shape[1:], turned, eps)
    return y


def feed_forward(hidden: Tensor, norm: Tensor, eps: float, gate_up: Tensor, down: Tensor) -> Tensor:
    """As `pagedlab.model.llama.feed_forward`."""
    hidden = hidden.contiguous()
    y, given = torch.empty_like(hidden), (at(hidden), at(norm), at(gate_up), at(down))
    loaded().feed_forward(*given, at(y), *hidden.shape, down.shape[1], eps)
    return y


def at(tensor: Tensor) -> int:
    """Where its numbers begin."""
    return tensor.data_ptr()

