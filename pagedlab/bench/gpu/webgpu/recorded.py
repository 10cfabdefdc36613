"""What is recorded?  Two traces of this adapter, for the labs: of the engine, and of the kernel that keeps a diary."""

from __future__ import annotations

import numpy as np

import pagedlab
from pagedlab.bench.gpu.decoded import decoded
from pagedlab.bench.gpu.report import Report
from pagedlab.bench.gpu.webgpu.setting import BLOCK_SIZE, WebGPUSetting
from pagedlab.trace.events import SCHEMA_VERSION, KernelSpan
from pagedlab.trace.recorder import Trace
from pagedlab.trace.store import save


def engine(report: Report, s: WebGPUSetting) -> None:
    """The engine decoding, recorded. Its weights are random: it says nonsense, and its memory is as it always is."""
    decoded(report, s.llm, s.llm.executor.model_config.name, s.new_tokens, s.out / "webgpu-decode.jsonl.gz")


def kernel_trace(report: Report, s: WebGPUSetting) -> None:
    """The ladder's last kernel over four requests, each KV head with one query head: its diary says which blocks it
    read, one an iteration, as `kernel span` events."""
    rng, heads, head_size, lengths = np.random.default_rng(0), 2, 64, [20, 150, 333, 700]
    each = [-(-n // BLOCK_SIZE) for n in lengths]
    blocks, width = sum(each) + 1, max(each)
    tables, taken = np.zeros((len(lengths), width), np.uint32), 0
    ids = 1 + rng.permutation(blocks - 1)
    for r, n in enumerate(each):
        tables[r, :n] = ids[taken : taken + n]
        taken += n
    query, key, value = (
        rng.standard_normal(shape).astype(np.float32)
        for shape in ((len(lengths), heads, head_size), *2 * [(blocks, BLOCK_SIZE, heads, head_size)])
    )
    constants = dict(BLOCK_SIZE=BLOCK_SIZE, GROUP=1, QUERY_HEADS=heads, HEAD_SIZE=head_size, TABLE=width,
                     SCALE=head_size**-0.5, DIARY=1)  # fmt: skip
    diary = np.zeros((len(lengths), heads, width, 4), np.uint32)
    *_, diary = s.gpu.run("ladder5_decode", constants, (heads, len(lengths)), query, key, value, tables,
                    np.array(lengths, np.uint32), np.zeros_like(query), diary)  # fmt: skip
    events = [
        KernelSpan(
            source="pagedlab.kernels.wgsl:ladder5_decode", kernel="ladder5_decode", request=r, kv_head=head, split=0,
            iterations=tuple(range(n)), logical_blocks=tuple(range(n)),
            physical_blocks=tuple(diary[r, head, :n, 0].tolist()),
        )
        for r, n in enumerate(each) for head in range(heads)
    ]  # fmt: skip
    as_the_tables_say = all(e.physical_blocks == tuple(tables[e.request, : each[e.request]].tolist()) for e in events)
    header = {
        "schema": SCHEMA_VERSION,
        "pagedlab": pagedlab.__version__,
        "device": s.gpu.name,
        "driver": s.gpu.driver,
        "dtype": "float32",
        "model": "random K and V",
        "config": {"num_blocks": blocks, "block_size": BLOCK_SIZE},
        "seed": None,
        "date": s.date,
        "live": True,
    }
    save(Trace(header, events), s.out / "webgpu-kernel.jsonl.gz")
    text = f"{len(events)} workgroups, {'the blocks of' if as_the_tables_say else 'other blocks than'} their tables"
    report.judged(as_the_tables_say, "webgpu-kernel.jsonl.gz", text, programs=len(events))
