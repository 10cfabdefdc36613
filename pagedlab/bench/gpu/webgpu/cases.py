"""What has to come out of each kernel in WGSL: random cases, with their results worked out in float64.

A pool of K and V is NaN wherever nothing was written, and a table holds anything past a request's length: a kernel that
reads what it must not is found out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pagedlab.kernels.wgsl.gpu import GPU

EMPTY = 0xFFFFFFFF  # the slot of a token that is not to be written
LANES = 64


@dataclass(frozen=True)
class Case:
    """A run of ``kernel``: its constants, how many workgroups, and the arrays that it binds, in their order.

    ``wanted``: by number of a binding, what has to be there afterwards. ``tolerance``: of the largest number wanted, or
    of 1 where that is smaller; 0 means exactly.
    """

    kernel: str
    constants: dict[str, int | float]
    groups: tuple[int, ...]
    arrays: tuple[np.ndarray, ...]
    wanted: dict[int, np.ndarray]
    tolerance: float = 5e-6
    number: str = "float32"

    def error(self, found: list[np.ndarray]) -> float:
        """The largest error, as `tolerance` counts it; infinite where there is a NaN too many or a number is not the
        one that was wanted exactly."""
        largest = 0.0
        for i, wanted in self.wanted.items():
            if self.tolerance == 0:
                error = 0.0 if np.array_equal(found[i], wanted, equal_nan=wanted.dtype.kind == "f") else np.inf
            else:
                error = float(np.abs(found[i] - wanted).max() / max(1.0, np.abs(wanted).max()))
            largest = max(largest, np.inf if np.isnan(error) else error)
        return largest


def error_of(gpu: GPU, case: Case) -> float:
    """See :meth:`Case.error`. Raises PagedlabError where the kernel cannot be compiled."""
    return case.error(gpu.run(case.kernel, case.constants, case.groups, *case.arrays, number=case.number))


def normal(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def linear(rng: np.random.Generator, number: str) -> Case:
    inner, out, tokens = 4 * int(rng.integers(1, 200)), int(rng.integers(1, 70)), int(rng.integers(1, 12))
    first, add, bias = int(rng.integers(0, 9)), int(rng.integers(2)), int(rng.integers(2))
    per_group = 1 if tokens == 1 else 4
    width = first + out + int(rng.integers(0, 9))
    weight, x, y = normal(rng, out, inner).astype(number), normal(rng, tokens, inner), normal(rng, tokens, width)
    b = normal(rng, out).astype(number)
    constants = dict(IN=inner, OUT=out, FIRST=first, WIDTH=width, ADD=add, BIAS=bias, COUNT=1, ROWS=8, TOKENS=per_group,
                     LANES=32)  # fmt: skip
    wanted = y.astype(np.float64)
    part = x.astype(np.float64) @ weight.astype(np.float64).T + (b.astype(np.float64) if bias else 0)
    wanted[:, first : first + out] = part + (wanted[:, first : first + out] if add else 0)
    groups, counts = (-(-out // 8), -(-tokens // per_group)), np.array([99, tokens], np.uint32)
    return Case("linear", constants, groups, (counts, weight, b, x, y), {4: wanted}, 2e-6, number)


def rms_norm(rng: np.random.Generator, number: str) -> Case:
    hidden = 4 * int(rng.integers(1, 150))
    x, weight = normal(rng, 3, hidden), normal(rng, hidden).astype(number)
    x64 = x.astype(np.float64)
    wanted = x64 / np.sqrt((x64**2).mean(-1, keepdims=True) + 1e-5) * weight
    constants = dict(HIDDEN=hidden, EPSILON=1e-5, LANES=LANES)
    return Case("rms_norm", constants, (3,), (x, weight, np.zeros_like(x)), {2: wanted}, number=number)


def embed(rng: np.random.Generator, number: str) -> Case:
    """A buffer that has some of the embedding's rows only: the vectors of other tokens stay as they are."""
    first, rows, hidden = int(rng.integers(0, 20)), int(rng.integers(1, 30)), 4 * int(rng.integers(1, 80))
    table, ids = normal(rng, rows, hidden).astype(number), rng.integers(0, 60, 9).astype(np.uint32)
    ids[:3] = first, first + rows - 1, first + rows  # the first one, the last one, one too far
    before = normal(rng, len(ids), hidden)
    wanted, here = before.copy(), (ids >= first) & (ids < first + rows)
    wanted[here] = table[ids[here] - first]
    constants = dict(HIDDEN=hidden, FIRST=first, ROWS=rows, LANES=LANES)
    return Case("embed", constants, (len(ids),), (table, ids, before), {2: wanted}, 0, number)


def rope(rng: np.random.Generator, number: str) -> Case:
    """Queries and keys are turned; values, which follow them, stay as they are."""
    head_size, tokens = 8 * int(rng.integers(1, 33)), int(rng.integers(1, 9))
    heads, values = int(rng.integers(2, 12)), int(rng.integers(1, 4))
    qkv, half = normal(rng, tokens, heads + values, head_size), head_size // 2
    angles = rng.uniform(0, 6, (40, half))
    positions = rng.integers(0, 40, tokens).astype(np.uint32)
    wanted = qkv.astype(np.float64)
    a, b = qkv[:, :heads, :half], qkv[:, :heads, half:]
    cos, sin = (turn[positions][:, None] for turn in (np.cos(angles), np.sin(angles)))
    wanted[:, :heads, :half], wanted[:, :heads, half:] = a * cos - b * sin, b * cos + a * sin
    constants = dict(HEADS=heads, WIDTH=(heads + values) * head_size, HEAD_SIZE=head_size, LANES=LANES)
    turns = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
    groups = (-(-heads * half // LANES), tokens)
    return Case("rope", constants, groups, (positions, *turns, qkv), {3: wanted}, 1e-6)


def gate(rng: np.random.Generator, number: str) -> Case:
    tokens, inner = int(rng.integers(1, 6)), int(rng.integers(2, 300))
    gate_up = 4 * normal(rng, tokens, 2, inner)
    gate_up[0, 0, :2] = -100, 100  # exp overflows in the one, and is nothing in the other
    x, up = gate_up.astype(np.float64).transpose(1, 0, 2)
    arrays = gate_up, np.zeros((tokens, inner), np.float32)
    constants = dict(INTERMEDIATE=inner, LANES=LANES)
    return Case("gate", constants, (-(-inner // LANES), tokens), arrays, {1: x / (1 + np.exp(-x)) * up})


def argmax(rng: np.random.Generator, number: str) -> Case:
    """The first of equals: one row has many, one has nothing else."""
    vocabulary = int(rng.integers(1, 2 + 4 ** rng.integers(0, 7)))  # fewer than there are lanes, and many more
    logits = np.stack([normal(rng, vocabulary), rng.integers(0, 3, vocabulary).astype(np.float32),
                       np.full(vocabulary, -5.0, np.float32)])  # fmt: skip
    wanted = logits.argmax(-1).astype(np.uint32)
    constants = dict(VOCABULARY=vocabulary, LANES=256)
    return Case("argmax", constants, (3,), (logits, np.zeros(3, np.uint32)), {1: wanted}, 0)


def write_kv(rng: np.random.Generator, number: str) -> Case:
    """Fills its slots, and nothing else."""
    tokens, slots = int(rng.integers(2, 9)), int(rng.integers(10, 40))
    row, key = int(rng.integers(1, 5)) * int(rng.choice([16, 24, 64])), int(rng.integers(1, 300))
    slot_mapping = rng.permutation(slots)[:tokens].astype(np.uint32)
    slot_mapping[1] = EMPTY
    qkv = normal(rng, tokens, key + 2 * row + 8)
    pools = tuple(np.full((slots, row), np.nan, number) for _ in range(2))
    wanted = {}
    for i, pool in enumerate(pools):
        wanted[2 + i] = pool.copy()
        for token, slot in enumerate(slot_mapping):
            if slot != EMPTY:
                wanted[2 + i][slot] = qkv[token, key + i * row :][:row]
    constants = dict(ROW=row, KEY=key, WIDTH=qkv.shape[1], LANES=LANES)
    return Case("write_kv", constants, (tokens,), (qkv, slot_mapping, *pools), wanted, 0, number)


def move_blocks(rng: np.random.Generator, number: str) -> Case:
    block, pairs = 4 * int(rng.integers(1, 200)), int(rng.integers(1, 5))
    origin, copies = normal(rng, 6, block).astype(number), normal(rng, 5, block).astype(number)
    sources, destinations = rng.integers(0, 6, pairs).astype(np.uint32), rng.permutation(5)[:pairs].astype(np.uint32)
    wanted = copies.copy()
    wanted[destinations] = origin[sources]
    arrays = origin, sources, destinations, copies
    return Case("move_blocks", dict(BLOCK=block, LANES=LANES), (pairs,), arrays, {3: wanted}, 0, number)


def attend(rng: np.random.Generator, number: str) -> Case:
    """Each request's last token, as in decoding, and some before it, as in a prefill."""
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
        for position in {n - 1, *rng.integers(0, n, 2).tolist()}:
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
                     TABLE=tables.shape[1], SCALE=head_size**-0.5, LANES=LANES)  # fmt: skip
    result = np.full((len(queries), kv_heads, group, head_size), np.nan, np.float32)
    numbers = np.array(requests, np.uint32), np.array(positions, np.uint32)
    arrays = qkv, key, value, tables, *numbers, result
    return Case("attend", constants, (kv_heads, len(queries)), arrays, {6: np.stack(wanted)}, number=number)


BOTH = ("float32", "float16")
# In the order of their importance: what makes a case, of which kinds of weights, K and V, and how many to try.
CASES: tuple[tuple[Callable[[np.random.Generator, str], Case], tuple[str, ...], int], ...] = (
    (attend, BOTH, 12),
    (write_kv, BOTH, 2),
    (move_blocks, BOTH, 2),
    (linear, BOTH, 8),
    (rms_norm, BOTH, 3),
    (rope, BOTH[:1], 4),
    (gate, BOTH[:1], 2),
    (argmax, BOTH[:1], 5),
    (embed, BOTH, 2),
)
