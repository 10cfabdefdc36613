"""What does a kernel look like on a GPU that is not here?

Triton's compiler needs no GPU: told a target, it makes the same binary that a launch on that GPU would make. So what is
compiled here are launches: the functions that the engine calls are called, with tensors of the device "meta", which
have shapes and strides and no memory. Tiles, strides and all that follows from them are those of the real thing.
`binary.py` reads what comes out; which launches, `pagedlab/bench/gpu/compiled.py` says.

This is the only file that goes beyond Triton's public functions: it puts a driver in the place of the GPU's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from triton.backends.compiler import GPUTarget
from triton.runtime import driver

from pagedlab.errors import PagedlabError
from pagedlab.kernels import interpreting, launch
from pagedlab.kernels.binary import read_binary
from pagedlab.kernels.tuning import shared_memory


class Absent:
    """In the place of a GPU's driver: says what the GPU would be, and starts nothing."""

    def __init__(self, capability: int):
        self.capability = capability

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", self.capability, 32)

    def get_current_device(self) -> int:  # Triton keeps binaries by device, so each target is one of its own
        return self.capability

    def get_current_stream(self, device: int) -> int:
        return 0


@contextmanager
def compiling_for(capability: int) -> Iterator[launch.Target]:
    """Within it launches with tensors of the device "meta" are compiled for a target, and found in what it yields.

    Raises PagedlabError under the interpreter, which compiles nothing.
    """
    if interpreting():
        raise PagedlabError(
            "Kernels are interpreted here (TRITON_INTERPRET is set); start Python without it to compile them."
        )
    launch.forget()
    launch.target = launch.Target(capability)
    driver.set_active(Absent(capability))
    try:
        yield launch.target
    finally:
        launch.target = None
        launch.forget()
        driver.set_active(None)  # the machine's own, when it is asked for


def read(compiled, capability: int) -> dict:
    """What Triton was given to compile, and what came out."""
    ptx, constants, names = compiled.asm["ptx"], constants_of(compiled), compiled.src.fn.arg_names
    return {
        "tile": constants.get("TILE") or constants.get("PIECE") or 1,
        "warps": compiled.metadata.num_warps,
        "stages": compiled.metadata.num_stages,
        "constants": {name: value for name, value in constants.items() if value is not None},
        "multiples_of_16": [names[index] for (index,), known in compiled.src.attrs.items() if known],
        **read_binary(compiled.asm["cubin"]),
        "shared_bytes": compiled.metadata.shared,
        "shared_limit": shared_memory(capability),
        "ptx_smid": ptx.count("%smid"),
        "ptx_globaltimer": ptx.count("%globaltimer"),
        "ptx_global_stores": len(re.findall(r"\bst\.global", ptx)),
    }


def constants_of(compiled) -> dict:
    """The arguments that a binary was compiled for, by name."""
    return {compiled.src.fn.arg_names[index]: value for (index,), value in compiled.src.constants.items()}
