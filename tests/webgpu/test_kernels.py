"""Each kernel in WGSL against the same thing in float64, on shapes that are drawn anew for each seed."""

import numpy as np
import pytest

from pagedlab.errors import PagedlabError

EMPTY = 0xFFFFFFFF


def normal(rng, *shape):
    return rng.standard_normal(shape).astype(np.float32)


def close(found, wanted, tolerance=5e-6):
    assert found.shape == wanted.shape and not np.isnan(found).any()
    assert np.abs(found - wanted).max() <= tolerance * max(1.0, np.abs(wanted).max())


@pytest.mark.parametrize("seed", range(12))
def test_linear(run, seed):
    rng = np.random.default_rng(seed)
    inner, out, tokens = 4 * int(rng.integers(1, 200)), int(rng.integers(1, 70)), int(rng.integers(1, 12))
    first, add, bias = int(rng.integers(0, 9)), int(rng.integers(2)), int(rng.integers(2))
    per_group = 1 if tokens == 1 else 4
    width = first + out + int(rng.integers(0, 9))
    weight, x, y = normal(rng, out, inner), normal(rng, tokens, inner), normal(rng, tokens, width)
    b = normal(rng, out)
    constants = dict(IN=inner, OUT=out, FIRST=first, WIDTH=width, ADD=add, BIAS=bias, COUNT=1, ROWS=8, TOKENS=per_group,
                     LANES=32)  # fmt: skip
    counts = np.array([99, tokens], np.uint32)
    found = run("linear", constants, (-(-out // 8), -(-tokens // per_group)), counts, weight, b, x, y)[4]
    wanted = y.astype(np.float64)
    part = x.astype(np.float64) @ weight.astype(np.float64).T + (b if bias else 0)
    wanted[:, first : first + out] = part + (wanted[:, first : first + out] if add else 0)
    close(found, wanted, 2e-6)


@pytest.mark.parametrize("hidden", [4, 64, 260, 576])
def test_rms_norm(run, hidden):
    rng = np.random.default_rng(hidden)
    x, weight = normal(rng, 3, hidden), normal(rng, hidden)
    found = run("rms_norm", dict(HIDDEN=hidden, EPSILON=1e-5, LANES=64), (3,), x, weight, np.zeros_like(x))[2]
    x = x.astype(np.float64)
    close(found, x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * weight)


def test_embed_takes_the_rows_that_its_buffer_has(run):
    rng = np.random.default_rng(0)
    table, ids = normal(rng, 5, 8), np.array([9, 12, 3, 10, 14], np.uint32)  # this buffer has rows 10 to 14
    found = run("embed", dict(HIDDEN=8, FIRST=10, ROWS=5, LANES=64), (5,), table, ids, np.zeros((5, 8), np.float32))[2]
    assert np.array_equal(found[[1, 3, 4]], table[[2, 0, 4]]) and not found[[0, 2]].any()


@pytest.mark.parametrize("head_size", [16, 24, 64, 256])
def test_rope_turns_queries_and_keys_and_leaves_values(run, head_size):
    rng = np.random.default_rng(head_size)
    tokens, heads, values = 5, 4, 2
    qkv, half = normal(rng, tokens, heads + values, head_size), head_size // 2
    angles = rng.uniform(0, 6, (40, half))
    positions = rng.integers(0, 40, tokens).astype(np.uint32)
    constants = dict(HEADS=heads, WIDTH=(heads + values) * head_size, HEAD_SIZE=head_size, LANES=64)
    found = run("rope", constants, (-(-heads * half // 64), tokens), positions, np.cos(angles).astype(np.float32),
                np.sin(angles).astype(np.float32), qkv)[3]  # fmt: skip
    wanted = qkv.astype(np.float64)
    a, b = qkv[:, :heads, :half], qkv[:, :heads, half:]
    cos, sin = (turn[positions][:, None] for turn in (np.cos(angles), np.sin(angles)))
    wanted[:, :heads, :half], wanted[:, :heads, half:] = a * cos - b * sin, b * cos + a * sin
    close(found, wanted, 1e-6)
    assert np.array_equal(found[:, heads:], qkv[:, heads:])


def test_gate(run):
    rng = np.random.default_rng(0)
    gate_up = 4 * normal(rng, 3, 2, 100)
    gate_up[0, 0, :2] = -100, 100  # exp overflows in the one, and is nothing in the other
    found = run("gate", dict(INTERMEDIATE=100, LANES=64), (2, 3), gate_up, np.zeros((3, 100), np.float32))[1]
    gate, up = gate_up.astype(np.float64).transpose(1, 0, 2)
    close(found, gate / (1 + np.exp(-gate)) * up)


@pytest.mark.parametrize("vocabulary", [1, 200, 259, 5000])
def test_argmax_takes_the_first_of_equals(run, vocabulary):
    rng = np.random.default_rng(vocabulary)
    logits = np.stack([normal(rng, vocabulary), rng.integers(0, 3, vocabulary).astype(np.float32),
                       np.full(vocabulary, -5.0, np.float32)])  # fmt: skip
    found = run("argmax", dict(VOCABULARY=vocabulary, LANES=256), (3,), logits, np.zeros(3, np.uint32))[1]
    assert found.tolist() == logits.argmax(-1).tolist()


@pytest.mark.parametrize("number", ["float32", "float16"])
def test_write_kv_fills_the_slots_and_nothing_else(run, gpu, number):
    if number == "float16" and not gpu.has_f16:
        pytest.skip("this machine's adapter has no numbers of 16 bits")
    rng = np.random.default_rng(1)
    slots, row, key = np.array([7, 0, EMPTY, 30], np.uint32), 3 * 24, 5 * 24
    qkv = normal(rng, 4, key + 2 * row + 8)
    pools = [np.full((32, row), np.nan, number) for _ in range(2)]
    constants = dict(ROW=row, KEY=key, WIDTH=qkv.shape[1], LANES=64)
    found = run("write_kv", constants, (4,), qkv, slots, *pools, number=number)[2:]
    for i, (pool, wanted) in enumerate(zip(found, pools, strict=True)):
        for token, slot in enumerate(slots):
            if slot != EMPTY:
                wanted[slot] = qkv[token, key + i * row :][:row]
        assert np.array_equal(pool, wanted, equal_nan=True)


def test_move_blocks(run):
    rng = np.random.default_rng(2)
    origin, copies = normal(rng, 6, 40), normal(rng, 5, 40)
    sources, destinations = np.array([5, 0, 5], np.uint32), np.array([1, 4, 2], np.uint32)
    found = run("move_blocks", dict(BLOCK=40, LANES=64), (3,), origin, sources, destinations, copies)[3]
    copies[destinations] = origin[sources]
    assert np.array_equal(found, copies)


def attention(rng, number):
    """A random step: shapes, a pool that is NaN where nothing was written, and what attention gives in float64."""
    kv_heads, group = int(rng.integers(1, 5)), int(rng.integers(1, 9))
    block_size = int(rng.choice([1, 2, 5, 8, 16, 16, 32, 33, 64, 128]))
    head_size = int(rng.choice([16, 24, 32, 64, 64, 72, 80, 96, 128, 256]))
    near = [1, block_size, block_size + 1, max(1, block_size - 1), 63, 64, 65, 128, 129]
    contexts = [int(rng.choice(near)) if rng.random() < 0.5 else int(rng.integers(1, 300)) for _ in range(4)]
    each = [-(-n // block_size) for n in contexts]
    ids = rng.permutation(sum(each) + 2)
    tables = rng.integers(0, 2**31, (4, max(each) + 1)).astype(np.uint32)  # past a length stands anything
    key, value = np.full((2, len(ids), block_size, kv_heads, head_size), np.nan, number)
    queries, requests, positions, wanted, taken = [], [], [], [], 0
    for r, n in enumerate(contexts):
        tables[r, : each[r]] = ids[taken : taken + each[r]]
        taken += each[r]
        where = tables[r, np.arange(n) // block_size], np.arange(n) % block_size
        k, v = normal(rng, 2, n, kv_heads, head_size).astype(number)
        key[where], value[where] = k, v
        for position in {n - 1, *rng.integers(0, n, 2).tolist()}:  # some in the middle, as in a prefill
            q = normal(rng, kv_heads, group, head_size)
            k64, v64 = (part[: position + 1].astype(np.float64) for part in (k, v))
            score = np.einsum("kgd,tkd->kgt", q.astype(np.float64), k64) * head_size**-0.5
            weight = np.exp(score - score.max(-1, keepdims=True))
            wanted.append(np.einsum("kgt,tkd->kgd", weight / weight.sum(-1, keepdims=True), v64))
            queries.append(q)
            requests.append(r)
            positions.append(position)
    qkv = np.zeros((len(queries), (group + 2) * kv_heads * head_size), np.float32)
    qkv[:, : group * kv_heads * head_size] = np.stack(queries).reshape(len(queries), -1)
    constants = dict(GROUP=group, KV_HEADS=kv_heads, HEAD_SIZE=head_size, BLOCK_SIZE=block_size, WIDTH=qkv.shape[1],
                     TABLE=tables.shape[1], SCALE=head_size**-0.5, LANES=64)  # fmt: skip
    step = (qkv, key, value, tables, np.array(requests, np.uint32), np.array(positions, np.uint32))
    return constants, step, np.stack(wanted)


@pytest.mark.parametrize("number", ["float32", "float16"])
@pytest.mark.parametrize("seed", range(12))
def test_attend(run, gpu, seed, number):
    if number == "float16" and not gpu.has_f16:
        pytest.skip("this machine's adapter has no numbers of 16 bits")
    constants, step, wanted = attention(np.random.default_rng(seed), number)
    result = np.full(wanted.shape, np.nan, np.float32)
    groups = (constants["KV_HEADS"], len(step[0]))
    close(run("attend", constants, groups, *step, result, number=number)[-1], wanted)


def test_a_kernel_that_cannot_be_compiled_is_one_sentence(gpu):
    sentence = "The kernel gate.wgsl cannot be compiled: .* refused it: .*INTERMEDIATE"
    with pytest.raises(PagedlabError, match=sentence) as error:
        gpu.kernel("gate", LANES=64)  # without the constant that it wants
    assert "\n" not in str(error.value)


def test_memory_beyond_a_buffers_limit_is_one_sentence(gpu):
    with pytest.raises(PagedlabError, match="Keys of a layer: .* bytes are needed, and a buffer of .* has at most"):
        gpu.buffer(gpu.largest + 4, "Keys of a layer")
