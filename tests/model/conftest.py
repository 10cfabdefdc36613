"""The real model, loaded once, and attention over plain contiguous keys and values to run it with."""

import json

import pytest
import torch
import torch.nn.functional as F

from pagedlab.model.weights import ensure_model_file, load_model


@pytest.fixture(scope="session")
def model_file():
    """The cached file of SmolLM2; fetched where this machine does not have it yet."""
    return ensure_model_file()


@pytest.fixture(scope="session")
def smollm2(model_file):
    return load_model("smollm2")


@pytest.fixture(scope="session")
def golden(root):
    """Prompts and greedy continuations, computed by Hugging Face transformers in fp32."""
    return [json.loads(line) for line in (root / "tests/golden/smollm2/greedy.jsonl").read_text().splitlines()]


class Contiguous:
    """Attention of one request whose keys and values lie in order, one tensor a layer: what paging must equal.

    windows: of each layer, as in a model's configuration."""

    def __init__(self, windows=()):
        self.keys, self.values, self.windows = {}, {}, windows

    def __call__(self, layer, query, key, value):
        if layer in self.keys:
            key = torch.cat((self.keys[layer], key))
            value = torch.cat((self.values[layer], value))
        self.keys[layer], self.values[layer] = key, value
        past = len(key) - len(query)
        seen = torch.ones(len(query), len(key), dtype=torch.bool).tril(past)
        if self.windows and self.windows[layer]:
            seen = seen.triu(past - self.windows[layer] + 1)
        q, k, v = (x.transpose(0, 1)[None] for x in (query, key, value))
        return F.scaled_dot_product_attention(q, k, v, attn_mask=seen, enable_gqa=True)[0].transpose(0, 1)


@pytest.fixture
def contiguous():
    """A factory: each call gives the empty memory of a new request."""
    return Contiguous


@pytest.fixture(scope="session")
def all_logits():
    """A function: logits after each token of a text of ids, in one pass."""

    def run(model, ids):
        hidden = model(torch.tensor(ids), torch.arange(len(ids)), Contiguous(model.config.windows))
        return model.logits(hidden)

    return run
