"""The kernels in C++: each says what its form in torch says; and what becomes of them without a compiler."""

import os
import shutil
import subprocess
import sys

import pytest
import torch

from pagedlab.kernels.cpp import calls, library
from pagedlab.model import llama

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the kernels in C++ are for Linux")
MANY = calls.FEW_TOKENS


@pytest.fixture(autouse=True)
def here():
    assert library.why_not() is None


def random(*shape, seed=0, times=1.0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)) * times


def with_gaps(x):
    """The same numbers, in rows that are further apart."""
    wide = torch.full((*x.shape[:-1], 2 * x.shape[-1]), float("nan"))
    wide[..., : x.shape[-1]] = x
    return wide[..., : x.shape[-1]]


@pytest.mark.parametrize("tokens", [1, 2, 3, 7, 8, MANY])
@pytest.mark.parametrize("n, rows", [(8, 1), (64, 33), (72, 40), (13, 9), (576, 960)])
@pytest.mark.parametrize("biased", [False, True])
def test_linear_is_the_product_in_float64(tokens, n, rows, biased):
    x, weight, bias = random(tokens, n), random(rows, n, seed=1), random(rows, seed=2) if biased else None
    exact = torch.nn.functional.linear(x.double(), weight.double(), None if bias is None else bias.double())
    for given in (x, with_gaps(x)):
        torch.testing.assert_close(calls.linear(given, weight, bias).double(), exact, atol=1e-4, rtol=1e-5)


@pytest.mark.parametrize("n", [8, 13, 576])
def test_the_norm_is_that_of_torch(n):
    weight = torch.arange(n) / 7
    for x in (random(5, n), random(1, n, times=1e-6), random(3, n, times=50), with_gaps(random(4, n))):
        exact = llama.rms_norm.plain(x, weight, 1e-5)
        torch.testing.assert_close(calls.rms_norm(x, weight, 1e-5), exact, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("tokens, n", [(1, 8), (5, 13), (MANY, 64)])
@pytest.mark.parametrize("size", [2, 8, 16, 64, 72])
@pytest.mark.parametrize("biased", [False, True])
def test_heads_are_those_of_torch_in_float64_and_the_first_are_turned(tokens, n, size, biased):
    hidden, norm, weight = random(tokens, n), random(n, seed=1), random(5 * size, n, seed=2)
    bias, angle = random(5 * size, seed=3) if biased else None, random(tokens, 1, size // 2, seed=4)
    others = [norm, 1e-5, weight, bias, angle.cos(), angle.sin()]
    exact = llama.rotated_heads(hidden.double(), *in_float64(others), 3)
    for given in (hidden, with_gaps(hidden)):
        torch.testing.assert_close(calls.heads(given, *others, 3).double(), exact, atol=1e-4, rtol=1e-5)
    unturned = calls.heads(hidden, *others, 0)
    assert torch.equal(unturned[:, 3:], calls.heads(hidden, *others, 3)[:, 3:])


@pytest.mark.parametrize("tokens, n, m", [(1, 8, 8), (5, 13, 17), (MANY, 64, 200)])
def test_the_feed_forward_is_that_of_torch_in_float64(tokens, n, m):
    hidden, norm = random(tokens, n), random(n, seed=1)
    others = [norm, 1e-5, random(2 * m, n, seed=2), random(n, m, seed=3)]
    exact = llama.feed_forward(hidden.double(), *in_float64(others))
    for given in (hidden, with_gaps(hidden)):
        torch.testing.assert_close(calls.feed_forward(given, *others).double(), exact, atol=1e-3, rtol=1e-5)


def in_float64(values):
    """As torch computes them: the kernels are for float32 only."""
    return [value.double() if isinstance(value, torch.Tensor) else value for value in values]


def test_nan_and_infinity_stay_seen():
    x, ones, eye = random(3, 16), torch.ones(16), torch.eye(16)
    x[1, 3] = float("nan")
    results = (
        calls.linear(x, random(8, 16)),
        calls.rms_norm(x, ones, 1e-5),
        calls.heads(x, ones, 1e-5, random(16, 16), None, torch.ones(3, 1, 2), torch.ones(3, 1, 2), 4),
        calls.feed_forward(x, ones, 1e-5, random(32, 16), eye),
    )
    for result in results:
        assert result[1].isnan().any() and not result[::2].isnan().any()


def test_a_gate_far_from_zero_is_open_or_shut():
    far = torch.tensor([100.0, -100.0, 1e30, -1e30, 88.5, -88.5, 0.0, 1.0])
    ones, eye = torch.ones(8), torch.eye(8)
    gated = calls.feed_forward(ones[None], ones, 0.0, torch.cat((far.diag(), eye)), eye)
    torch.testing.assert_close(gated[0], torch.nn.functional.silu(far))


def test_a_token_gets_the_same_bits_whatever_is_beside_it():
    x, weight = random(MANY, 200), random(70, 200, seed=1)
    whole = calls.linear(x, weight)
    for tokens in range(1, MANY):
        assert torch.equal(calls.linear(x[:tokens], weight), whole[:tokens])


@pytest.mark.parametrize("x", [
    torch.ones(MANY + 1, 8), torch.ones(0, 8), torch.ones(3, 8, dtype=torch.float64), torch.ones(3, 8).bfloat16(),
    torch.ones(8, 3).t(), torch.ones(3, 8, device="meta"),
])  # fmt: skip
def test_what_they_are_not_for_goes_to_torch(x, monkeypatch):
    weight = torch.ones(64, 8, dtype=x.dtype, device=x.device)
    assert calls.suits(torch.ones(3, 8)) and not calls.suits(x)
    monkeypatch.setattr(library, "loaded", None)  # nobody may call it
    monkeypatch.setattr(calls, "loaded", lambda: 1)
    assert llama.linear(x, weight).shape == (len(x), 64)


def printed(tmp_path, *, program="print(library.why_not())", **environment):
    """What a new process prints, whose cache folder is empty at first."""
    given = os.environ | {"PAGEDLAB_CACHE": str(tmp_path / "cache")} | environment
    code = f"from pagedlab.kernels.cpp import library\n{program}"
    done = subprocess.run([sys.executable, "-c", code], env=given, capture_output=True, text=True, timeout=120)
    assert not done.returncode, done.stderr
    return done.stdout.strip()


@pytest.mark.slow
def test_they_are_compiled_once_and_then_need_no_compiler(tmp_path):
    assert printed(tmp_path) == "None"
    kept = [*(tmp_path / "cache").iterdir()]
    assert [file.suffix for file in kept] == [".so"]
    assert printed(tmp_path, PATH="", CXX="") == "None"
    assert [*(tmp_path / "cache").iterdir()] == kept


@pytest.mark.slow
@pytest.mark.parametrize("environment, why", [
    (dict(PATH="", CXX=""), "there is no C++ compiler here; install one (Debian and Ubuntu: apt-get install g++)"),
    (dict(CXX="no-such-compiler"), "the C++ compiler no-such-compiler that CXX names is not there"),
    (dict(CXX=shutil.which("false") or "false"), "cannot compile the kernels in C++: it ended with 1"),
])  # fmt: skip
def test_without_a_compiler_the_model_runs_and_the_reason_is_said(environment, why, tmp_path):
    program = """
from pagedlab import LLM, SamplingParams
llm = LLM("tiny-random", num_gpu_blocks_override=8, record=True)
[answer] = llm.generate("Hello", SamplingParams(max_tokens=3, ignore_eos=True))
print(llm.trace.header["attention_backend"], len(answer.outputs[0].token_ids), library.why_not())
"""
    kind, tokens, reason = printed(tmp_path, program=program, **environment).split(" ", 2)
    assert (kind, tokens) == ("torch", "3") and why in reason
    assert not [*(tmp_path / "cache").glob("*")]


@pytest.mark.slow
def test_where_nothing_can_be_kept_they_are_compiled_for_the_process(tmp_path):
    (tmp_path / "cache").write_text("a file, and no folder")
    assert printed(tmp_path) == "None"
    assert (tmp_path / "cache").read_text() == "a file, and no folder"
