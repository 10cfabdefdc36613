"""How does a program get to a GPU through WebGPU? An adapter, a device, buffers, and kernels made of WGSL.

The kernels lie beside this file, one idea a file; each says in its first lines which constants it wants. They are put
before its text as declarations, and so are the types ``Number`` (of weights, K and V) and ``Four`` (four of them).

Source: the WebGPU and WGSL specifications (W3C); the package ``wgpu``.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from pagedlab.errors import PagedlabError

HERE = Path(__file__).parent
NUMBERS = {"float32": "f32", "float16": "f16"}
# What a kernel may ask for beyond what every implementation gives.
LIMITS = ("max-storage-buffer-binding-size", "max-buffer-size")
FEATURES = ("shader-f16", "timestamp-query")  # asked for where the adapter has them: 16-bit numbers; its clock


def library() -> Any:
    """The package ``wgpu``. Raises PagedlabError where it is not installed or finds no driver to load."""
    os.environ.setdefault("XDG_RUNTIME_DIR", tempfile.gettempdir())  # Mesa's drivers want it to name a folder
    try:
        import wgpu
    except ImportError:
        raise PagedlabError("The package wgpu is not installed, so there is no WebGPU: pip install wgpu.") from None
    return wgpu


def adapters() -> list[Any]:
    """Every adapter of this machine, those of hardware first. OpenGL's are left out: the same devices once more."""
    found = library().gpu.enumerate_adapters_sync()
    return sorted((one for one in found if one.info["backend_type"] != "OpenGL"), key=is_software)


def is_software(adapter: Any) -> bool:
    """Whether a CPU does its work."""
    return adapter.info["adapter_type"] == "CPU"


def name_of(adapter: Any) -> str:
    """As a badge shows it: "Apple M2 · Metal", "llvmpipe (software) · Vulkan"."""
    name = adapter.info["device"].partition(" (")[0]
    return f"{name}{' (software)' if is_software(adapter) else ''} · {adapter.info['backend_type']}"


@cache
def open_gpu() -> GPU:
    """The machine's first adapter, opened once. Raises PagedlabError where there is none."""
    found = adapters()
    if not found:
        raise PagedlabError(
            "There is no WebGPU adapter on this machine. On Linux install the GPU's Vulkan driver; "
            "mesa-vulkan-drivers brings one that a CPU runs."
        )
    return GPU(found[0])


class GPU:
    """A device of ``adapter``, with the largest buffers that it can have."""

    def __init__(self, adapter: Any) -> None:
        self._wgpu = library()
        self.info, self.name = adapter.info, name_of(adapter)
        self.has_f16 = "shader-f16" in adapter.features
        self.limits = {name: adapter.limits[name] for name in LIMITS}
        self.device = adapter.request_device_sync(
            required_features=[one for one in FEATURES if one in adapter.features], required_limits=self.limits
        )
        self.queue = self.device.queue
        use = self._wgpu.BufferUsage
        self._storage = use.STORAGE | use.COPY_DST | use.COPY_SRC
        self._readback = use.MAP_READ | use.COPY_DST

    @property
    def largest(self) -> int:
        """Bytes of the largest buffer that a kernel can read."""
        return min(self.limits.values())

    def buffer(self, num_bytes: int, what: str) -> Any:
        """Zeroed memory of the GPU. ``what`` it is for, should it be too large."""
        if num_bytes > self.largest:
            raise PagedlabError(
                f"{what}: {num_bytes:,} bytes are needed, and a buffer of {self.name} has at most {self.largest:,}. "
                "Take a smaller pool (num_gpu_blocks_override), fewer requests (max_num_seqs) or a smaller model."
            )
        return self.device.create_buffer(size=max(16, -(-num_bytes // 4) * 4), usage=self._storage)

    def upload(self, array: np.ndarray, what: str) -> Any:
        """A buffer with the bytes of ``array``."""
        buffer = self.buffer(array.nbytes, what)
        self.write(buffer, array)
        return buffer

    def write(self, buffer: Any, array: np.ndarray) -> None:
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        if data.size % 4:  # WebGPU copies whole words
            data = np.concatenate([data, np.zeros(-data.size % 4, np.uint8)])
        if data.size:
            self.queue.write_buffer(buffer, 0, data)

    def read(self, buffer: Any, num_bytes: int, offset: int = 0) -> bytes:
        """Waits for all that was submitted."""
        return bytes(self.queue.read_buffer(buffer, offset, num_bytes))

    def readback(self, num_bytes: int) -> Any:
        """A buffer that the host can look into once a copy has filled it."""
        return self.device.create_buffer(size=max(16, num_bytes), usage=self._readback)

    def look_into(self, readback: Any) -> bytes:
        """What a copy put there; waits for it. Good for one look."""
        readback.map_sync(self._wgpu.MapMode.READ)
        data = bytes(readback.read_mapped())
        readback.unmap()
        readback.destroy()
        return data

    @lru_cache(maxsize=None, typed=True)  # noqa: B019 - engines on one GPU compile once; 1 and 1.0 are two constants
    def kernel(self, name: str, number: str = "float32", **constants: int | float) -> Kernel:
        """The kernel of the file ``name``.wgsl. ``number``: what weights, K and V are."""
        text = (HERE / f"{name}.wgsl").read_text(encoding="utf-8")
        return Kernel(self, name, prelude(NUMBERS[number], constants) + text)


def prelude(number: str, constants: dict[str, int | float]) -> str:
    """What stands before a kernel's own text."""
    lines = ["enable f16;"] if number == "f16" else []
    lines += [f"alias Number = {number};", "alias Four = vec4<Number>;"]
    lines += [f"const {name} = {value}{'u' if isinstance(value, int) else 'f'};" for name, value in constants.items()]
    return "\n".join(lines) + "\n"


class Kernel:
    """A compiled kernel; its entry point has its name. What it binds, and whether it writes there, its text says."""

    def __init__(self, gpu: GPU, name: str, text: str) -> None:
        self._device, wgpu = gpu.device, library()
        kinds = [line.partition("var<storage, ")[2] for line in text.splitlines() if "@binding(" in line]
        stage = wgpu.ShaderStage.COMPUTE
        entries = [
            {"binding": i, "visibility": stage, "buffer": {
                "type": "storage" if kind.startswith("read_write") else "read-only-storage"}}
            for i, kind in enumerate(kinds)
        ]  # fmt: skip
        try:
            self.layout = gpu.device.create_bind_group_layout(entries=entries)
            layout = gpu.device.create_pipeline_layout(bind_group_layouts=[self.layout])
            module = gpu.device.create_shader_module(code=text)
            self.pipeline = gpu.device.create_compute_pipeline(
                label=name, layout=layout, compute={"module": module, "entry_point": name}
            )
        except wgpu.GPUError as error:
            first = next((line for line in str(error).splitlines() if line.strip()), "no reason given")
            raise PagedlabError(f"The kernel {name}.wgsl cannot be compiled for {gpu.name}: {first.strip()}") from None

    def bind(self, *buffers: Any) -> Any:
        """These buffers, in the order of the kernel's bindings, to be handed over with each dispatch."""
        entries = [
            {"binding": i, "resource": {"buffer": buffer, "offset": 0, "size": buffer.size}}
            for i, buffer in enumerate(buffers)
        ]
        return self._device.create_bind_group(layout=self.layout, entries=entries)


# A pipeline, whose label is its kernel's name; what is bound to it; and how many workgroups.
Dispatch = tuple[Any, Any, tuple[int, ...]]


def encode(encoder: Any, dispatches: Sequence[Dispatch], timestamps: Any = None) -> None:
    """All of these in one pass of ``encoder``, each after the one before. ``timestamps``: where the pass writes down
    when it began and ended; see :mod:`pagedlab.kernels.wgsl.timing`."""
    run, last = encoder.begin_compute_pass(timestamp_writes=timestamps), None
    for pipeline, bound, groups in dispatches:
        if pipeline is not last:
            run.set_pipeline(pipeline)
            last = pipeline
        run.set_bind_group(0, bound)
        run.dispatch_workgroups(*groups)
    run.end()
