"""Where the card's memory went: parts that add up to the card where the log says so."""

from __future__ import annotations

from dataclasses import dataclass

from pagedlab.explain.arithmetic import Derived
from pagedlab.explain.findings import MEMORY_TAKEN, Findings


@dataclass(frozen=True)
class Part:
    """A share of the memory. ``gib`` is None where the log does not say it."""

    letter: str
    name: str
    gib: float | None
    remark: str = ""
    counted: bool = True  # False: it is part of another row, or of nothing, and nothing is missing without it


@dataclass(frozen=True)
class Card:
    """The parts, what they are parts of ("card", "budget"; "" if they add up to nothing known), and its size."""

    parts: list[Part]
    of: str
    gib: float | None

    @property
    def known(self) -> list[Part]:
        """The parts with a size."""
        return [part for part in self.parts if part.gib is not None]


def card(f: Findings, d: Derived) -> Card:
    """The parts of the card in ``f``: they sum to ``Card.gib`` wherever that is known."""
    if f.failure and f.failure.kind == MEMORY_TAKEN and f.total_gib is not None and f.free_at_start_gib is not None:
        taken = Part("o", "others, before vLLM started", round(f.total_gib - f.free_at_start_gib, 2))
        return Card([taken, Part(".", "free", f.free_at_start_gib)], "card", f.total_gib)
    parts = _parts(f, d)
    budget = f.budget_gib if f.budget_gib is not None else d.get("budget_gib")
    total, of = (f.total_gib, "card") if f.total_gib is not None else (budget, "budget")
    if total is None:
        return Card(parts, "", None)
    rest = round(total - sum(part.gib for part in parts if part.gib is not None), 2)
    unsaid = [part.name for part in parts if part.gib is None and part.counted]
    if rest < -0.02:
        return Card(parts, "", None)  # more than there is: figures of different moments or workers
    if unsaid:
        parts.append(Part("?", "the rest", max(rest, 0.0), "this log does not divide it"))
    elif of == "card" or rest > 0.02:
        parts.append(Part(".", "not used by vLLM", max(rest, 0.0)))
    return Card(parts, of, total)


def _parts(f: Findings, d: Derived) -> list[Part]:
    others = round(f.total_gib - f.free_at_start_gib, 2) if f.total_gib and f.free_at_start_gib is not None else None
    parts = [Part("o", "others, before vLLM started", others)] if others is not None else []
    activation = f.activation_gib if f.activation_gib is not None else d.get("activation_gib")
    if f.weights_gib is None and f.consumed_gib is not None:
        parts.append(Part("W", "weights and what is not torch's", f.consumed_gib))
    else:
        non_torch = f.non_torch_gib if f.non_torch_gib is not None else d.get("non_torch_gib")
        parts.append(Part("W", "weights", f.weights_gib))
        if f.device != "CPU":
            parts.append(Part("n", "not torch's (NCCL, CUDA context)", non_torch))
    if f.graphs_in_activation and activation is not None:
        estimate = f.cudagraph_estimate_gib
        if estimate is not None and estimate <= activation:
            parts.append(Part("a", "activations at their peak", round(activation - estimate, 2)))
            parts.append(Part("g", "CUDA graphs, as estimated", estimate))
        else:
            parts.append(Part("a", "activations at their peak", activation, "an estimate of CUDA graphs is in it"))
        if f.cudagraph_gib is not None:
            parts.append(Part("g", "CUDA graphs, as captured", None, f"{f.cudagraph_gib:.2f} GiB, not added: see above",
                              counted=False))  # fmt: skip
    else:
        parts.append(Part("a", "activations at their peak", activation))
        graphs = max(f.cudagraph_gib, 0.0) if f.cudagraph_gib is not None and f.total_gib is not None else None
        if graphs is not None:
            parts.append(Part("g", "CUDA graphs, beyond the budget", graphs))
        elif f.cudagraph_gib is not None:
            parts.append(Part("g", "CUDA graphs", None, f"{f.cudagraph_gib:.2f} GiB, beyond the budget", counted=False))
        elif f.device == "CPU":
            pass
        elif f.enforce_eager:
            parts.append(Part("g", "CUDA graphs", 0.0, "enforce_eager: none are captured"))
        else:
            parts.append(Part("g", "CUDA graphs", None, counted=f.total_gib is not None))
    pool = f.kv_cache_gib if f.kv_cache_gib is not None else d.get("pool_gib")
    if pool is not None and pool < 0:
        parts.append(Part("K", "KV pool", None, f"none: {-pool:.2f} GiB are missing even without it", counted=False))
    else:
        parts.append(Part("K", "KV pool", pool))
    return parts


def strip(parts: list[Part], total: float, width: int) -> str:
    """The parts as ``width`` letters, each part's share of them; the largest remainders get the letters left over."""
    shares = [max(part.gib or 0.0, 0.0) / total * width if total else 0.0 for part in parts]
    counts = [int(share) for share in shares]
    for index in sorted(range(len(parts)), key=lambda i: counts[i] - shares[i])[: max(width - sum(counts), 0)]:
        counts[index] += 1
    return "".join(part.letter * count for part, count in zip(parts, counts, strict=True))[:width]
