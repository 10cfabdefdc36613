"""A device behind WebGPU: a GPU's, or Mesa's, which a CPU runs. `.ci/run` installs that one."""

import numpy as np
import pytest


@pytest.fixture(scope="session")
def gpu():
    from pagedlab.kernels.wgsl.gpu import adapters, open_gpu

    if not adapters():
        pytest.skip("no WebGPU adapter here; install one (Debian, Ubuntu: apt-get install mesa-vulkan-drivers)")
    return open_gpu()


@pytest.fixture
def run(gpu):
    """Runs a kernel once: name, constants, groups, arrays in the order of its bindings -> those arrays afterwards."""
    from pagedlab.kernels.wgsl.gpu import encode

    def run(name, constants, groups, *arrays, number="float32"):
        kernel = gpu.kernel(name, number, **constants)
        buffers = [gpu.upload(array, "test data") for array in arrays]
        encoder = gpu.device.create_command_encoder()
        encode(encoder, [(kernel.pipeline, kernel.bind(*buffers), groups)])
        gpu.queue.submit([encoder.finish()])
        found = []
        for buffer, array in zip(buffers, arrays, strict=True):
            data = np.frombuffer(gpu.read(buffer, buffer.size), array.dtype)
            found.append(data[: array.size].reshape(array.shape))
        return found

    return run
