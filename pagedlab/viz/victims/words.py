"""What the preemption lab says of a step: pure functions of its events and of what they came to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pagedlab.trace import events as ev
from pagedlab.viz.kit.labels import listed, names, plural
from pagedlab.viz.victims.run import Away, PreemptionHistory

RAN_OUT = "Memory ran out: "


def run_name(header: dict[str, Any]) -> str:
    """What becomes of a victim in this run: "recompute", "swap", or "recompute (paper)"."""
    config = header["config"]
    if config.get("era", "v1") == "v1":
        return "recompute"
    return "swap" if config.get("preemption") == "swap" else "recompute (paper)"


def engine_name(header: dict[str, Any]) -> str:
    """Whose engine it is: "pagedlab", or "vLLM"."""
    return str(header.get("engine") or "pagedlab").partition(" ")[0]


def run_says(header: dict[str, Any]) -> str:
    config = header["config"]
    if config.get("era", "v1") == "v1":
        return "vLLM V1: blocks go back, tokens are computed again"
    if config.get("preemption") == "swap":
        return "the paper, by swapping: blocks go to the CPU and back"
    return "the paper, by recomputing: blocks go back"


def amount(num_bytes: float) -> str:
    """Bytes as "0 B", "92 KiB" or "1.3 MiB", the units in which the memory map gives a block's size."""
    if num_bytes < 1024:
        return f"{num_bytes:.0f} B"
    return f"{num_bytes / 2**10:.0f} KiB" if num_bytes < 2**20 else f"{num_bytes / 2**20:.3g} MiB"


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
    gone, back = went(history, step), came(history, step)
    sentences = [_gone(away, short) for away in gone] + [_back(away, short, history, step) for away in back]
    sentences += [text for away in gone for text in _rule(away, short)]
    sentences += [text for away in [*gone, *back] for text in _moved(away, step)]
    sentences += [text for away in history.aways for text in _lost(away, short, step)]
    special = {away.request_id for away in came(history, step)}
    new = [e.request_id for e in events if isinstance(e, ev.RequestAdmitted) and e.request_id not in special]
    written = [e.request_id for e in events if isinstance(e, ev.SlotWritten)]
    if new:
        tokens = sum(written.count(r) for r in new)
        who = listed(short[r] for r in new)
        sentences.append(f"{who} start{'s' if len(new) == 1 else ''}: {plural(tokens, 'token')}.")
    decoding = [r for r in dict.fromkeys(written) if r not in special and r not in new]
    if decoding:
        each = "one token" if len(decoding) == 1 else "one token each"
        wrote = all(written.count(r) == 1 for r in decoding)
        sentences.append(f"{listed(short[r] for r in decoding)} wrote {each if wrote else 'their next tokens'}.")
    done = [e.request_id for e in events if isinstance(e, ev.RequestFinished)]
    if done:
        sentences.append(f"{listed(short[r] for r in done)} {'is' if len(done) == 1 else 'are'} done.")
    return sentences or ["Nobody could run in this step."]


def _gone(away: Away, short: dict[str, str]) -> str:
    who = short[away.request_id]
    trigger = short.get(away.trigger, "")
    why = f"No free block for {trigger}" if trigger != who else f"No free block for {who} itself"
    if not away.needed:
        why = f"No free block at {trigger}'s turn"
    blocks = plural(away.num_blocks, "block")
    if away.how == "swap":
        return f"{why}: {who}'s {blocks} {'goes' if away.num_blocks == 1 else 'go'} to the CPU."
    return f"{why}: {who} gives back {blocks} ({plural(away.num_tokens, 'token')})."


def _rule(away: Away, short: dict[str, str]) -> list[str]:
    """Why somebody has to go although the one whose turn it was needed no block."""
    if away.needed:
        return []
    return [f"{short.get(away.trigger, '?')}'s last block has room, but the rule wants a free one."]


def _moved(away: Away, step: int) -> list[str]:
    """Which block went where, to the CPU or back."""
    moves = away.moves.get(step, [])
    if not moves:
        return []
    (first, then), more = zip(*moves[:7], strict=True), ", …" if len(moves) > 7 else ""
    there, here = (then, first) if step == away.step else (first, then)
    cpu, gpu = f"CPU {', '.join(map(str, there))}{more}", f"{', '.join(f'#{b}' for b in here)}{more}"
    return [f"{gpu} → {cpu}." if step == away.step else f"{cpu} → {gpu}."]


def _lost(away: Away, short: dict[str, str], step: int) -> list[str]:
    """Who took a block in which somebody's tokens could have been found."""
    if step not in away.lost:
        return []
    count, takers = away.lost[step]
    took: dict[str, list[str]] = {}
    for who, block in takers:
        took.setdefault(short[who], []).append(f"#{block}")
    clause = listed(f"{who} took {listed(blocks)}" for who, blocks in took.items())
    return [f"{clause}: {plural(count, 'token')} of {short[away.request_id]} can be found no more."]


def rule(histories: Sequence[PreemptionHistory], names_of: Sequence[str], step: int) -> str:
    """Who made room in this step, and why just that one."""
    short = names(histories[0].state.requests)
    gone = [list(dict.fromkeys(short.get(a.request_id, "?") for a in went(h, step))) for h in histories]
    if not any(gone):
        return ""
    who = [f"{listed(of)} ({name})" for of, name in zip(gone, names_of, strict=True)]
    if gone[0] == gone[1] or not all(gone):
        who = [listed(gone[0] or gone[1])]
    return f"{', '.join(who)} made room: admitted last."


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
    for start, verb, at in ((RAN_OUT, "made room", went), ("", "came back", came)):
        who = [list(dict.fromkeys(short.get(a.request_id, "?") for a in at(h, step))) for h in histories]
        clauses = [f"{listed(w)} {verb}" for w in who]
        if who[0] and who[0] == who[1]:
            return start + clauses[0]
        if who[0] and who[1]:
            return f"{start}{clauses[0]} (left), {listed(who[1])} (right)"
        if who[0] or who[1]:
            return start + (f"{clauses[0]} (left)" if who[0] else f"{clauses[1]} (right)")
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
            return [f"{plural(away.num_blocks, 'block')} on the CPU", plural(away.num_blocks, "block")]
        return [f"on the CPU, {moved} out and in", f"{moved} moved", moved]
    again = sum(away.recomputed.values())
    if away.back is None:
        return [f"gave back {plural(away.num_tokens, 'token')}", plural(away.num_tokens, "token")]
    if away.found:
        return [
            f"gave back {away.found + again} tokens: {away.found} found, {again} computed again",
            f"{away.found} found, {again} again",
            f"{again} again",
        ]
    return [f"{plural(again, 'token')} computed again", f"{again} again"]
