"""A recording of vLLM's whole engine, run again by ours under a recorder: to be looked at, not to be judged
(``live_trace`` judges)."""

from __future__ import annotations

from typing import Any

from pagedlab.engine import LLM, SamplingParams
from pagedlab.parity.live_trace import quiet_llm
from pagedlab.parity.report import read_lines
from pagedlab.parity.side_by_side import golden


def schedules(name: str) -> list[dict[str, Any]]:
    """The lines of vLLM's schedules in this recording that comes with the package, in their order. (Fields: ``FIELDS``
    in ``live_trace``.) Raises PagedlabError for an unknown name."""
    return [line for line in read_lines(golden(name)) if line["kind"] == "schedule"]


def repeat(name: str, base: LLM, num_steps: int) -> LLM:
    """An engine of ours on the weights of ``base``, recorded, after the first ``num_steps`` steps of the recording: the
    same knobs, and each request queued before the step in which vLLM got it. Raises PagedlabError for an unknown
    name."""
    header = read_lines(golden(name))[0]
    knobs = ("block_size", "max_num_seqs", "max_num_batched_tokens", "max_model_len", "async_scheduling")
    llm = quiet_llm(
        model=base,
        record=True,
        num_gpu_blocks_override=header["num_blocks"],
        enable_prefix_caching=header["enable_caching"],
        **{knob: header[knob] for knob in knobs},
    )
    for step in range(num_steps):
        for request in header["requests"]:
            if request["arrive"] == step:
                stops = header["stop_token_ids"] if request["stop_at"] else None
                params = SamplingParams(max_tokens=request["max_tokens"], ignore_eos=True, stop_token_ids=stops)
                llm.add_request(request["tokens"], params, request_id=request["req"])
        llm.step()
    return llm
