"""What the compiled kernels look like on five generations of GPUs, read from their binaries. No GPU is needed.

The kernels of this process are interpreted, so the compiler runs in a process of its own.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from pagedlab.attention import KVPool

pytestmark = pytest.mark.slow  # the compiler takes most of a minute where it has compiled nothing yet
TARGETS = (75, 80, 90, 100, 120)


@pytest.fixture(scope="module")
def tables(compiling):
    return printed_by([sys.executable, "-m", "pagedlab.bench.gpu.compiled"], compiling)


def printed_by(command, environment):
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def table(tables):
    return tables["configurations"]


@pytest.fixture(scope="module")
def rungs(tables):
    """Instructions for 16 tokens of a KV head, by target, in the order of the rungs."""
    return {sm: [row["for_16_tokens"] for row in tables["rungs"] if row["sm"] == sm] for sm in TARGETS}


@pytest.fixture(scope="module")
def compiled(table):
    return [row for row in table if "refused" not in row]


def wrong(rows, right):
    return [f"{row['configuration']} on sm_{row['sm']}: {row}" for row in rows if not right(row)]


def test_at_most_24_configurations_ship_and_8_for_odd_heads_and_each_compiles_for_every_target(table):
    names = {row["configuration"] for row in table}
    assert len({row["configuration"] for row in table if row["head_size"] % 16 == 0}) <= 24 and len(names) <= 32
    assert {(row["configuration"], row["sm"]) for row in table} == {(name, sm) for name in names for sm in TARGETS}


def test_bfloat16_is_refused_on_sm_75_with_a_reason_and_nothing_else_is(table):
    assert {(row["dtype"], row["sm"]) for row in table if "refused" in row} == {("bfloat16", 75)}


def test_every_head_size_and_dtype_of_the_course_ships(table):
    assert {row["head_size"] for row in table} == {32, 64, 72, 80, 96, 104, 120, 128, 256}
    assert {row["dtype"] for row in table} == {"float32", "float16", "bfloat16"}


def test_no_kernel_spills_registers(compiled):
    assert not wrong(compiled, lambda row: row["spill_instructions"] == 0 and row["stack_bytes"] == 0)
    assert not wrong(compiled, lambda row: 0 < row["registers"] <= 255)


def test_shared_memory_fits_every_architecture(compiled):
    assert not wrong(compiled, lambda row: row["shared_bytes"] <= row["shared_limit"])


def test_k_and_v_are_loaded_16_bytes_at_a_time(compiled):
    """A tile of K and one of V take at least tile * head size * bytes / 16 / threads such loads each."""

    def enough(row):
        size = {"float32": 4, "float16": 2, "bfloat16": 2}[row["dtype"]]
        each = max(1, row["tile"] * row["head_size"] * size // 16 // (32 * row["warps"]))
        return row["loads_16_bytes"] >= 2 * each

    attending = [row for row in compiled if row["kernel"] in ("decode", "split", "prefill")]
    assert attending and not wrong(attending, enough)
    moving = [row for row in compiled if row["kernel"] in ("write", "move")]
    assert moving and not wrong(moving, lambda row: row["loads_16_bytes"] >= 2 and row["stores_16_bytes"] >= 2)


def test_heads_that_are_no_multiples_of_16_are_loaded_16_bytes_at_a_time_too(compiled):
    """As many loads of 16 bytes as at head size 80 or 128, whose tiles are padded to the same size; as few others."""

    def figures(row):
        return row["loads_16_bytes"], row["loads"], row["stores_16_bytes"]

    def like(row):
        size = 128 if row["kernel"] in ("write", "split") else 80
        (even,) = [
            other
            for other in compiled
            if (other["kernel"], other["sm"], other["head_size"]) == (row["kernel"], row["sm"], size)
            and other["dtype"] == "float16"
            and not other["constants"].get("WATCH")
        ]
        return figures(row) == figures(even)

    odd = [row for row in compiled if row["head_size"] % 16]
    assert {(row["kernel"], row["head_size"]) for row in odd} == {
        *((kernel, 72) for kernel in ("decode", "split", "prefill", "write")), ("decode", 104), ("decode", 120)
    }  # fmt: skip
    assert not wrong(odd, like)


def test_the_compiler_is_given_the_strides_of_real_tensors_and_assumes_no_others(compiled):
    def right(row):
        sizes = row["block_size"], row["kv_heads"], row["head_size"]
        block, token, head, _ = KVPool(1, 2, *sizes, getattr(torch, row["dtype"])).layer(0).key.stride()
        names = [f"{side}_pool" if row["kernel"] == "write" else side for side in ("key", "value")]
        constants, multiples = row["constants"], row["multiples_of_16"]
        return all(
            (constants[f"{name}_stride_token"], constants[f"{name}_stride_head"]) == (token, head)
            and (f"{name}_stride_block" in multiples) == (block % 16 == 0)
            for name in names
        )

    with_pool = [row for row in compiled if row["kernel"] in ("decode", "split", "prefill", "write")]
    assert not wrong(with_pool, right)
    # The numbers of this batch: 4 requests, a table of 64.
    prefill = [row for row in compiled if row["kernel"] == "prefill"]
    assert not wrong(prefill, lambda row: "table_stride" in row["multiples_of_16"])
    assert not wrong(prefill, lambda row: "num_requests" not in row["multiples_of_16"])


def test_up_to_the_tensor_cores_each_rung_has_fewer_instructions_than_the_one_before(rungs):
    for sm in (80, 90, 100, 120):
        plain, group, tiled, cores, ahead, split = rungs[sm]
        assert plain > group > tiled > cores, rungs[sm]
        # Loading ahead and splitting change when something is loaded, and by whom: about as many instructions.
        assert ahead < 1.1 * cores and split < 1.1 * cores, rungs[sm]
    # sm_75 has no tensor cores for Triton: the engine's kernel takes smaller tiles there, and more instructions.
    plain, group, tiled, *engine = rungs[75]
    assert plain > group > tiled and all(tiled < count < plain for count in engine), rungs[75]


def test_rungs_2_and_3_are_exact_products_on_ordinary_cores_and_the_next_uses_tensor_cores(tables):
    for sm in TARGETS:
        cores = [row["tensor_core_instructions"] > 0 for row in tables["rungs"] if row["sm"] == sm]
        assert cores == [False, False, False, *[sm >= 80] * 3]
    assert not [row for row in tables["rungs"] if row["warps"] != 4]  # a warp's instructions can be compared


def test_what_python_does_before_a_launch_is_kept_for_the_next_layer(compiling):
    """Functions that are called for a layer: at most six tenths of those where all is found out anew."""
    found = printed_by([sys.executable, str(Path(__file__).with_name("host_cost.py"))], compiling)
    for name in ("decode", "split", "prefill"):
        anew, kept = (found[f"{name}, {how}"]["functions"] for how in ("anew", "kept"))
        assert 0 < kept <= 0.6 * anew, found


def test_prefill_uses_tensor_cores_from_sm_80_on_in_16_bit_and_never_in_fp32(compiled):
    prefill = [row for row in compiled if row["kernel"] == "prefill"]
    modern = [row for row in prefill if row["sm"] >= 80 and row["dtype"] != "float32"]
    assert modern and not wrong(modern, lambda row: row["tensor_core_instructions"] > 0)
    # fp32 on tensor cores would be TF32, with 10 bits of mantissa.
    assert not wrong(
        [row for row in compiled if row["dtype"] == "float32"], lambda row: row["tensor_core_instructions"] == 0
    )


def test_without_the_flag_nothing_is_watched_and_nothing_stored_but_the_output(compiled):
    plain = [row for row in compiled if "watched" not in row["configuration"]]
    assert not wrong(plain, lambda row: row["ptx_smid"] == row["ptx_globaltimer"] == 0)
    # At head size 64 a thread's part of the output is one store.
    small = [row for row in plain if row["kernel"] == "decode" and row["head_size"] <= 64]
    assert small and not wrong(small, lambda row: row["ptx_global_stores"] == 1)


def test_with_the_flag_the_kernel_reads_its_processor_and_the_clock_and_stores_more(compiled):
    watched = [row for row in compiled if "watched" in row["configuration"]]
    assert len(watched) == len(TARGETS)
    plain = {(row["configuration"], row["sm"]): row["ptx_global_stores"] for row in compiled}

    def right(row):
        without = plain[row["configuration"].removesuffix(" watched"), row["sm"]]
        return row["ptx_smid"] >= 1 and row["ptx_globaltimer"] >= 2 and row["ptx_global_stores"] >= without + 5

    assert not wrong(watched, right)
