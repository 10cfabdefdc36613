"""What is refused before a kernel starts, and on which GPU does it?  What of it is found out once, for many launches?

On a GPU a wrong launch is no exception but a wrong number, or somebody else's memory. So what can be known before is
said before, in words. Shapes and types of the tensors are `pagedlab.attention.checks`' part; here is what depends on
the machine.

Python takes longer to prepare a launch than a small kernel takes to run, and a step launches two or three kernels in
each layer. But all that is decided here (sizes, refusals, the binary) follows from shapes, and these are the same in
every layer and in most steps. So it is `kept`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import triton

from pagedlab.errors import PagedlabError
from pagedlab.kernels import RESTART, interpreting

OLDEST = 75  # sm_75, Turing (T4): the oldest GPU that Triton's supported versions compile for
MAX_GROUP = 16
MAX_PROGRAMS = 65_535  # along a grid's second and third axis (CUDA C++ Programming Guide, "Technical Specifications")


@dataclass
class Target:
    """A GPU that is not here. While it is `launch.target`, launches with tensors of the device "meta" are compiled for
    it and not started; `compiled` has grid and binary of what would have been started, in order."""

    capability: int
    compiled: list[tuple[tuple[int, ...], Any]] = field(default_factory=list)


target: Target | None = None


def launch(kernel, grid: tuple[int, ...], *arguments, **constants):
    """`kernel[grid](*arguments, **constants)` on the GPU that holds the first argument, a tensor.

    Triton compiles for, and starts on, the *current* GPU, wherever the tensors are. Returns the binary that Triton
    chose, or None under the interpreter; a binary may stand for the kernel. Raises PagedlabError for a grid that no GPU
    takes.
    """
    if any(programs > MAX_PROGRAMS for programs in grid[1:]):
        raise PagedlabError(
            f"A grid of {' x '.join(f'{n:,}' for n in grid)} programs cannot be launched: along its second and third "
            f"axis a GPU takes {MAX_PROGRAMS:,}. Cut the batch into smaller ones."
        )
    if target is not None and arguments[0].device.type == "meta":
        target.compiled.append((grid, kernel.warmup(*arguments, grid=grid, **constants)))
        return None
    with torch.cuda.device_of(arguments[0]):  # does nothing for a tensor on the CPU
        return kernel[grid](*arguments, **constants)


class Launch:
    """A kernel with its grid and all arguments that follow from shapes, to be started with any tensors of these shapes.

    Triton looks at each argument of each call, to find the binary that it needs. Here the binary is kept, one for each
    thing that can still differ: the tensors' types, and whether they begin at a multiple of 16 bytes.
    """

    def __init__(self, kernel, grid: tuple[int, ...], *numbers: int, **constants):
        self.kernel, self.grid, self.numbers, self.constants = kernel, (*grid, 1, 1)[:3], numbers, constants
        self.all_numbers = (*numbers, *(constants[name] for name in kernel.arg_names if name in constants))
        self.binaries: dict[tuple, Any] = {}

    def __call__(self, *arguments) -> None:
        """The kernel's first arguments: tensors, None, and floats. `numbers` and `constants` come behind them."""
        seen = tuple([(x.dtype, x.data_ptr() % 16) if isinstance(x, torch.Tensor) else type(x) for x in arguments])
        binary = self.binaries.get(seen)
        if binary is None:
            found = launch(self.kernel, self.grid, *arguments, *self.numbers, **self.constants)
            self.binaries[seen] = found
        else:
            launch(binary, self.grid, *arguments, *self.all_numbers)


_kept: dict[tuple, Any] = {}
MOST_KEPT = 1024


def kept(make: Callable, key: tuple) -> Any:
    """What `make()` gives, made once for each `key`, from which all of it must follow."""
    if key not in _kept:
        made = make()
        if len(_kept) >= MOST_KEPT:
            forget()
        _kept[key] = made
    return _kept[key]


def forget() -> None:
    """Of everything `kept`; it is made again when it is needed."""
    _kept.clear()


def refuse(capability: int | None, dtype: torch.dtype, head_size: int, block_size: int, group: int) -> None:
    """Raise PagedlabError for what the kernels cannot run. capability: 75, 80, 90 ..., None under the interpreter."""
    if capability is not None:
        refuse_old(capability)
    if capability is not None and capability < 80 and dtype == torch.bfloat16:
        raise PagedlabError(
            f"This GPU (sm_{capability}) has no bfloat16 arithmetic, that came with sm_80; use float16 or "
            "float32 on it."
        )
    if not (16 <= head_size <= 256 and head_size % 8 == 0):
        raise PagedlabError(
            f"head size {head_size}; the Triton kernels take multiples of 8 from 16 to 256. Use backend='torch'."
        )
    if not 1 <= block_size <= 256:
        raise PagedlabError(f"block size {block_size}; the Triton kernels take 1 to 256. Use backend='torch'.")
    if not 1 <= group <= MAX_GROUP:
        raise PagedlabError(
            f"{group} query heads share one KV head; the Triton kernels take groups of 1 to {MAX_GROUP}. Use "
            "backend='torch'."
        )


def refuse_old(capability: int) -> None:
    if capability < OLDEST:
        raise PagedlabError(
            f"This GPU is sm_{capability}; Triton needs sm_{OLDEST} (Turing) or newer. Use backend='torch' on it, or "
            "the CPU."
        )


def check_device(device: torch.device) -> int | None:
    """The device's compute capability (75, 80, 90 ...), or None when kernels are interpreted on the CPU."""
    if interpreting():
        return None
    if device.type == "meta" and target is not None:
        return target.capability
    if device.type != "cuda":
        raise PagedlabError(
            f"The tensors are on {device}, and Triton compiles for GPUs. Use backend='torch', or let Triton "
            f"interpret its kernels on the CPU. {RESTART}"
        )
    major, minor = torch.cuda.get_device_capability(device)
    refuse_old(10 * major + minor)
    return 10 * major + minor


def check_launch(query: torch.Tensor, layer) -> int | None:
    """Refuse what cannot run here; returns the compute capability, or None under the interpreter."""
    capability = check_device(query.device)
    group = query.shape[1] // layer.num_kv_heads
    refuse(capability, query.dtype, query.shape[2], layer.block_size, group)
    farthest = (layer.block_size - 1) * max(layer.key.stride(1), layer.value.stride(1))
    if max(farthest, (query.shape[1] - 1) * query.stride(1)) >= 2**31:
        raise PagedlabError(
            "The tokens of a block, or the heads of a query, lie 2**31 elements apart or more, and the Triton kernels "
            "count these in 32 bit; call .contiguous() first."
        )
    return capability


def check_plain(query, layer, block_tables, seq_lens) -> None:
    """Refuse what the plain kernels (`ladder5_decode`, `rungs`) take for granted and would compute nonsense from."""
    check_launch(query, layer)
    if query.dim() != 3 or not query.is_contiguous() or layer.key.stride() != layer.value.stride():
        raise PagedlabError("The plain kernels take a contiguous query, and K and V with equal strides.")
    if not len(query) == len(block_tables) == len(seq_lens):
        raise PagedlabError(
            f"The plain kernels take one query a request; there are {len(query)} queries, {len(block_tables)} block "
            f"tables and {len(seq_lens)} lengths."
        )
    if max(len(query) * block_tables.stride(0), layer.num_kv_heads * layer.key.stride(2)) >= 2**31:
        raise PagedlabError("The plain kernels count in 32 bit; the tables, or the pool's heads, lie too far apart.")
    if query.device.type == "cpu":
        for table, length in zip(block_tables, seq_lens.tolist(), strict=True):
            check_table(layer.key[:, :, 0], table, length)


def check_table(key, table, length: int) -> None:
    """Refuse a table `[its blocks]` that does not hold `length` tokens of one head's K `[blocks, block size, head
    size]`, and on a CPU block ids that are not there."""
    if key.dim() != 3 or key.stride(-1) != 1 or table.dim() != 1 or (len(table) > 1 and table.stride(0) != 1):
        raise PagedlabError(
            f"K is {list(key.shape)} and the table {list(table.shape)}; allowed are [blocks, block size, head size] "
            "and [its blocks], the last dimension of each contiguous."
        )
    used = -(-length // key.shape[1])
    if not 0 < used <= len(table):
        raise PagedlabError(
            f"{length} tokens do not fit into a table of {len(table)} blocks of {key.shape[1]}; at least one is needed."
        )
    if table.device.type == "cpu":
        check_blocks(table[:used], len(key))


def check_blocks(ids, num_blocks: int) -> None:
    """Refuse block ids, on the CPU, that are not in a pool of `num_blocks`."""
    lowest, highest = (int(block) for block in ids.aminmax())
    if lowest < 0 or highest >= num_blocks:
        wrong = lowest if lowest < 0 else highest
        raise PagedlabError(f"Block {wrong} is not in the pool; ids go from 0 to {num_blocks - 1}.")


def upcast(dtype: torch.dtype) -> bool:
    """True when the kernel has to compute in float32: the interpreter's products of bfloat16 are nonsense."""
    return dtype == torch.bfloat16 and interpreting()


def padded(size: int) -> int:
    """The next power of two: the only lengths that `tl.arange` has."""
    return triton.next_power_of_2(size)


def rows_for(group: int, dtype: torch.dtype, capability: int | None) -> int:
    """Rows of the decode kernel's query tile: the group, padded; where tensor cores multiply they take 16 at least."""
    tensor_cores = capability is not None and capability >= 80 and dtype != torch.float32
    return max(16, padded(group)) if tensor_cores else padded(group)


def processors(device: torch.device) -> int:
    """How many programs run side by side at least: the GPU's streaming multiprocessors; 1 under the interpreter."""
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 1
