"""Around a kernel in Triton's interpreter: whatever it reads or writes has to lie in what it was given.

Without it a kernel that reads past its table gets whatever lies there in memory, and may be right, wrong, or the end of
the process. The hooks are the interpreter's own two functions, which are no public interface: they are used here only.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


@contextmanager
def fenced(reads: dict[str, torch.Tensor], writes: dict[str, torch.Tensor]) -> Iterator[None]:
    """Inside, a load from outside of ``reads``, or a store to outside of ``writes``, is an IndexError and not done."""
    from triton.runtime.interpreter import interpreter_builder as builder

    def guarded(name: str, given: dict[str, torch.Tensor], verb: str) -> Any:
        done = getattr(builder, name)
        spans = [(t.data_ptr(), t.data_ptr() + extent(t) * t.element_size()) for t in given.values()]

        def checked(pointers: Any, *rest: Any) -> Any:
            mask = rest[0] if name == "create_masked_load" else rest[1]
            for address in pointers.data[mask.data.astype(bool)].flatten().tolist():
                if not any(start <= address < end for start, end in spans):
                    raise IndexError(f"a program {verb} outside of {', '.join(given)}")
            return done(pointers, *rest)

        return checked

    hooks = {
        "create_masked_load": guarded("create_masked_load", reads, "reads"),
        "create_masked_store": guarded("create_masked_store", writes, "writes"),
    }
    try:
        for name, hook in hooks.items():
            setattr(builder, name, hook)
        yield
    finally:
        for name in hooks:
            delattr(builder, name)  # the class's own again


def extent(tensor: torch.Tensor) -> int:
    """How many numbers lie from its first one to behind its last one."""
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return last + 1 if tensor.numel() else 0
