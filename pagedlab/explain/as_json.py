"""A reading as one JSON object: null for what the log does not say."""

from __future__ import annotations

import json
from typing import Any

from pagedlab.explain.arithmetic import Derived
from pagedlab.explain.findings import Findings

FIELDS = (
    "vllm_version", "device", "model", "tensor_parallel", "pipeline_parallel", "max_model_len", "total_gib",
    "free_at_start_gib", "utilization", "budget_gib", "weights_gib", "non_torch_gib", "consumed_gib", "activation_gib",
    "cudagraph_gib", "kv_cache_gib", "kv_cache_tokens", "num_blocks", "block_size", "max_concurrency",
)  # fmt: skip
RUNTIME = (
    "lines", "max_running", "max_waiting", "peak_kv_usage_pct", "last_prefix_hit_pct", "preemptions_printed",
    "preempted",
)  # fmt: skip


def reading(f: Findings, d: Derived, notes: list[str]) -> dict[str, Any]:
    """What ``--json`` prints, as plain values. GiB are of one GPU."""
    return {
        "source": f.source,
        "context": f.context,
        **{name: getattr(f, name) for name in FIELDS},
        "failure": f.failure.kind if f.failure else None,
        "failure_detail": f.failure.detail if f.failure else None,
        "runtime": {name: getattr(f.runtime, name) for name in RUNTIME} if f.runtime else None,
        "derived": d.figures,
        "checks": d.checks,
        "notes": notes,
    }


def as_json(f: Findings, d: Derived, notes: list[str]) -> str:
    """The reading, indented."""
    return json.dumps(reading(f, d, notes), indent=1)
