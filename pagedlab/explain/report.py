"""A reading for people: a table and a strip of the card, what the pool holds, what failed, what to try."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator

from pagedlab.explain import findings as kinds
from pagedlab.explain.advice import Knob
from pagedlab.explain.arithmetic import Derived
from pagedlab.explain.card import Card, strip
from pagedlab.explain.findings import Findings
from pagedlab.explain.notes import joined
from pagedlab.terminal import paint, printable, width

UNSAID = "not in this log"
WIDEST, NARROWEST = 100, 40
FAILED = {
    kinds.NO_KV_MEMORY: "No memory is left for the pool: weights and activations take the whole budget.",
    kinds.POOL_TOO_SMALL: "The pool is too small for one request of max_model_len tokens.",
    kinds.MEMORY_TAKEN: "Less memory was free at the start than vLLM was told to use; no weight was loaded.",
    kinds.OUT_OF_MEMORY: "The device ran out of memory.",
    kinds.PROFILING_GREW: "While vLLM measured what it needs, somebody else's memory on the card changed.",
}
DETAILS = {
    "needed_gib": "needed for one request", "available_gib": "available",
    "estimated_max_model_len": "longest that fits",
    "cause": "cause", "max_model_len": "length wanted", "fits_tokens": "tokens that fit", "free_gib": "free",
    "wanted_gib": "wanted", "taken_by_others_gib": "taken by others", "tried_gib": "asked for",
    "total_gib": "the device",
    "dummy_requests": "dummy requests", "initial_free_gib": "free before", "current_free_gib": "free after",
    "initial_used_gib": "used before", "current_used_gib": "used after",
}  # fmt: skip


def report(f: Findings, d: Derived, card: Card, knobs: list[Knob], notes: list[str]) -> Iterator[str]:
    """The lines of the reading, as wide as the terminal, at most 100 columns."""
    columns = max(min(width(WIDEST), WIDEST), NARROWEST)
    yield from _wrapped(_head(f), columns)
    yield from _title("WHAT FAILED")
    yield from _failed(f, columns)
    yield from _title("WHERE THE MEMORY WENT")
    yield from _memory(f, d, card, columns)
    yield from _title("THE POOL")
    yield from _pool(f, d, columns)
    yield from _title("WHILE IT RAN")
    yield from _ran(f, d, columns)
    yield from _title("WHAT TO TRY, IN THIS ORDER" if f.failure else "FOR A LARGER POOL, OR FEWER PREEMPTIONS")
    for number, knob in enumerate(knobs, start=1):
        yield from _wrapped(f"{number}. {knob.name}: {knob.effect}", columns, indent=5)
    if notes:
        yield from _title("MIND")
        for note in notes:
            yield from _wrapped(f"- {note}", columns, indent=4)


def _head(f: Findings) -> str:
    parts = [f"vLLM {f.vllm_version}" if f.vllm_version else f"vLLM (version {UNSAID})",
             f"model {f.model or UNSAID}", f"device {f.device or UNSAID}"]  # fmt: skip
    for name, number in (("tensor", f.tensor_parallel), ("pipeline", f.pipeline_parallel)):
        if number and number > 1:
            parts.append(f"{name} parallel {number}")
    return ", ".join(parts)


def _title(words: str) -> Iterator[str]:
    yield ""
    yield paint(words, "bold")


def _wrapped(text: str, columns: int, indent: int = 2, first: int = 2) -> Iterator[str]:
    yield from textwrap.wrap(
        printable(text), columns, initial_indent=" " * first, subsequent_indent=" " * indent, break_long_words=True,
        break_on_hyphens=False)  # fmt: skip


def _rows(rows: list[tuple[str, str]], columns: int) -> Iterator[str]:
    """A table of two columns; where there is no room for the second beside the first, it goes below."""
    left = min(max((len(name) for name, _ in rows), default=0), columns // 2)
    for name, value in rows:
        cell, *more = textwrap.wrap(printable(value), columns - left - 4) or [""]
        if len(name) > left:
            yield f"  {name}"
            name = ""
        yield f"  {name:<{left}}  {cell}"
        yield from (" " * (left + 4) + line for line in more)


def _failed(f: Findings, columns: int) -> Iterator[str]:
    if f.failure is None:
        yield from _wrapped(f.stopped or "nothing that this log tells of", columns)
        return
    when = f"This was {f.failure.phase}." if f.failure.phase else ""
    yield from (paint(line, "red") for line in _wrapped(joined(FAILED[f.failure.kind], when), columns))
    detail = f.failure.detail or {}
    yield from _rows([(DETAILS[name], _detail(name, value)) for name, value in detail.items()], columns)


def _detail(name: str, value: object) -> str:
    if value is None:
        return UNSAID
    if name.endswith("_gib"):
        return f"{value:.2f} GiB"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _memory(f: Findings, d: Derived, card: Card, columns: int) -> Iterator[str]:
    known = card.known
    whole = card.gib or sum(part.gib for part in known) or 1.0
    names = max(len(part.name) for part in card.parts)
    room = columns - names - 20  # for the bars
    rows = [(part.letter if part.gib is not None else " ", part.name, part.gib, part.remark) for part in card.parts]
    if card.of:
        label = "the CPU's memory" if f.device == "CPU" else "the card" if card.of == "card" else "what vLLM may use"
        rows.append((" ", label, card.gib, ""))
    if card.of != "card":
        rows.append((" ", "the card", None, ""))
    for letter, name, gib, remark in rows:
        figure = f"  {remark or UNSAID}" if gib is None else f"{gib:>8.2f} GiB"
        bar = letter * min(round(gib / whole * room), room) if gib and letter != " " and room > 0 else ""
        line = f"  {letter} {name:<{names}}{figure}  {bar}".rstrip()
        if len(line) <= columns:
            yield line
        else:
            yield f"  {letter} {name}"
            yield from _wrapped(figure.strip(), columns, indent=6, first=6)
        if gib is not None and remark:
            yield from _wrapped(f"({remark})", columns, indent=6, first=6)
    if card.of:
        yield f"  [{strip(known, whole, columns - 4)}]"
    budget = f.budget_gib if f.budget_gib is not None else d.get("budget_gib")
    if f.utilization is not None and f.total_gib is not None and budget is not None:
        allowed = f"gpu_memory_utilization {f.utilization} of {f.total_gib} GiB allows {budget:.2f} GiB."
        yield from _wrapped(allowed, columns)
    elif f.utilization is None and f.device != "CPU":
        yield from _wrapped(f"gpu_memory_utilization: {UNSAID}.", columns)


def _pool(f: Findings, d: Derived, columns: int) -> Iterator[str]:
    tokens = f.kv_cache_tokens if f.kv_cache_tokens is not None else d.get("kv_cache_tokens")
    blocks = f.num_blocks if f.num_blocks is not None else d.get("num_blocks")
    size = f.block_size if f.block_size is not None else d.get("block_size")
    pool = f.kv_cache_gib if f.kv_cache_gib is not None else d.get("pool_gib")
    per_token = d.get("bytes_per_token")
    usable = d.get("usable_blocks")
    whose = "(vLLM's default)" if d.block_size_is_default else ""
    rows = [
        ("memory", f"{pool:.2f} GiB" if pool is not None else UNSAID),
        ("tokens", f"{tokens:,}" if tokens is not None else UNSAID),
        ("blocks", UNSAID if not blocks else f"{blocks:,}, {usable:,} of them usable" if usable else f"{blocks:,}"),
        ("block size", joined(f"{size} tokens", whose) if size else UNSAID),
        ("bytes a token", f"{per_token:,} ({per_token // 1024} KiB)" if per_token else UNSAID),
        ("max_model_len", f"{f.max_model_len:,}" if f.max_model_len else UNSAID),
        ("maximum concurrency", _how_many(f, d)),
    ]
    yield from _rows(rows, columns)
    yield from _wrapped(_meaning(f, d, tokens, blocks, size), columns)


def _how_many(f: Findings, d: Derived) -> str:
    if f.max_concurrency is not None:
        return f"{f.max_concurrency}x"
    return f"{d.get('max_concurrency')}x, as follows" if d.get("max_concurrency") is not None else UNSAID


def _meaning(f: Findings, d: Derived, tokens: int | None, blocks: int | None, size: int | None) -> str:
    """What "Maximum concurrency" means here, and how it came about."""
    many = f.max_concurrency if f.max_concurrency is not None else d.get("max_concurrency")
    if many is None or not f.max_model_len:
        return "How many requests fit cannot be said: the concurrency is not in this log."
    means = (f"{many} requests of {f.max_model_len:,} tokens each would fill the pool; more of them run if they are "
             "shorter.")  # fmt: skip
    if d.by_groups:
        return (f"{means} A request takes blocks of several groups of layers, and the concurrency is all blocks "
                f"divided by what one request takes of all groups: {many} x {f.max_model_len:,} is about "
                f"{d.get('true_capacity_tokens'):,} tokens. The printed tokens divided by the length would be "
                f"{tokens / f.max_model_len:.2f}.")  # fmt: skip
    if d.by_padding:
        each = math.ceil(f.max_model_len / size)
        return (f"{means} Each takes {each} whole blocks, as {f.max_model_len:,} is no multiple of {size}: "
                f"{blocks:,} / {each} = {many}.")  # fmt: skip
    if f.has_groups and tokens:
        return (f"{means} A request takes blocks of several groups of layers: the concurrency is all blocks divided by "
                "what one request takes of all groups, and the printed tokens are the concurrency times the length.")
    return f"{means} {tokens:,} / {f.max_model_len:,} = {tokens / f.max_model_len:.2f}." if tokens else means


def _ran(f: Findings, d: Derived, columns: int) -> Iterator[str]:
    run = f.runtime
    if run is None:
        yield f"  {UNSAID}"
        return
    peak, counts = run.peak_kv_usage_pct, d.get("blocks_in_use")
    usage = UNSAID if peak is None else f"{peak} %, {max(counts):,} blocks" if counts and peak else f"{peak} %"
    put_back = "no sign of any" if not run.preempted else "yes, though no line says so"
    if run.preemptions_printed:
        put_back = f"{run.preemptions_printed:,} or more, as printed"
    rows = [
        ("periodic lines", f"{run.lines:,}"),
        ("most requests running", f"{run.max_running:,}" if run.max_running is not None else UNSAID),
        ("most requests waiting", f"{run.max_waiting:,}" if run.max_waiting is not None else UNSAID),
        ("fullest pool", usage),
        ("prefix hits, last", f"{run.last_prefix_hit_pct} %" if run.last_prefix_hit_pct is not None else UNSAID),
        ("preempted", put_back),
    ]
    yield from _rows(rows, columns)

