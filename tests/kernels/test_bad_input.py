"""Whatever attention, writing, copying and swapping are handed: a right result, or PagedlabError; and no number is read
or written outside of the pool.

The pool lies in the middle of a larger memory full of NaN: what is read outside of it shows as NaN in the result, what
is written outside of it as a number.
"""

import math
import re
from functools import partial

import numpy as np
import pytest
import torch
from batches import Batch, tolerance
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from pagedlab.attention import BACKENDS, KVPool, LayerKV, for_all_layers, paged_attention
from pagedlab.attention.watched import watch
from pagedlab.attention.write import for_all_layers as write_in_all_layers
from pagedlab.errors import PagedlabError
from pagedlab.executor.swap_space import SwapSpace
from pagedlab.kernels import ladder1_copy, ladder2_gather, ladder3_dot, ladder4_softmax, ladder5_decode, run, rungs
from pagedlab.kernels.move_blocks import copy_blocks, gather_blocks, move_blocks, scatter_blocks
from pagedlab.kernels.watch import new_log

some = settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
NAMES = ("query", "kv_pool", "block_tables", "seq_lens", "query_start_loc")
AROUND = 3  # blocks of NaN before the pool, and after it


def guarded(batch: Batch) -> dict:
    """The batch's arguments, its pool moved into the middle of a memory full of NaN; slots that no token has hold 0."""
    layer = batch.layer
    parts = []
    for tensor in (layer.key, layer.value):
        memory = torch.full((len(tensor) + 2 * AROUND, *tensor.shape[1:]), float("nan"))
        memory[AROUND:-AROUND] = tensor.nan_to_num(0.0)
        parts.append(memory[AROUND:-AROUND])
    return dict(zip(NAMES, batch.arguments, strict=True)) | {"kv_pool": LayerKV(*parts)}


ids = st.sampled_from([-(2**31), -3, -1, 0, 1, 7, 8, 9, 100, 2**31 - 1])
numbers = st.sampled_from([math.nan, math.inf, -math.inf, 0, 0.0, -1, -0.5, 1e-320, 1e39, 1e308, True, "1", None,
                           0.1, 2, 50.0, 1e7, 1e24, 3e38, 10**400, np.float32(0.3), np.float64("nan"), [1],
                           1j])  # fmt: skip
windows = st.sampled_from([None, 0, -1, 1, 7, 2**31, 2**63, 10**30, 2.0, 2.5, math.nan, True, "3", np.int64(5), [4]])
ways = {
    "float": lambda t: t.double(), "half": lambda t: t.half(), "long": lambda t: t.long(), "bool": lambda t: t.bool(),
    "meta": lambda t: t.to("meta"), "sparse": lambda t: t.to_sparse(),
    "empty": lambda t: t[:0], "shorter": lambda t: t[:-1], "flat": lambda t: t.flatten(), "deeper": lambda t: t[None],
    "0-dim": lambda t: t.flatten()[0], "narrow": lambda t: t[..., :0], "transposed": lambda t: t.T.contiguous().T
    if t.dim() == 2 else t.transpose(0, -1), "strided": lambda t: t.repeat_interleave(2, -1)[..., ::2],
    "list": lambda t: t.tolist(), "None": lambda t: None, "numpy": lambda t: t.numpy(), "text": lambda t: "abc",
}  # fmt: skip


@st.composite
def changes(draw):
    """One to three things that are wrong, or only unusual."""
    result = []
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(["entry", "way", "option", "pool"]))
        if kind == "entry":
            name = draw(st.sampled_from(NAMES[2:]))
            result.append((name, (draw(st.integers(0, 99)), draw(ids))))
        elif kind == "way":
            result.append((draw(st.sampled_from([n for n in NAMES if n != "kv_pool"])), draw(st.sampled_from([*ways]))))
        elif kind == "pool":
            result.append(("kv_pool", draw(st.sampled_from(["K", "V", "both"])) + " " + draw(st.sampled_from([*ways]))))
        else:
            name = draw(st.sampled_from(["scale", "soft_cap", "sliding_window"]))
            result.append((name, (draw(windows if name == "sliding_window" else numbers),)))
    return result


def changed(arguments: dict, changes: list) -> dict:
    arguments = dict(arguments)
    for name, change in changes:
        old = arguments.get(name)
        if name in ("scale", "soft_cap", "sliding_window"):
            arguments[name] = change[0]
        elif not isinstance(old, torch.Tensor | LayerKV):
            pass  # spoilt already
        elif name == "kv_pool":
            which, _, way = change.partition(" ")
            try:
                key = ways[way](old.key) if which != "V" else old.key
                value = ways[way](old.value) if which != "K" else old.value
            except (RuntimeError, TypeError, IndexError, AttributeError):
                continue
            arguments[name] = LayerKV(key, value)
        elif isinstance(change, tuple):
            if old.numel() and not old.is_meta and old.layout == torch.strided:
                place, number = change
                arguments[name] = new = old.clone()
                flat = new.view(-1) if new.is_contiguous() else new.flatten()
                flat[place % old.numel()] = number if new.dtype in (torch.int32, torch.int64) else 1
        else:
            try:
                arguments[name] = ways[change](old)
            except (RuntimeError, TypeError, IndexError):
                pass  # cannot be done to what an earlier change made of it
    return arguments


@some
@given(changes(), st.sampled_from([*BACKENDS]), st.booleans())
@example([("block_tables", (0, 8))], "triton", False)
@example([("block_tables", (0, -1))], "torch", False)
@example([("scale", (math.nan,))], "reference", False)
@example([("soft_cap", (math.inf,))], "torch", False)
@example([("sliding_window", (2**63,))], "triton", True)
@example([("kv_pool", "both narrow")], "torch", False)
@example([("query", "narrow")], "torch", False)
def test_attention_gives_the_right_result_or_refuses_and_reads_nothing_outside_of_the_pool(changes, backend, prefill):
    arguments = guarded(Batch([20, 33], [3, 1] if prefill else [1, 1], head_size=16, spare_blocks=3))
    arguments = changed(arguments, changes)
    try:
        result = paged_attention(**arguments, backend=backend)
    except PagedlabError as error:
        assert len(str(error)) < 400
        return
    assert not result.isnan().any()
    expected = paged_attention(**arguments, backend="reference")
    torch.testing.assert_close(result, expected, **tolerance(expected.dtype))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("block", [8, 10_000, -1, -(2**31)])
@pytest.mark.parametrize("queries", [[1, 1], [3, 1]])
def test_a_block_that_is_not_in_the_pool_is_refused_by_every_back_end(backend, block, queries):
    batch = Batch([20, 33], queries, spare_blocks=3)
    assert batch.layer.num_blocks == 8
    batch.block_tables[1, 2] = block
    with pytest.raises(PagedlabError, match=f"request 1, logical block 2: physical block {block} is not in the pool"):
        paged_attention(*batch.arguments, backend=backend)


def test_a_block_that_is_not_in_the_pool_is_refused_for_all_layers_and_by_the_watched_kernel():
    batch = Batch([20, 33], [1, 1], spare_blocks=3)
    batch.block_tables[0, 1] = 8
    with pytest.raises(PagedlabError, match="physical block 8"):
        for_all_layers(batch.layer, *batch.arguments[2:])(batch.query, batch.layer)
    query = batch.query[0]
    for blocks, context, scale, sentence in (
        ([8], 5, 0.1, "the pool has 0 to 7"), ([-1], 5, 0.1, "the pool has 0 to 7"), ([0.5], 5, 0.1, "whole number"),
        ([0], 17, 0.1, "17 tokens do not fit into 1 blocks of 16"), ([0], 0, 0.1, "at least 1"), ([], 1, 0.1, "fit"),
        ([0], 2**40, 0.1, "do not fit"), ([0], 5, math.nan, "scale is nan"), ([0], 5, 0.0, "scale is 0.0"),
    ):  # fmt: skip
        with pytest.raises(PagedlabError, match=sentence):
            watch(query, batch.layer, blocks, context, scale)
    for wrong in (query[0], query.double(), query.to("meta"), None):
        with pytest.raises(PagedlabError):
            watch(wrong, batch.layer, [0], 5, 0.1)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("option", [dict(scale=x) for x in (math.nan, math.inf, -math.inf, 0, -1, "1", True, 1e39)]
                         + [dict(scale=x) for x in (1e-320, 3e38, 1.1e25)]
                         + [dict(soft_cap=x) for x in (math.nan, math.inf, -5.0, 1e-320, 1e39, True)]
                         + [dict(sliding_window=x) for x in (0, -3, 2.5, True, "3", math.nan)])  # fmt: skip
def test_a_scale_a_cap_or_a_window_with_which_nothing_can_be_meant_is_refused_by_every_back_end(backend, option):
    name, value = next(iter(option.items()))
    with pytest.raises(PagedlabError, match="^" + re.escape(f"{name} is {value!r}; it must be a")):
        paged_attention(*Batch([20], [1]).arguments, backend=backend, **option)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("scale", [2.0**-126, 1e-20, 1.0, 1e4, 1e25])
def test_every_scale_that_is_taken_gives_what_the_reference_gives(scale, dtype):
    for queries in ([1, 1], [3, 1], [40, 33]):
        batch = Batch([40, 33], queries, dtype=dtype, head_size=16)
        for backend in BACKENDS:
            found = paged_attention(*batch.arguments, scale=scale, backend=backend)
            expected = paged_attention(*batch.arguments, scale=scale, backend="reference")
            torch.testing.assert_close(found, expected, **tolerance(dtype))


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_largest_numbers_of_float16_do_not_overflow_with_the_largest_scale(backend):
    batch = Batch([40, 33], [1, 33], dtype=torch.float16, head_size=256)
    for tensor in (batch.query, batch.layer.key):
        tensor.nan_to_num_(0.0).sign_().mul_(65504)
    assert not paged_attention(*batch.arguments, scale=1e25, backend=backend).isnan().any()


@pytest.mark.parametrize("cap", [0.5, 30.0, 1e4, 1e9, 1e30])
def test_a_large_soft_cap_is_as_good_as_none_in_every_back_end(cap):
    batch = Batch([40, 33], [2, 1])
    for backend in BACKENDS:
        torch.testing.assert_close(
            paged_attention(*batch.arguments, soft_cap=cap, backend=backend),
            paged_attention(*batch.arguments, soft_cap=cap, backend="reference"),
            **tolerance(torch.float32),
        )


def test_the_pool_itself_in_place_of_a_layer_is_refused():
    batch = Batch([20], [1])
    with pytest.raises(PagedlabError, match=r"KVPool is no layer of a pool; give KVPool.layer\(i\)"):
        paged_attention(batch.query, batch.pool, *batch.arguments[2:])


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_empty_batch_gives_an_empty_result(backend):
    """Also one with requests of no tokens at all."""
    batch = Batch([0, 0], [0, 0])
    assert paged_attention(*batch.arguments, backend=backend).shape == (0, 4, 64)
    none = torch.zeros(0, dtype=torch.int32)
    batch.block_tables, batch.seq_lens, batch.query_start_loc = none.view(0, 2), none, torch.zeros(1, dtype=torch.int32)
    assert paged_attention(*batch.arguments, backend=backend).shape == (0, 4, 64)
    mixed = Batch([0, 20, 0], [0, 1, 0])
    assert not paged_attention(*mixed.arguments, backend=backend).isnan().any()


# ------------------------------------------------------------------------------------------------- writing and moving


@some
@given(
    st.lists(st.sampled_from([-(2**63), -2, -1, 0, 3, 15, 16, 40, 2**31, 2**63 - 1]), max_size=4),
    st.sampled_from([None, *ways]),
    st.sampled_from(["key", "value", "slot_mapping"]),
    st.sampled_from(["torch", "triton", "all layers"]),
)
def test_writing_puts_every_token_into_its_slot_or_refuses(slots, way, name, backend):
    memory = torch.full((2, 4 + 2 * AROUND, 4, 2, 16), float("nan"))
    memory[:, AROUND:-AROUND] = 0
    layer = LayerKV(*memory[:, AROUND:-AROUND])
    count = len(slots)
    given = {name: torch.ones(count, 2, 16) for name in ("key", "value")}
    given["slot_mapping"] = torch.tensor(slots, dtype=torch.int64)
    if way is not None:
        try:
            given[name] = ways[way](given[name])
        except (RuntimeError, TypeError, IndexError):
            return
    try:
        if backend == "all layers":
            write_in_all_layers(layer, given["slot_mapping"])(layer, given["key"], given["value"])
        else:
            layer.write(**given, backend=backend)
    except PagedlabError:
        assert not memory[:, AROUND:-AROUND].any(), "nothing is written then"
    else:
        written = {slot for slot in slots if slot >= 0}
        assert all(0 <= slot < 16 for slot in written)
        flat = memory[:, AROUND:-AROUND].flatten(1, 2).ne(0).flatten(2).all(-1)
        assert [set(part.nonzero().flatten().tolist()) for part in flat] == [written, written] or way is not None
    assert memory[:, :AROUND].isnan().all() and memory[:, -AROUND:].isnan().all()


pairs = st.one_of(
    st.lists(st.tuples(*[st.sampled_from([-5, -1, 0, 1, 2, 3, 4, 9, 2**40, 1.0, 0.5, math.nan, "1", None, True])] * 2),
             max_size=4),
    st.lists(st.tuples(*[st.integers(0, 3)] * 2), max_size=4),
    st.sampled_from([None, 5, "ab", [1, 2], [(1, 2, 3)], [()], np.array([[0, 1]]), torch.tensor([[2, 3]]), {0: 1}]),
)  # fmt: skip


@some
@given(pairs, st.sampled_from(["copy", "swap out", "swap in", "kernel"]))
def test_copying_and_swapping_moves_exactly_the_pairs_or_refuses_and_moves_nothing(pairs, how):
    pool = KVPool(2, 4, 2, 1, 16)
    memory = torch.full((2, 2, 4 + 2 * AROUND, 2, 1, 16), float("nan"))
    pool.data = memory[:, :, AROUND:-AROUND] if how != "kernel" else pool.data
    pool.data.copy_(torch.arange(1.0, 5)[:, None, None, None].expand_as(pool.data))
    space = SwapSpace(pool, 3)
    space.data.copy_(torch.arange(11.0, 14)[:, None, None, None].expand_as(space.data))
    names = [[1.0, 2, 3, 4], [11.0, 12, 13]]
    origin, target = {"swap out": (0, 1), "swap in": (1, 0)}.get(how, (0, 0))
    work = {"copy": pool.copy_blocks, "swap out": space.swap_out, "swap in": space.swap_in}
    try:
        work.get(how, lambda pairs: copy_blocks(pool.data, pairs))(pairs)
    except PagedlabError:
        pass
    else:
        before = [*names[origin]]
        for source, destination in pairs:
            assert source >= 0 and destination >= 0
            names[target][destination] = before[source]
    assert pool.data[1, 1, :, 0, 0, 0].tolist() == names[0] and space.data[1, 1, :, 0, 0, 0].tolist() == names[1]
    assert memory[:, :, :AROUND].isnan().all() and memory[:, :, -AROUND:].isnan().all()


def test_moving_blocks_by_tensors_of_ids_refuses_what_would_leave_the_pool_or_depend_on_the_order():
    data, other = KVPool(2, 4, 2, 1, 16).data, KVPool(2, 2, 2, 1, 16).data
    for work, sentence in (
        (lambda: gather_blocks(data, torch.tensor([4])), "Block 4 is not in the pool"),
        (lambda: gather_blocks(data, torch.tensor([-1])), "Block -1 is not in the pool"),
        (lambda: scatter_blocks(data, torch.tensor([0, 9]), other), "Block 9 is not in the pool"),
        (lambda: scatter_blocks(data, torch.tensor([1, 1]), other), "written twice"),
        (lambda: move_blocks(other, data, None, torch.tensor([0, 1, 2])), "3 blocks for a tensor of 2"),
        (lambda: move_blocks(data, data, None, None), "source_ids or both"),
        (lambda: move_blocks(data, data, torch.tensor([1]), torch.tensor([0, 2])), "as many of one"),
        (lambda: move_blocks(data, data, torch.tensor([1, 2]), torch.tensor([0, 1])), "both written and read"),
        (lambda: gather_blocks(data, torch.tensor([1], dtype=torch.int32)), "contiguous int64"),
        (lambda: gather_blocks(data, torch.tensor([0, 1, 2])[::2]), "contiguous int64"),
    ):
        with pytest.raises(PagedlabError, match=sentence):
            work()


def test_more_blocks_than_a_grids_second_axis_has_programs_can_be_moved():
    """65,536 blocks in one call: a GPU takes so many along the first axis only."""
    grids = []

    class Kernel:
        def __getitem__(self, grid):
            grids.append(grid)
            return lambda *arguments, **constants: None

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pagedlab.kernels.move_blocks.move_blocks_kernel", Kernel())
        data = KVPool(1, 2**17, 1, 1, 8).data
        gather_blocks(data, torch.arange(2**16))
    assert grids == [(2**16, 2)]


# ---------------------------------------------------------------------------------------------- what lessons call


def test_the_kernels_of_the_ladder_refuse_what_they_would_read_wrongly():
    batch = Batch([40, 20], [1, 1])
    query, layer, tables, lengths, starts = batch.arguments
    one, table, q = layer.key[:, :, 0], tables[0], query[0, 0]
    beyond = table.clone()
    beyond[1] = layer.num_blocks
    for work in (
        lambda: ladder1_copy.copy(torch.arange(8)[::2]),
        lambda: ladder1_copy.copy(torch.zeros(2, 2)),
        lambda: ladder2_gather.gather(one, beyond, 40),
        lambda: ladder2_gather.gather(one, table[:2], 40),
        lambda: ladder2_gather.gather(layer.key, table, 40),
        lambda: ladder3_dot.scores(q, one, beyond, 40, 0.1),
        lambda: ladder3_dot.scores(q[:32], one, table, 40, 0.1),
        lambda: ladder3_dot.scores(q, one, table, 0, 0.1),
        lambda: ladder4_softmax.online_softmax(torch.rand(9)[::2]),
        lambda: ladder4_softmax.online_softmax(torch.rand(0)),
        lambda: ladder5_decode.decode(query.transpose(1, 2).contiguous().transpose(1, 2), layer, tables, lengths, 0.1),
        lambda: ladder5_decode.decode(query, layer, torch.stack([beyond, beyond]), lengths, 0.1),
        lambda: ladder5_decode.decode(query[:1], layer, tables, lengths, 0.1),
        lambda: rungs.RUNGS[2].run(query, layer, tables, lengths + 500, starts, 0.1),
        *[partial(work, scale) for scale in (math.nan, math.inf, 0.0, -0.1, 3e38, "0.1") for work in (
            lambda scale: ladder3_dot.scores(q, one, table, 40, scale),
            lambda scale: ladder5_decode.decode(query, layer, tables, lengths, scale),
            lambda scale: rungs.RUNGS[1].run(query, layer, tables, lengths, starts, scale),
            lambda scale: run.decode(*batch.arguments, scale),
            lambda scale: run.prefill(*batch.arguments, scale),
        )],
        lambda: run.decode(*batch.arguments, 0.1, splits=0),
        lambda: run.decode(*batch.arguments, 0.1, splits=2, watch=new_log(2, 2, 1, tables.shape[1], "cpu")),
        lambda: run.decode(*batch.arguments, 0.1, splits=1, watch=new_log(2, 2, 1, tables.shape[1] - 1, "cpu")),
    ):
        with pytest.raises(PagedlabError):
            work()


@pytest.mark.parametrize("heads_first", [True, False])
def test_a_pool_whose_heads_lie_far_apart_is_read_right_and_one_whose_tokens_do_is_refused(heads_first):
    """2**31 elements and more between neighbours; memory that is not written takes no room."""
    batch = Batch([20], [1], query_heads=2, kv_heads=2, head_size=16, dtype=torch.float16)
    blocks = batch.layer.num_blocks
    gap = 2**31 + 64 if heads_first else 2**28
    strides = (256, 16, gap, 1) if heads_first else (32, gap, 16, 1)
    room = gap + 2**12 if heads_first else 16 * gap
    far = []
    for tensor in (batch.layer.key, batch.layer.value):
        memory = torch.from_numpy(np.zeros(room, dtype=np.float16))
        view = memory.as_strided((blocks, 16, 2, 16), strides)
        view.copy_(tensor.nan_to_num(0.0))
        far.append(view)
    arguments = (batch.query, LayerKV(*far), *batch.arguments[2:])
    if not heads_first:
        with pytest.raises(PagedlabError, match="count these in 32 bit"):
            paged_attention(*arguments, backend="triton")
        return
    with pytest.raises(PagedlabError, match="count in 32 bit"):
        ladder5_decode.decode(*arguments[:-1], 0.25)
    expected = paged_attention(*batch.arguments, backend="reference")
    for splits in (1, 2):
        torch.testing.assert_close(run.decode(*arguments, 0.25, splits=splits), expected, **tolerance(torch.float16))
    torch.testing.assert_close(run.prefill(*arguments, 0.25), expected, **tolerance(torch.float16))
