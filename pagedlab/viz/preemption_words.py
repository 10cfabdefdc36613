"""What the preemption lab says of a step: pure functions of its events and of what they came to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pagedlab.trace import events as ev
from pagedlab.viz.labels import listed, names, plural
from pagedlab.viz.preemption_run import Away, PreemptionHistory


def run_name(header: dict[str, Any]) -> str:
    """What becomes of a victim in this run: "recompute", "swap", or "recompute (paper)"."""
    config = header["config"]
    if config.get("era", "v1") == "v1":
        return "recompute"
    return "swap" if config.get("preemption") == "swap" else "recompute (paper)"


def run_says(header: dict[str, Any]) -> str:
    config = header["config"]
    if config.get("era", "v1") == "v1":
        return "vLLM V1: blocks go back, tokens are computed again"
    if config.get("preemption") == "swap":
        return "the paper: blocks are carried to the CPU and back"
    return "the paper: blocks go back, tokens are computed again"


def amount(num_bytes: float) -> str:
    """Bytes as "0 B", "92 KB" or "1.3 MB" (a million bytes)."""
    if num_bytes < 1000:
        return f"{num_bytes:.0f} B"
    return f"{num_bytes / 1e3:.0f} KB" if num_bytes < 1e6 else f"{num_bytes / 1e6:.3g} MB"


def went(history: PreemptionHistory, step: int) -> list[Away]:
    return [away for away in history.aways if away.step == step]


def came(history: PreemptionHistory, step: int) -> list[Away]:
    """In the order in which they came: whoever had to go last is first in the queue."""
    return [away for away in history.aways if away.back == step][::-1]


def story(history: PreemptionHistory, events: Sequence[ev.Event], step: int) -> list[str]:
    """What the step did in one run: sentences, the most important first."""
    if step == 0 or not events:
        return ["Nothing has happened yet." if step == 0 else "This run is over."]
    short = names(history.state.requests)
    said = [_gone(away, short) for away in went(history, step)]
    said += [_back(away, short, history, step) for away in came(history, step)]
    special = {away.request_id for away in came(history, step)}
    new = [e.request_id for e in events if isinstance(e, ev.RequestAdmitted) and e.request_id not in special]
    written = [e.request_id for e in events if isinstance(e, ev.SlotWritten)]
    if new:
        tokens = sum(written.count(r) for r in new)
        said.append(f"{listed(short[r] for r in new)} start{'s' if len(new) == 1 else ''}: {plural(tokens, 'token')}.")
    decoding = [r for r in dict.fromkeys(written) if r not in special and r not in new]
    if decoding:
        each = "one token" if len(decoding) == 1 else "one token each"
        wrote = all(written.count(r) == 1 for r in decoding)
        said.append(f"{listed(short[r] for r in decoding)} wrote {each if wrote else 'their next tokens'}.")
    done = [e.request_id for e in events if isinstance(e, ev.RequestFinished)]
    if done:
        said.append(f"{listed(short[r] for r in done)} {'is' if len(done) == 1 else 'are'} done.")
    return said or ["Nobody could run in this step."]


def _gone(away: Away, short: dict[str, str]) -> str:
    who = short[away.request_id]
    asked = short.get(away.trigger, "")
    why = f"No free block for {asked}" if asked != who else f"No free block for {who} itself"
    blocks = plural(away.num_blocks, "block")
    if away.how == "swap":
        return f"{why}: {who}'s {blocks} go to the CPU."
    return f"{why}: {who} gives back {blocks}, {plural(away.num_tokens, 'token')} lost."


def _back(away: Away, short: dict[str, str], history: PreemptionHistory, step: int) -> str:
    who = short[away.request_id]
    if away.how == "swap":
        blocks = plural(away.num_blocks, "block")
        return f"{who} is back: {blocks} ({amount(away.num_blocks * history.bytes_per_block)}) carried in."
    again = f"{away.recomputed[step]} computed again"
    return f"{who} is back: {f'{away.found} tokens found, ' if away.found else ''}{again}."


def headline(histories: Sequence[PreemptionHistory], step: int) -> str:
    """Who went or came in this step, in one sentence about both runs; empty where nobody did."""
    short = names(histories[0].state.requests)
    if step == 0:
        return "Before the first step"
    for start, verb, rest, at in (("Memory is full: ", "make", "room", went), ("", "come", "back", came)):
        who = [list(dict.fromkeys(short.get(a.request_id, "?") for a in at(h, step))) for h in histories]
        told = [f"{listed(w)} {verb}{'s' if len(w) == 1 else ''} {rest}" for w in who]
        if who[0] and who[0] == who[1]:
            return start + told[0]
        if who[0] and who[1]:
            return f"{start}{told[0]} (left), {listed(who[1])} (right)"
        if who[0] or who[1]:
            return start + (f"{told[0]} (left)" if who[0] else f"{told[1]} (right)")
    return ""


def counts(running: Sequence[int], away: Sequence[int]) -> str:
    """Where nothing happened: how many run and how many are away, left and right."""
    if running[0] == running[1]:
        text = f"{running[0]} run in both" if running[0] else "Nobody runs"
    else:
        text = f"{running[0]} run (left), {running[1]} (right)"
    if any(away):
        out = str(away[0]) if away[0] == away[1] else f"{away[0]} and {away[1]}"
        text += f"; {out} made room and wait{'s' if away == [1, 1] else ''}"
    return text


def bar_words(away: Away, bytes_per_block: int) -> list[str]:
    """What stands in the bar of a request that is away, the longest first."""
    if away.how == "swap":
        moved = amount(sum(away.carried.values()) * bytes_per_block)
        if away.back is None:
            return [f"in CPU memory: {plural(away.num_blocks, 'block')}", f"CPU: {away.num_blocks}", "CPU"]
        return [f"in CPU memory, {moved} carried out and in", f"CPU, {moved} carried", f"{moved}"]
    again = sum(away.recomputed.values())
    if away.back is None:
        number = str(away.num_tokens)
        return [f"{plural(away.num_tokens, 'token')} thrown away", f"{number} thrown away", number]
    if away.found:
        return [
            f"thrown away: {away.found} tokens found again, {again} computed again",
            f"{away.found} found, {again} again",
            f"{again} again",
        ]
    return [f"thrown away: {plural(again, 'token')} computed again", f"{again} again", str(again)]
