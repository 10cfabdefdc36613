"""All draws of a batch at once: each is the one that torch would make of this request's probabilities alone."""

import random

import pytest
import torch

from pagedlab.executor import Draw
from pagedlab.executor.sampling import sample


def by_definition(logits, draw):
    """One token, as the definitions of temperature, top-k and top-p say: sorted, kept or not, drawn."""
    if draw.temperature == 0:
        return int(logits.argmax())
    probabilities = ((logits - logits.max()) / max(draw.temperature, 2.0**-126)).softmax(-1)
    order = probabilities.argsort(descending=True, stable=True)
    if 0 < draw.top_k < len(logits):
        probabilities[order[draw.top_k :]] = 0
        probabilities /= probabilities.sum()
    kept, mass = [], 0.0
    for token in order.tolist():
        if mass >= draw.top_p:
            break
        kept.append(token)
        mass += float(probabilities[token])
    if draw.top_p < 1:
        probabilities = torch.zeros_like(probabilities).index_put((torch.tensor(kept),), probabilities[kept])
    generator = torch.Generator().manual_seed(draw.generator_seed)
    return int(torch.multinomial(probabilities, 1, generator=generator))


@pytest.mark.parametrize("seed", range(40))
def test_each_draw_of_a_batch_is_that_of_its_row_alone_by_definition(seed):
    rng, torch_rng = random.Random(seed), torch.Generator().manual_seed(seed)
    rows, vocabulary = rng.choice([1, 2, 7]), rng.choice([2, 40, 259, 3000])
    logits = torch.randn(rows, vocabulary, generator=torch_rng) * rng.choice([0.1, 1, 5, 30])
    draws = [
        Draw(
            row, rng.randrange(1000), rng.randrange(10**9), rng.choice([0, 0.7, 1.0, 5.0, 1e-30, 5e-324]),
            rng.choice([0, 0, 1, 5, 50, vocabulary, vocabulary + 3]), rng.choice([1.0, 1.0, 0.9, 0.5, 1e-9]),
        )
        for row in range(rows)
    ]  # fmt: skip
    before = logits.clone()
    assert sample(logits, draws).tolist() == [by_definition(logits[draw.row], draw) for draw in draws]
    assert torch.equal(logits, before), "others read them, too"


def test_equals_at_the_edge_of_top_k_and_top_p_stay_and_the_first_of_equals_is_the_greedy_one():
    logits = torch.tensor([[2.0, 1.0, 1.0, 0.0]])
    assert sample(torch.zeros(1, 9), [Draw(0, 0, 0)]).tolist() == [0]
    for kept in ({"top_k": 2}, {"top_p": 0.65}):  # the likeliest has 0.61
        drawn = {int(sample(logits, [Draw(0, 0, seed, 1.0, **kept)])) for seed in range(60)}
        assert drawn == {0, 1, 2}, kept
