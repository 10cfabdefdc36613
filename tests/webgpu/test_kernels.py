"""Each kernel in WGSL against the same thing in float64, on shapes that are drawn anew for each seed."""

import numpy as np
import pytest

from pagedlab.bench.gpu.webgpu.cases import CASES, Case, error_of
from pagedlab.errors import PagedlabError

EACH = [(make, number, seed) for make, numbers, seeds in CASES for number in numbers for seed in range(seeds)]


@pytest.mark.parametrize("make, number, seed", EACH, ids=[f"{make.__name__}-{n}-{seed}" for make, n, seed in EACH])
def test_a_kernel(gpu, make, number, seed):
    if number == "float16" and not gpu.has_f16:
        pytest.skip("this machine's adapter has no numbers of 16 bits")
    case = make(np.random.default_rng(seed), number)
    assert error_of(gpu, case) <= case.tolerance, case.constants


@pytest.mark.parametrize("tolerance", [0, 1e-6])
def test_a_wrong_number_and_a_nan_are_errors(tolerance):
    case = Case("any", {}, (1,), (), {0: np.array([1.0, np.nan] if tolerance == 0 else [1.0, 2.0])}, tolerance)
    right = case.wanted[0].copy()
    assert case.error([right]) <= tolerance
    for wrong in ([1.5, right[1]], [np.nan, right[1]]):
        assert case.error([np.array(wrong)]) > tolerance


def test_the_cases_have_every_kernel_of_a_step(gpu, root):
    names = {path.stem for path in (root / "kernels" / "wgsl").glob("*.wgsl")}
    assert {make.__name__ for make, *_ in CASES} == {name for name in names if not name.startswith("ladder")}


def test_a_kernel_that_cannot_be_compiled_is_one_sentence(gpu):
    sentence = "The kernel gate.wgsl cannot be compiled: .* refused it: .*INTERMEDIATE"
    with pytest.raises(PagedlabError, match=sentence) as error:
        gpu.kernel("gate", LANES=64)  # without the constant that it wants
    assert "\n" not in str(error.value)


def test_memory_beyond_a_buffers_limit_is_one_sentence(gpu):
    with pytest.raises(PagedlabError, match="Keys of a layer: .* bytes are needed, and a buffer of .* has at most"):
        gpu.buffer(gpu.largest + 4, "Keys of a layer")
