"""What the compiled kernels look like on five generations of GPUs, read from their binaries. No GPU is needed.

The kernels of this process are interpreted, so the compiler runs in a process of its own.
"""

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow  # the compiler takes most of a minute where it has compiled nothing yet
TARGETS = (75, 80, 90, 100, 120)


@pytest.fixture(scope="module")
def table(compiling):
    command = [sys.executable, "-m", "pagedlab.kernels.compile_only"]
    done = subprocess.run(command, capture_output=True, text=True, env=compiling)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def compiled(table):
    return [row for row in table if "refused" not in row]


def wrong(rows, right):
    return [f"{row['configuration']} on sm_{row['sm']}: {row}" for row in rows if not right(row)]


def test_at_most_24_configurations_ship_and_each_compiles_for_every_target(table):
    names = {row["configuration"] for row in table}
    assert len(names) <= 24
    assert {(row["configuration"], row["sm"]) for row in table} == {(name, sm) for name in names for sm in TARGETS}


def test_bfloat16_is_refused_on_sm_75_with_a_reason_and_nothing_else_is(table):
    assert {(row["dtype"], row["sm"]) for row in table if "refused" in row} == {("bfloat16", 75)}


def test_every_head_size_and_dtype_of_the_course_ships(table):
    assert {row["head_size"] for row in table} == {32, 64, 80, 96, 128, 256}
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
