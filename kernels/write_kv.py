"""Where do a new token's K and V go?

`slot_mapping` holds one number for each new token: slot = physical block * BLOCK_SIZE + offset. So

    physical_block_number = slot // BLOCK_SIZE          physical_block_offset = slot % BLOCK_SIZE

and the address follows as in `attend_blocks.py`. One program for each token writes all its KV heads, K and V. A slot
of -1 is skipped: a captured CUDA graph has a fixed number of tokens, and this is how the empty places say so. (vLLM
calls this `reshape_and_cache`.)
"""

import triton
import triton.language as tl

from pagedlab.kernels.launch import Launch, check_device, kept, padded


@triton.jit
def write_kv_kernel(
    key_pool,
    value_pool,
    key,
    value,
    slot_mapping,
    num_heads,
    key_pool_stride_block,
    key_pool_stride_token: tl.constexpr,
    key_pool_stride_head: tl.constexpr,
    value_pool_stride_block,
    value_pool_stride_token: tl.constexpr,
    value_pool_stride_head: tl.constexpr,
    key_stride_token,
    key_stride_head: tl.constexpr,
    value_stride_token,
    value_stride_head: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
    HEADS_PADDED: tl.constexpr,
    HEAD_SIZE: tl.constexpr,
    HEAD_PADDED: tl.constexpr,
):
    token = tl.program_id(0).to(tl.int64)
    slot = tl.load(slot_mapping + token)
    if slot >= 0:
        physical_block_number = slot // BLOCK_SIZE
        physical_block_offset = slot % BLOCK_SIZE
        head = tl.arange(0, HEADS_PADDED)[:, None].to(tl.int64)
        dim = tl.arange(0, HEAD_PADDED)[None, :]
        inside = (head < num_heads) & (dim < HEAD_SIZE)

        k = tl.load(key + token * key_stride_token + head * key_stride_head + dim, mask=inside)
        place = physical_block_number * key_pool_stride_block + physical_block_offset * key_pool_stride_token
        tl.store(key_pool + place + head * key_pool_stride_head + dim, k, mask=inside)

        v = tl.load(value + token * value_stride_token + head * value_stride_head + dim, mask=inside)
        place = physical_block_number * value_pool_stride_block + physical_block_offset * value_pool_stride_token
        tl.store(value_pool + place + head * value_pool_stride_head + dim, v, mask=inside)


def write_kv(layer, key, value, slot_mapping) -> None:
    """Write K and V `[tokens, KV heads, head size]` into one layer of the pool, in place; see `LayerKV.write`."""
    if len(key) == 0:
        return
    key, value = (x if x.stride(-1) == 1 else x.contiguous() for x in (key, value))
    pool = (*layer.key.stride()[:3], *layer.value.stride()[:3], layer.block_size, layer.num_kv_heads, layer.head_size)
    same = (write_kv, key.device, *key.shape, *pool, *key.stride()[:2], *value.stride()[:2])
    kept(lambda: _launch(layer, key, value), same)(layer.key, layer.value, key, value, slot_mapping)


def _launch(layer, key, value) -> Launch:
    check_device(key.device)
    return Launch(
        write_kv_kernel,
        (len(key),),
        layer.num_kv_heads,
        *layer.key.stride()[:3],
        *layer.value.stride()[:3],
        *key.stride()[:2],
        *value.stride()[:2],
        BLOCK_SIZE=layer.block_size,
        HEADS_PADDED=padded(layer.num_kv_heads),
        HEAD_SIZE=layer.head_size,
        HEAD_PADDED=padded(layer.head_size),
        num_warps=4,
    )
