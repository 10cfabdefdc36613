"""How does a program get to a GPU through WebGPU? An adapter, a device, buffers, and kernels made of WGSL.

The kernels lie beside this file, one idea a file; each says in its first lines which constants it wants. They are put
before its text as declarations, and so are the types ``Number`` (of weights, K and V) and ``Four`` (four of them).

Source: the WebGPU and WGSL specifications (W3C); the package ``wgpu``.
"""

from __future__ import annotations

import ctypes
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from pagedlab.errors import PagedlabError

HERE = Path(__file__).parent
NUMBERS = {"float32": "f32", "float16": "f16"}
MOST_GROUPS = 65535  # workgroups in one direction of a dispatch: what every implementation allows
SMALLER = "Take a smaller pool (num_gpu_blocks_override), fewer requests (max_num_seqs) or a smaller model."
NO_ADAPTER = (
    "There is no WebGPU adapter on this machine. On Linux install the GPU's Vulkan driver; mesa-vulkan-drivers brings "
    "one that a CPU runs."
)
# What a kernel may ask for beyond what every implementation gives.
LIMITS = ("max-storage-buffer-binding-size", "max-buffer-size")
FEATURES = ("shader-f16", "timestamp-query")  # asked for where the adapter has them: 16-bit numbers; its clock


def library() -> Any:
    """The package ``wgpu``. Raises PagedlabError where it is not installed or finds no driver to load."""
    os.environ.setdefault("XDG_RUNTIME_DIR", tempfile.gettempdir())  # Mesa's drivers want it to name a folder
    _load_tritons_llvm()
    try:
        import wgpu
        import wgpu.backends.auto
    except ImportError:
        raise PagedlabError("The package wgpu is not installed, so there is no WebGPU: pip install wgpu.") from None
    except (RuntimeError, OSError) as error:  # a package without its library, or with another system's
        again = "pip install --force-reinstall wgpu"
        raise PagedlabError(f"The package wgpu cannot load its library: {_reason(error)} ({again}).") from None
    return wgpu


@cache
def _load_tritons_llvm() -> None:
    """Mesa's drivers and Triton each bring an LLVM. When Mesa's is in the process first, importing Triton later ends
    the process; the other way round all is well. So Triton's library comes first, and nothing of Triton runs yet."""
    triton = find_spec("triton")
    for folder in triton.submodule_search_locations or () if triton else ():
        with suppress(OSError):
            ctypes.CDLL(str(Path(folder, "_C", "libtriton.so")))


def adapters() -> list[Any]:
    """Every adapter of this machine, the strongest kind first. OpenGL's are left out: the same devices once more."""
    kinds = ("DiscreteGPU", "IntegratedGPU")
    found = [one for one in library().gpu.enumerate_adapters_sync() if one.info["backend_type"] != "OpenGL"]
    rank = {kind: place for place, kind in enumerate(kinds)}
    return sorted(found, key=lambda one: (is_software(one), rank.get(one.info["adapter_type"], len(kinds))))


def is_software(adapter: Any) -> bool:
    """Whether a CPU does its work."""
    return adapter.info["adapter_type"] == "CPU"


def name_of(adapter: Any) -> str:
    """As a badge shows it: "Apple M2 · Metal", "llvmpipe (software) · Vulkan"."""
    name = adapter.info["device"].partition(" (")[0]
    return f"{name}{' (software)' if is_software(adapter) else ''} · {adapter.info['backend_type']}"


def _reason(error: Exception) -> str:
    """What WebGPU said, in one line: neither where in it that was said, nor its drawing of the place in a text."""
    beside = ("Validation Error", "Caused by:", "In wgpu", "┌", "│", "=")
    lines = (line.strip() for line in str(error).splitlines())
    text = " ".join(line for line in lines if line and not line.startswith(beside) and "│" not in line)
    return " ".join(text.split())[:300] or "no reason given"


def open_gpu(index: int = 0) -> GPU:
    """The adapter of this number, as ``pagedlab doctor`` lists them, opened once. Raises PagedlabError where there is
    none."""
    return _open(index)


@cache
def _open(index: int) -> GPU:
    found = adapters()
    if not found:
        raise PagedlabError(NO_ADAPTER)
    if not 0 <= index < len(found):
        there = ", ".join(f"{i} ({name_of(one)})" for i, one in enumerate(found))
        raise PagedlabError(f"There is no WebGPU adapter {index}; this machine has {there}.")
    return GPU(found[index])


class GPU:
    """A device of ``adapter``, with the largest buffers that it can have."""

    def __init__(self, adapter: Any) -> None:
        self._wgpu = library()
        self.info, self.name = adapter.info, name_of(adapter)
        self.driver = self.info["description"] or None
        self.has_f16 = "shader-f16" in adapter.features
        self.limits = {name: adapter.limits[name] for name in LIMITS}
        with self.errors("The adapter cannot be opened"):
            self.device = adapter.request_device_sync(
                required_features=[one for one in FEATURES if one in adapter.features], required_limits=self.limits
            )
        self.queue = self.device.queue
        use = self._wgpu.BufferUsage
        self._storage = use.STORAGE | use.COPY_DST | use.COPY_SRC
        self._readback = use.MAP_READ | use.COPY_DST

    @contextmanager
    def errors(self, what: str) -> Iterator[None]:
        """Inside, what WebGPU refuses is a PagedlabError: one sentence that says ``what`` was tried."""
        wgpu = self._wgpu
        try:
            yield
        except wgpu.GPUOutOfMemoryError:
            raise PagedlabError(f"{what}: {self.name} has no memory left. {SMALLER}") from None
        except wgpu.GPUError as error:
            reason = _reason(error)
            if "device is lost" not in reason.lower():
                raise PagedlabError(f"{what}: {self.name} refused it: {reason}") from None
            _open.cache_clear()  # the next engine gets a new one
            raise PagedlabError(
                f"{what}: {self.name} is lost, and with it all that lay in its memory; its driver gave it up (it was "
                "unplugged, reset, or a kernel took too long). Make a new engine, or restart the notebook's kernel."
            ) from None

    @contextmanager
    def submission(self) -> Iterator[Any]:
        """An encoder for what is to be done; it is handed over at the end, in one go."""
        with self.errors("A submission"):
            encoder = self.device.create_command_encoder()
            yield encoder
            self.queue.submit([encoder.finish()])

    @property
    def largest(self) -> int:
        """Bytes of the largest buffer that a kernel can read."""
        return min(self.limits.values())

    def buffer(self, num_bytes: int, what: str) -> Any:
        """Zeroed memory of the GPU. ``what`` it is for, should it be too large."""
        if num_bytes > self.largest:
            raise PagedlabError(
                f"{what}: {num_bytes:,} bytes are needed, and a buffer of {self.name} has at most {self.largest:,}. "
                + SMALLER
            )
        with self.errors(what):
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
            with self.errors("A write"):
                self.queue.write_buffer(buffer, 0, data)

    def read(self, buffer: Any, num_bytes: int, offset: int = 0) -> bytes:
        """Waits for all that was submitted."""
        with self.errors("A read"):
            return bytes(self.queue.read_buffer(buffer, offset, num_bytes))

    def readback(self, num_bytes: int) -> Any:
        """A buffer that the host can look into once a copy has filled it."""
        with self.errors("A read"):
            return self.device.create_buffer(size=max(16, num_bytes), usage=self._readback)

    def look_into(self, readback: Any) -> bytes:
        """What a copy put there; waits for it. Good for one look."""
        with self.errors("A read"):
            readback.map_sync(self._wgpu.MapMode.READ)
            data = bytes(readback.read_mapped())
            readback.unmap()
            readback.destroy()
            return data

    @lru_cache(maxsize=None, typed=True)  # noqa: B019 - engines on one GPU compile once; 1 and 1.0 are two constants
    def kernel(self, name: str, number: str = "float32", **constants: int | float) -> Kernel:
        """The kernel of the file ``name``.wgsl, see :func:`text_of`."""
        return Kernel(self, name, text_of(name, number, **constants))

    def run(
        self, name: str, constants: dict[str, int | float], groups: tuple[int, ...], *arrays: np.ndarray,
        number: str = "float32",
    ) -> list[np.ndarray]:  # fmt: skip
        """Start a kernel once. Its bindings are copies of ``arrays``, in order; returned is what is in them then."""
        kernel = self.kernel(name, number, **constants)
        buffers = [self.upload(array, name) for array in arrays]
        with self.submission() as encoder:
            encode(encoder, [(kernel.pipeline, kernel.bind(*buffers), groups)])
        found = []
        for buffer, array in zip(buffers, arrays, strict=True):
            data = np.frombuffer(self.read(buffer, buffer.size), array.dtype)
            found.append(data[: array.size].reshape(array.shape))
        return found


def text_of(name: str, number: str = "float32", **constants: int | float) -> str:
    """All of the kernel ``name``.wgsl: its constants, then the file. ``number``: what weights, K and V are."""
    lines = ["enable f16;"] if number == "float16" else []
    lines += [f"alias Number = {NUMBERS[number]};", "alias Four = vec4<Number>;"]
    lines += [f"const {name} = {value}{'u' if isinstance(value, int) else 'f'};" for name, value in constants.items()]
    return "\n".join(lines) + "\n" + (HERE / f"{name}.wgsl").read_text(encoding="utf-8")


class Kernel:
    """A compiled kernel; its entry point has its name. What it binds, and whether it writes there, its text says."""

    def __init__(self, gpu: GPU, name: str, text: str) -> None:
        self._gpu = gpu
        kinds = [line.partition("var<storage, ")[2] for line in text.splitlines() if "@binding(" in line]
        stage = library().ShaderStage.COMPUTE
        entries = [
            {"binding": i, "visibility": stage, "buffer": {
                "type": "storage" if kind.startswith("read_write") else "read-only-storage"}}
            for i, kind in enumerate(kinds)
        ]  # fmt: skip
        with gpu.errors(f"The kernel {name}.wgsl cannot be compiled"):
            self.layout = gpu.device.create_bind_group_layout(entries=entries)
            layout = gpu.device.create_pipeline_layout(bind_group_layouts=[self.layout])
            module = gpu.device.create_shader_module(code=text)
            self.pipeline = gpu.device.create_compute_pipeline(
                label=name, layout=layout, compute={"module": module, "entry_point": name}
            )

    def bind(self, *buffers: Any) -> Any:
        """These buffers, in the order of the kernel's bindings, to be handed over with each dispatch."""
        entries = [
            {"binding": i, "resource": {"buffer": buffer, "offset": 0, "size": buffer.size}}
            for i, buffer in enumerate(buffers)
        ]
        with self._gpu.errors("A kernel's buffers"):
            return self._gpu.device.create_bind_group(layout=self.layout, entries=entries)


Dispatch = tuple[Any, Any, tuple[int, ...]]  # a pipeline, what is bound to it, and how many workgroups


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
