"""A kernel that is WGSL text: started over WebGPU as Triton starts one of its own, with the same arguments.

What a Triton kernel takes as arguments, the text finds under the same names: tensors as arrays, numbers as `u32` and
`f32`, and what is `tl.constexpr` there as constants. (One name differs: `partial` is a reserved word, so `partials`.)
These declarations stand behind the text, so that its lines keep their numbers.

WebGPU lets no kernel out of its buffers, and does not say where one tried. So behind each array is a margin: of NaN,
behind the table of the number of a block that is all NaN. A margin that has changed is an error. (What
is read behind an array and not used for anything stays unseen.) And WGSL promises nothing about infinity: in the
arrays LOWEST stands for minus infinity, there and back.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import numpy as np
import torch

from pagedlab.errors import PagedlabError
from pagedlab.grading.tasks.ex05.fence import extent
from pagedlab.kernels import available

PARAMETERS = {
    "split_kernel": {
        "partials": "array<f32>", "largest": "array<f32>", "total": "array<f32>", "query": "array<f32>",
        "key": "array<f32>", "value": "array<f32>", "table": "array<u32>", "length": "u32", "scale": "f32",
        "stride_block": "u32", "stride_token": "u32", "stride_head": "u32",
    },
    "merge_kernel": dict.fromkeys(("output", "partials", "largest", "total"), "array<f32>"),
}  # fmt: skip
RESULTS = {"split_kernel": ("partials", "largest", "total"), "merge_kernel": ("output",)}
LOWEST = np.float32(-3.0e38)
MARGIN = 64  # numbers, or a whole block where that is more
MARK = np.uint32(0x7FC0BEEF).view(np.float32)  # a NaN that nobody computes
SECONDS = 15.0  # for one launch, and for its text to be compiled
_hanging: list[threading.Thread] = []


def runnable(name: str, kernel: Any) -> Any:
    """What can be started as ``it[grid](*arguments, **constants)``: a Triton kernel itself, WGSL text over WebGPU.

    name: "split_kernel" or "merge_kernel". Raises NotImplementedError for text as it was shipped, and PagedlabError for
    what cannot be started here.
    """
    if isinstance(kernel, str):
        if "raise NotImplementedError" in kernel:
            raise NotImplementedError
        return WgslKernel(name, re.sub(r"^(\s*)#", r"\1//", kernel, flags=re.MULTILINE))
    if not available():
        raise PagedlabError(f"There is no Triton here to run {name}. Set IN_WGSL = True, and write it in WGSL.")
    return kernel


class WgslKernel:
    """WGSL text with an entry point called ``name``."""

    def __init__(self, name: str, text: str) -> None:
        self.name, self.text = name, text

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        from pagedlab.kernels.wgsl.gpu import open_gpu

        open_gpu()  # the first time this takes seconds, which are not the kernel's

        def start(*arguments: Any, **constants: int) -> None:
            given = dict(zip(PARAMETERS[self.name], arguments, strict=True))
            fixed = tuple(constants.items())
            arrays = {one: _with_margin(one, what, given) for one, what in given.items() if hasattr(what, "shape")}
            numbers = given | arrays
            work = partial(_run, self.name, self.text, fixed, grid, numbers)
            for one, found in zip(RESULTS[self.name], _within_seconds(self.name, work), strict=True):
                mine = found[: given[one].numel()]
                if not np.array_equal(found[len(mine) :].view(np.uint32), arrays[one][len(mine) :].view(np.uint32)):
                    raise IndexError(f"a program writes outside of {', '.join(RESULTS[self.name])}")
                mine = np.where(mine == LOWEST, -np.float32(np.inf), mine)
                given[one].copy_(torch.from_numpy(mine).view(given[one].shape))

        return start


@lru_cache(maxsize=64)
def _compiled(name: str, text: str, constants: tuple[tuple[str, int], ...]) -> Any:
    """The pipeline. Raises PagedlabError with the text's line where it does not compile."""
    from pagedlab.kernels.wgsl.gpu import library, open_gpu

    gpu, wgpu = open_gpu(), library()
    declared = [f"const LOWEST = {LOWEST:.1e};", *(f"const {name} = {value}u;" for name, value in constants)]
    entries = []
    for i, (parameter, kind) in enumerate(PARAMETERS[name].items()):
        written = parameter in RESULTS[name]
        space = "uniform" if kind in ("u32", "f32") else f"storage, {'read_write' if written else 'read'}"
        declared.append(f"@group(0) @binding({i}) var<{space}> {parameter}: {kind};")
        buffer = {"type": "uniform" if space == "uniform" else "storage" if written else "read-only-storage"}
        entries.append({"binding": i, "visibility": wgpu.ShaderStage.COMPUTE, "buffer": buffer})
    layout = gpu.device.create_bind_group_layout(entries=entries)
    layout = gpu.device.create_pipeline_layout(bind_group_layouts=[layout])
    try:
        module = gpu.device.create_shader_module(code="\n".join([text, *declared]))
        compute = {"module": module, "entry_point": name}
        return gpu.device.create_compute_pipeline(layout=layout, compute=compute)
    except wgpu.GPUError as error:
        raise PagedlabError(_why(name, text, str(error))) from None


def _why(name: str, text: str, message: str) -> str:
    """A compiler's page of words, in a sentence: which line, what is in it, and the compiler's own message."""
    lines, place = text.split("\n"), re.search(r"┌─ (?:wgsl)?:(\d+):", message)
    parsing = re.search(r"parsing error: (.*)", message)  # else the last line is the innermost reason
    reason = parsing[1] if parsing else message.strip().rpartition("\n")[2].strip()
    note = re.search(r"= note: (.*)", message)
    reason += f"; {note[1]}" if note else ""
    if place is None:
        return f"{name} does not compile: {reason}"
    number = int(place[1])
    where = f"line {number}, `{lines[number - 1].strip()[:60]}`" if number <= len(lines) else "behind its last line"
    return f"{name} does not compile, {where}: {reason}"


def _run(name: str, text: str, fixed: tuple, grid: tuple[int, ...], given: dict[str, Any]) -> list[np.ndarray]:
    """One launch; its results, with their margins."""
    from pagedlab.kernels.wgsl.gpu import encode, library, open_gpu

    gpu, pipeline, buffers = open_gpu(), _compiled(name, text, fixed), {}
    for one, what in given.items():
        if isinstance(what, np.ndarray):
            buffers[one] = gpu.upload(what, one)
        else:
            number = (np.uint32 if PARAMETERS[name][one] == "u32" else np.float32)(what)
            usage = library().BufferUsage.UNIFORM
            buffers[one] = gpu.device.create_buffer_with_data(data=number.tobytes(), usage=usage)
    entries = [{"binding": i, "resource": {"buffer": buffers[one], "offset": 0, "size": buffers[one].size}}
               for i, one in enumerate(given)]  # fmt: skip
    bound = gpu.device.create_bind_group(layout=pipeline.get_bind_group_layout(0), entries=entries)
    encoder = gpu.device.create_command_encoder()
    encode(encoder, [(pipeline, bound, grid)])
    gpu.queue.submit([encoder.finish()])
    return [np.frombuffer(gpu.read(buffers[one], given[one].nbytes), np.float32) for one in RESULTS[name]]


def _with_margin(name: str, tensor: torch.Tensor, given: dict[str, Any]) -> np.ndarray:
    """A tensor's numbers as they lie in memory, and what nobody should read or write behind them."""
    flat = tensor.as_strided((extent(tensor),), (1,)).numpy(force=True)
    room = max(MARGIN, tensor.stride(0))
    if name == "table":
        return np.concatenate([flat, np.full(room, len(given["key"]))]).astype(np.uint32)
    return np.concatenate([np.where(flat == -np.inf, LOWEST, flat), np.full(room, MARK)]).astype(np.float32)


def _within_seconds(name: str, work: Callable[[], Any]) -> Any:
    """What ``work`` gives. Raises what it raises, and PagedlabError where it does not end: nobody can stop a kernel."""
    if any(thread.is_alive() for thread in _hanging):
        raise PagedlabError("An earlier kernel has not ended, and nothing else can be started. Restart the notebook.")
    given: list[Any] = []
    raised: list[Exception] = []

    def working() -> None:
        try:
            given.append(work())
        except Exception as error:
            raised.append(error)

    thread = threading.Thread(target=working, daemon=True)
    thread.start()
    thread.join(SECONDS)
    if thread.is_alive():
        _hanging.append(thread)
        raise PagedlabError(f"{name} has not ended after {SECONDS:.0f} seconds. Does one of its loops have no end?")
    if raised:
        raise raised[0]
    return given[0]
