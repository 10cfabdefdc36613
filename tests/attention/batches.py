"""Random ragged batches for the attention tests: scattered tables, and memory that nobody wrote poisoned with NaN."""

from __future__ import annotations

import torch

from pagedlab.attention import KVPool


class Batch:
    """A pool of one layer and a packed batch over it. `contexts` and `queries` are lists, one entry a request."""

    def __init__(
        self,
        contexts,
        queries,
        *,
        block_size=16,
        query_heads=4,
        kv_heads=2,
        head_size=64,
        dtype=torch.float32,
        seed=0,
        spare_blocks=3,
        scattered=True,
        hnd=False,
        device="cpu",
    ):
        rng = torch.Generator().manual_seed(seed)
        need = [-(-c // block_size) for c in contexts]
        num_blocks = sum(need) + spare_blocks
        self.pool = KVPool(1, num_blocks, block_size, kv_heads, head_size, dtype, device)
        self.layer = self.pool.layer(0)
        if hnd:
            data = self.pool.data.new_zeros(2, num_blocks, kv_heads, block_size, head_size)
            self.layer = type(self.layer)(data[0].transpose(1, 2), data[1].transpose(1, 2))
        for tensor in (self.layer.key, self.layer.value):
            tensor.fill_(float("nan"))
        ids = torch.randperm(num_blocks, generator=rng) if scattered else torch.arange(num_blocks)
        width = max(need) + 2
        # Entries past a request's length are holes: ids that no pool has.
        self.block_tables = torch.full((len(contexts), width), 2**31 - 1, dtype=torch.int32)
        taken = 0
        for r, count in enumerate(need):
            self.block_tables[r, :count] = ids[taken : taken + count].int()
            taken += count
        self.block_tables = self.block_tables.to(device)
        self.seq_lens = torch.tensor(contexts, dtype=torch.int32, device=device)
        self.query_start_loc = torch.tensor(
            [0, *torch.tensor(queries).cumsum(0).tolist()], dtype=torch.int32, device=device
        )
        self.query = torch.randn(sum(queries), query_heads, head_size, generator=rng).to(dtype).to(device)
        self.keys, self.values = [], []
        for r, context in enumerate(contexts):
            for store, tensor in ((self.keys, self.layer.key), (self.values, self.layer.value)):
                x = torch.randn(context, kv_heads, head_size, generator=rng).to(dtype).to(device)
                store.append(x)
                for first in range(0, context, block_size):
                    part = x[first : first + block_size]
                    tensor[int(self.block_tables[r, first // block_size]), : len(part)] = part

    @property
    def arguments(self):
        return self.query, self.layer, self.block_tables, self.seq_lens, self.query_start_loc


def tolerance(dtype):
    """How far two right answers may lie apart: rounding of the stored dtype, and in fp32 of the sums."""
    return {
        torch.float32: dict(atol=2e-5, rtol=2e-5),
        torch.float16: dict(atol=4e-3, rtol=4e-3),
        torch.bfloat16: dict(atol=3e-2, rtol=3e-2),
    }[dtype]
