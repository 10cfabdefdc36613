"""Bytes, bandwidth and batches: the arithmetic of chapter 04, and that its measurements measure what they say."""

import pytest

from pagedlab.bench import decode
from pagedlab.engine import LLM


@pytest.fixture(scope="module")
def tiny():
    return LLM("tiny-random", block_size=4, num_gpu_blocks_override=2)


def test_a_step_moves_each_weight_once_and_k_and_v_of_every_token_with_the_one_it_writes():
    assert decode.step_bytes(1000, 10, [5]) == 1000 + 60
    assert decode.step_bytes(1000, 10, [5, 0, 7]) == 1000 + 10 * 15


def test_without_contexts_tokens_per_second_grow_with_the_batch_and_long_contexts_end_it():
    def rate(batch, context):
        return decode.tokens_per_second(10**6, 10, [context] * batch, 10**6)

    assert rate(1, 0) == pytest.approx(1, rel=1e-4)
    assert rate(32, 0) == pytest.approx(32, rel=1e-3)
    assert rate(32, 10**6) < 2 * rate(1, 10**6)


def test_bandwidth_and_operations_are_those_of_a_machine_and_not_of_a_mistake():
    assert 1e8 < decode.read_bandwidth(num_bytes=32 << 20, rounds=2) < 1e14
    assert 1e8 < decode.operations_per_second(size=256, rounds=2) < 1e17


def test_a_decode_step_is_measured_for_any_batch(tiny):
    assert 0 < decode.decode_seconds(tiny, 3, context=5, steps=2) < 10


def test_continuous_batching_takes_fewer_steps_than_groups_and_as_few_as_the_longest_with_room_for_all(tiny):
    lengths = [(3, 2 + 5 * i % 7) for i in range(8)]  # 2 to 8 tokens
    groups = decode.serve(tiny, lengths, 2, continuous=False)
    continuous = decode.serve(tiny, lengths, 2)
    together = decode.serve(tiny, lengths, 8)
    of_groups = sum(max(output for _, output in lengths[i : i + 2]) for i in range(0, 8, 2))
    assert groups["steps"] == of_groups > continuous["steps"] > together["steps"] == 8
    assert together["running"] == pytest.approx(sum(output for _, output in lengths) / 8)
