"""A device behind WebGPU: a GPU's, or Mesa's, which a CPU runs. `.ci/run` installs that one."""

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
    return gpu.run
