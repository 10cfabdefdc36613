"""The attention that others use, called as their users call it, for `pagedlab gpu-check`.

Each `prepare(setting, query, layer, block_tables, seq_lens, query_start_loc)` returns a function without arguments
whose result is `[requests, query heads, head size]`. An import that fails is the caller's to report: none of these is a
dependency.
"""

from __future__ import annotations

import torch


def sdpa(s, query, layer, tables, lengths, starts):
    """torch's scaled_dot_product_attention over contiguous K and V: it cannot read blocks, so they are gathered
    beforehand.
    """
    import torch.nn.functional as F

    batch, context = len(lengths), int(lengths[0])
    slots = (tables.long()[:, :, None] * layer.block_size + torch.arange(layer.block_size, device=s.device)).view(
        batch, -1
    )
    key, value = (t.flatten(0, 1)[slots[:, :context]].transpose(1, 2).contiguous() for t in (layer.key, layer.value))
    return lambda: F.scaled_dot_product_attention(query[:, :, None], key, value, scale=s.scale, enable_gqa=True)


def sdpa_with_gather(s, query, layer, tables, lengths, starts):
    """The same, gathering blocks at each call: what paged memory costs without a kernel that reads tables."""
    import torch.nn.functional as F

    context = int(lengths[0])

    def call():
        key, value = (t[tables.long()].flatten(1, 2)[:, :context].transpose(1, 2) for t in (layer.key, layer.value))
        return F.scaled_dot_product_attention(query[:, :, None], key, value, scale=s.scale, enable_gqa=True)

    return call


def flash_attention(s, query, layer, tables, lengths, starts):
    """FlashAttention 2 or later, `flash_attn_with_kvcache`; its blocks are 256 tokens, so it gets our memory cut that
    way.
    """
    from flash_attn import flash_attn_with_kvcache

    batch, context = len(lengths), int(lengths[0])
    query, layer, tables, lengths, _ = s.batch(batch, context, block_size=256)
    return lambda: flash_attn_with_kvcache(
        query[:, None],
        layer.key,
        layer.value,
        cache_seqlens=lengths,
        block_table=tables,
        softmax_scale=s.scale,
        causal=True,
    )


def flashinfer(s, query, layer, tables, lengths, starts):
    """FlashInfer's paged decode, planned outside of the measurement as its users do once a step."""
    from flashinfer import BatchDecodeWithPagedKVCacheWrapper

    each = -(-int(lengths[0]) // layer.block_size)
    workspace = torch.empty(256 << 20, dtype=torch.uint8, device=s.device)
    wrapper = BatchDecodeWithPagedKVCacheWrapper(workspace, "NHD", use_tensor_cores=True)
    indptr = torch.arange(0, len(lengths) * each + 1, each, dtype=torch.int32, device=s.device)
    last = torch.full_like(lengths, (int(lengths[0]) - 1) % layer.block_size + 1)
    wrapper.plan(
        indptr, tables[:, :each].flatten(), last, s.query_heads, s.kv_heads, s.head_size, layer.block_size,
        q_data_type=s.dtype, kv_data_type=s.dtype, sm_scale=s.scale,
    )  # fmt: skip
    return lambda: wrapper.run(query, (layer.key, layer.value))


def vllm_triton(s, query, layer, tables, lengths, starts):
    """vLLM's own Triton kernel, `unified_attention`."""
    try:
        from vllm.v1.attention.ops.triton_unified_attention import unified_attention
    except ImportError:
        from vllm.attention.ops.triton_unified_attention import unified_attention

    output = torch.empty_like(query)

    def call():
        unified_attention(
            q=query, k=layer.key, v=layer.value, out=output, cu_seqlens_q=starts, max_seqlen_q=1, seqused_k=lengths,
            max_seqlen_k=int(tables.shape[1] * layer.block_size), softmax_scale=s.scale, causal=True, window_size=(-1,
            -1), block_table=tables, softcap=0.0, q_descale=None, k_descale=None, v_descale=None,
        )  # fmt: skip
        return output

    return call


OTHERS = (
    ("torch SDPA, contiguous", sdpa),
    ("torch SDPA, gathering blocks", sdpa_with_gather),
    ("FlashAttention", flash_attention),
    ("vLLM Triton", vllm_triton),
    ("FlashInfer", flashinfer),
)
