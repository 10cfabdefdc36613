"""The Triton kernels of the course, one idea a file. They live in `kernels/` and are imported as `pagedlab.kernels`.

    ladder1_copy ... ladder5_decode    for who knows no CUDA: five small kernels that lead to paged attention
    ladder                             the five small ones as functions, in Triton or in WGSL
    rungs                              from the plain decode kernel to the final one, a few changed lines at a time
    attend_blocks                      the heart: read scattered blocks, softmax as you go
    decode, decode_split, prefill      the three programs around it
    write_kv, move_blocks              new tokens into their slots; whole blocks for copy-on-write and swap
    run                                which of these runs for which batch
    watch                              what a run of the decode kernel read, when, and on which processor of the GPU
    tuning, launch, pairs, scale       the few sizes that matter, with reasons; what is refused before a launch, and
                                       what of a launch is kept for the next
    compile_only, binary               what the compiled kernels look like, found out without a GPU

Triton decides *when it is imported* whether kernels are compiled for a GPU or interpreted on the CPU. So that decision
comes first: `use_interpreter()` before anything imports Triton, or `TRITON_INTERPRET=1` before Python starts, or
`prepare()`, which goes by the machine. Triton exists on Linux only. The ladder exists in WGSL, too (`wgsl/`),
which runs wherever WebGPU finds a device; `ladder` has its five functions in the language that runs here.
"""

import os
import sys
from functools import cache
from importlib.util import find_spec

from pagedlab.errors import PagedlabError

WHY_NOT = "Triton is not installed (pip install triton)" if sys.platform == "linux" else "Triton exists on Linux only"
NOT_HERE = f"not run here: {WHY_NOT}"
NEITHER = f"{WHY_NOT}, and WebGPU finds no device here"
INTERPRETER = "Triton interpreter · CPU"

RESTART = (
    "Restart the kernel (or start Python again) and call pagedlab.kernels.use_interpreter() before anything "
    "imports triton, or set TRITON_INTERPRET=1 before Python starts."
)


def available() -> bool:
    """Is there a Triton on this machine? Imports nothing."""
    return find_spec("triton") is not None


@cache
def webgpu() -> str | None:
    """The name of the device that WebGPU finds first, None where there is none."""
    from pagedlab.kernels.wgsl.gpu import adapters, name_of

    try:
        return next(map(name_of, adapters()), None)
    except PagedlabError:
        return None


def runs_here(*, in_wgsl: bool = True) -> bool:
    """Is there a Triton here, or else a device for what exists `in_wgsl` too? Where not, a printed line says so."""
    if available() or (in_wgsl and webgpu()):
        return True
    print(f"not run here: {NEITHER}" if in_wgsl else NOT_HERE)
    return False


def prepare() -> str | None:
    """Decide how kernels run from now on, by the machine: compiled where there is an NVIDIA GPU, else interpreted.

    Returns the GPU's name or `INTERPRETER`; where there is no Triton "WGSL" and the device that runs it, or None.
    Raises PagedlabError if Triton is there already and has decided otherwise.
    """
    if not available():
        return f"WGSL · {webgpu()}" if webgpu() else None
    import torch

    if not torch.cuda.is_available():
        use_interpreter()
    return INTERPRETER if interpreting() else torch.cuda.get_device_name(torch.cuda.current_device())


def use_interpreter() -> None:
    """Run kernels on the CPU, by Triton's interpreter, from now on. Raises PagedlabError if Triton is there already."""
    os.environ["TRITON_INTERPRET"] = "1"
    interpreting()


def interpreting() -> bool:
    """True when kernels are interpreted, False when they are compiled. Raises PagedlabError when it is half and half.

    A function that Triton itself is written in shows what Triton decided: interpreted, it is no `JITFunction`.
    """
    import triton
    import triton.language as tl

    setting = os.environ.get("TRITON_INTERPRET", "").lower() in ("1", "true", "yes", "on", "y")
    interpreted = not isinstance(tl.sum, triton.JITFunction)
    if setting and not interpreted:
        raise PagedlabError(
            f"TRITON_INTERPRET is set, but Triton was imported before that and compiles its kernels. {RESTART}"
        )
    if interpreted and not setting:
        raise PagedlabError(
            "Triton was imported with TRITON_INTERPRET=1, which is not set any more. Restart the kernel (or "
            "start Python again), "
            "or set it again."
        )
    if interpreted:
        _check_numpy(triton.__version__)
    return interpreted


def _check_numpy(triton_version: str) -> None:
    """pyproject.toml keeps such a pair from being installed; Colab brings its own Triton and NumPy."""
    import numpy

    numbers = [tuple(int(n) for n in version.split(".")[:2]) for version in (triton_version, numpy.__version__)]
    if numbers[0] < (3, 7) and numbers[1] >= (2, 4):
        raise PagedlabError(
            f"Triton {triton_version}'s interpreter does not work with NumPy {numpy.__version__}; allowed are "
            "Triton 3.7 and newer, "
            "or NumPy before 2.4. Install one of them: pip install 'numpy<2.4'."
        )
