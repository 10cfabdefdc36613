"""What is recorded?  Two traces of this GPU, for the labs: of the watched kernel, and of the engine."""

from __future__ import annotations

import torch

from pagedlab.bench.gpu.decoded import decoded
from pagedlab.bench.gpu.report import Report, provenance
from pagedlab.bench.gpu.setting import Setting
from pagedlab.kernels.run import decode
from pagedlab.kernels.watch import new_log, spans
from pagedlab.trace.events import SCHEMA_VERSION
from pagedlab.trace.recorder import Trace
from pagedlab.trace.store import save


def kernel_trace(report: Report, s: Setting) -> None:
    """A watched decode of four requests, as `kernel span` events in a trace."""
    contexts = [min(c, s.target[1]) for c in (700, 1500, 3000, 4096)]
    query, layer, tables, _, starts = s.batch(4, max(contexts))
    lengths = torch.tensor(contexts, dtype=torch.int32, device=s.device)
    parts = 4
    log = new_log(4, s.kv_heads, parts, tables.shape[1], s.device)
    for _ in range(2):  # the first run compiles
        log.fill_(-1)
        decode(query, layer, tables, lengths, starts, s.scale, splits=parts, watch=log)
    events = spans(log, "pagedlab.kernels.decode_split:paged_decode_split_kernel")
    where = provenance(s.device)
    header = {
        "schema": SCHEMA_VERSION,
        "pagedlab": where["versions"]["pagedlab"],
        "torch": torch.__version__,
        "triton": where["versions"]["triton"],
        "device": where["device"] or "CPU",
        "compute_capability": where.get("compute_capability"),
        "dtype": str(s.dtype).removeprefix("torch."),
        "model": "random K and V in Llama 3.1 8B's shape",
        "config": {"num_blocks": layer.num_blocks, "block_size": layer.block_size},
        "seed": None,
        "date": where["date"],
        "live": True,
    }
    save(Trace(header, events), s.out / "gpu-kernel.jsonl.gz")
    sms = {event.sm for event in events} - {None}
    longest = max((event.end_ns for event in events if event.end_ns is not None), default=0)
    report.row(
        "gpu-kernel.jsonl.gz",
        f"{len(events)} programs on {len(sms)} SMs in {longest / 1000:.1f} us",
        programs=len(events),
    )


def engine(report: Report, s: Setting) -> None:
    """The engine decoding with the Triton kernels, recorded. The model has SmolLM2's sizes and random weights: what it
    says is nonsense, what it costs is not, and nothing has to be fetched. And a long prompt in chunks, whose steps
    nobody waits for, gives the tokens that it gives when each step is waited for.
    """
    from pagedlab import LLM, SamplingParams  # here, for the other parts need no tokenizer

    llm = LLM("smollm2-random", device=str(s.device), record=True, num_gpu_blocks_override=64)
    name = llm.model.config.name
    decoded(report, llm, name, s.new_tokens, s.out / "gpu-decode.jsonl.gz")
    options = SamplingParams(max_tokens=s.new_tokens, temperature=0.0, ignore_eos=True)

    def in_chunks(wait: bool) -> list[int]:
        chunked = LLM(llm, num_gpu_blocks_override=64, max_num_batched_tokens=s.chunk, enable_prefix_caching=False)
        chunked.add_request([7 * i % 251 for i in range(6 * s.chunk)], options)
        while chunked.has_unfinished_requests():
            (output, *_) = chunked.step() or [None]
            if wait and s.device.type == "cuda":
                torch.cuda.synchronize(s.device)
        return output.outputs[0].token_ids

    same = in_chunks(wait=False) == in_chunks(wait=True)
    report.judged(
        same, "a prompt in 6 chunks", f"{'the same' if same else 'other'} tokens as with waiting for each", model=name
    )
