"""A back end of one's own, as CONTRIBUTING tells to add one; and how one is chosen."""

from __future__ import annotations

import dataclasses

import pytest
import torch
import torch.nn.functional as F
from batches import Batch

from pagedlab.attention import BACKENDS, AttentionBackend, choose_backend, paged_attention
from pagedlab.attention.backends import backend_named, plan_nothing
from pagedlab.attention.torch_backend import copy_blocks, write
from pagedlab.engine import LLM, SamplingParams
from pagedlab.errors import PagedlabError

calls: list[int] = []


def attention(query, layer, block_tables, seq_lens, query_start_loc, scale, sliding_window=None, soft_cap=None):
    """One request at a time, gathered by slot."""
    calls.append(len(query))
    parts = []
    for r, context in enumerate(seq_lens.tolist()):
        rows, position = query[query_start_loc[r] : query_start_loc[r + 1]], torch.arange(context)
        blocks, offsets = block_tables[r, position // layer.block_size].long(), position % layer.block_size
        key, value = (x[blocks, offsets].transpose(0, 1) for x in (layer.key, layer.value))
        visible = position <= torch.arange(context - len(rows), context)[:, None]
        rows = rows.transpose(0, 1)
        parts.append(F.scaled_dot_product_attention(rows, key, value, visible, scale=scale, enable_gqa=True))
    return torch.cat([part.transpose(0, 1) for part in parts])


BACKEND = AttentionBackend("mine", ("cpu",), attention, plan_nothing(attention), write, copy_blocks)


@pytest.fixture
def mine(monkeypatch) -> dict[str, str]:
    table = {"mine": __name__, **BACKENDS}
    monkeypatch.setattr("pagedlab.attention.backends.BACKENDS", table)
    calls.clear()
    return table


def test_a_record_and_a_line_in_the_table_serve_the_engine(mine):
    params = SamplingParams(max_tokens=8, ignore_eos=True)
    prompts = [[7 * i % 250 for i in range(length)] for length in (3, 11, 18)]
    knobs = {"device": "cpu", "block_size": 4, "num_gpu_blocks_override": 64, "max_num_batched_tokens": 9}
    llm = LLM("tiny-random", **knobs, record=True)
    assert llm.trace.header["attention_backend"] == choose_backend(None, torch.device("cpu")) == "mine"
    answers = [output.outputs[0].token_ids for output in llm.generate(prompts, params)]
    assert len(calls) == llm.step_count * llm.executor.model_config.num_layers
    del mine["mine"]
    plain = LLM(llm, **knobs | {"device": None})
    assert answers == [output.outputs[0].token_ids for output in plain.generate(prompts, params)]
    assert len(calls) == llm.step_count * llm.executor.model_config.num_layers, "nobody asks it any more"


def test_it_can_be_asked_for_by_name_and_is_named_where_another_is_not_known(mine):
    batch = Batch([5, 20, 33], [1, 20, 4])
    torch.testing.assert_close(
        paged_attention(*batch.arguments, backend="mine"), paged_attention(*batch.arguments, backend="reference")
    )
    assert calls
    with pytest.raises(PagedlabError, match="allowed are cpp, fixed_tiles, mine, reference, torch, triton, or None"):
        paged_attention(*batch.arguments, backend="yours")


def test_one_that_cannot_run_here_is_passed_over_and_refused_by_name(mine, monkeypatch):
    monkeypatch.setitem(globals(), "BACKEND", dataclasses.replace(BACKEND, why_not=lambda: "it is Sunday"))
    assert choose_backend(None, torch.device("cpu")) == "cpp"
    with pytest.raises(PagedlabError, match="The Mine back end cannot run: it is Sunday. Use backend='torch'"):
        choose_backend("mine", torch.device("cpu"))


def test_each_record_has_its_name_and_a_device_without_one_is_refused():
    assert [backend_named(name).name for name in BACKENDS] == [*BACKENDS]
    assert choose_backend(None, torch.device("cpu")) == "cpp"
    assert choose_backend(None, torch.device("mps")) == "torch"
    with pytest.raises(PagedlabError, match="No attention back end is made for meta; try backend='torch'"):
        choose_backend(None, torch.device("meta"))


def test_without_triton_a_gpu_is_served_by_torch(monkeypatch):
    monkeypatch.setattr("pagedlab.attention.triton_backend.available", lambda: False)
    assert choose_backend(None, torch.device("cuda")) == "torch"
    monkeypatch.setattr("pagedlab.attention.triton_backend.available", lambda: True)
    assert choose_backend(None, torch.device("cuda")) == "triton"
