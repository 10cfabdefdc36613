"""One layer of the real model through every kernel: the numbers of the torch back end.

Random tensors are kind: their scores are all alike. A trained layer's are not.
"""

import pytest
import torch

from pagedlab.attention import KVPool, paged_attention
from pagedlab.kernels.move_blocks import copy_blocks, gather_blocks, scatter_blocks
from pagedlab.kernels.run import decode, prefill
from pagedlab.kernels.rungs import RUNGS
from pagedlab.model.weights import load_model

BLOCK_SIZE = 16
TABLE = torch.tensor([[7, 2, 5, 9]], dtype=torch.int32)
TEXT = "An operating system hands out memory in pages, and so does this engine: a request's tokens lie in blocks. " * 2


class StopHere(Exception):
    pass


@pytest.fixture(scope="module")
def first_layer():
    """Query, key and value of the first layer, as the real model computes them for a real text."""
    model, tokenizer = load_model("smollm2")
    tokens = torch.tensor(tokenizer.encode(TEXT)[:50])
    taken = []

    def attend(layer, query, key, value):
        taken.append((query, key, value))
        raise StopHere

    with torch.inference_mode(), pytest.raises(StopHere):
        model(tokens, torch.arange(len(tokens)), attend)
    return [x.clone() for x in taken[0]]


def filled(key, value, backend):
    pool = KVPool(1, 12, BLOCK_SIZE, key.shape[1], key.shape[2])
    position = torch.arange(len(key))
    slots = TABLE[0].long()[position // BLOCK_SIZE] * BLOCK_SIZE + position % BLOCK_SIZE
    pool.layer(0).write(key, value, slots, backend=backend)
    return pool


def ints(*numbers):
    return torch.tensor(numbers, dtype=torch.int32)


def test_every_kernel_gives_the_torch_back_ends_numbers_on_a_layer_of_the_real_model(first_layer):
    query, key, value = first_layer
    scale, tokens = query.shape[2] ** -0.5, len(query)
    pool = filled(key, value, "triton")
    layer = pool.layer(0)
    assert torch.equal(pool.data, filled(key, value, "torch").data)
    close = dict(atol=2e-4, rtol=2e-5)

    whole = (query, layer, TABLE, ints(tokens), ints(0, tokens))
    expected = paged_attention(*whole, backend="torch")
    torch.testing.assert_close(prefill(*whole, scale), expected, **close)
    chunk = (query[30:], layer, TABLE, ints(tokens), ints(0, tokens - 30))  # behind a cached prefix of 30 tokens
    torch.testing.assert_close(prefill(*chunk, scale), expected[30:], **close)

    last = (query[-1:], layer, TABLE, ints(tokens), ints(0, 1))
    for run in (decode, lambda *a: decode(*a, splits=3), *(rung.run for rung in RUNGS)):
        torch.testing.assert_close(run(*last, scale), expected[-1:], **close)

    # The request's second block is copied, the others swapped out and in elsewhere: the same answer from other places.
    copy_blocks(pool.data, [(2, 3)])
    out = gather_blocks(pool.data, torch.tensor([7, 5, 9]))
    pool.data[:, :, [7, 2, 5, 9]] = float("nan")
    scatter_blocks(pool.data, torch.tensor([1, 10, 4]), out)
    moved = (query[-1:], layer, ints(1, 3, 10, 4)[None], ints(tokens), ints(0, 1))
    torch.testing.assert_close(decode(*moved, scale), expected[-1:], **close)
