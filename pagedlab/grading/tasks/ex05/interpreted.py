"""Triton for the notebook: interpreted on every machine that has it."""

from __future__ import annotations

from typing import Any


class Absent:
    """In Triton's place where there is none: a kernel can be written, not started."""

    constexpr = int

    @staticmethod
    def jit(function: Any) -> Any:
        return function


def load_triton() -> tuple[Any, Any]:
    """`triton` and `triton.language`, interpreted on the CPU on every machine; `Absent` twice where there is none.

    Raises PagedlabError where Triton was imported before and compiles.
    """
    from pagedlab.kernels import available, use_interpreter

    if not available():
        return Absent, Absent
    use_interpreter()
    import triton
    import triton.language as tl

    return triton, tl
