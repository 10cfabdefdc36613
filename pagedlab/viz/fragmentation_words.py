"""What the fragmentation lab says: a pure function of the four strips at one moment."""

from __future__ import annotations

from pagedlab.trace import events as ev
from pagedlab.viz.fragmentation_run import Moment, Span, StripState
from pagedlab.viz.labels import listed, plural

NAMES = {
    "max": "Reserve the maximum",
    "power_of_two": "Reserve a power of two",
    "oracle": "Reserve what it will need",
    "paged": "Paged",
}
SHORT = {"max": "maximum", "power_of_two": "power of two", "oracle": "oracle", "paged": "paged"}


def name(strip: StripState) -> str:
    return f"Paged, blocks of {strip.block_size}" if strip.paged else NAMES[strip.kind]


def headline(strip: StripState) -> str:
    """The one thing to see in this strip now."""
    wait = strip.wait
    if wait is None:
        if not strip.state.running:
            return "Nobody is in memory" if not strip.state.waiting else f"{strip.state.waiting[0]} may come in"
        held = strip.num_slots - sum(hole.length for hole in strip.holes)
        return f"{plural(strip.num('token'), 'token')} in {plural(held, 'slot')}, held by {_people(strip)}"
    who, slots = wait.request_id, plural(wait.needs, "slot")
    if wait.scattered:
        return f"{who} needs {slots} in a row. {wait.free} are free. It fits nowhere."
    if strip.paged:
        blocks, free = wait.needs // strip.block_size, wait.free // strip.block_size
        return f"{who} needs {plural(blocks, 'block')}, and {_are(free)} free"
    needs = strip.needed(who)
    if wait.needs > needs:
        return f"{who} will need {needs}, but {slots} are reserved for it: {_are(wait.free)} free"
    return f"{who} needs {slots}, and {_are(wait.free)} free"


def waiting(strip: StripState) -> str:
    """Who waits, the next one first."""
    queue = strip.state.waiting
    if not queue:
        return "nobody waits"
    return f"{listed(queue, 4)} wait{'s' if len(queue) == 1 else ''}"


def holes(strip: StripState) -> str:
    """The lengths of the holes, "9 + 11", where they matter."""
    lengths = [hole.length for hole in strip.holes]
    if len(lengths) > 4:
        return " + ".join(map(str, lengths[:3])) + " + …"
    return " + ".join(map(str, lengths)) or "none"


def story(strip: StripState) -> str:
    """What this moment did to the strip."""
    arrived = [e.request_id for e in strip.events if isinstance(e, ev.RequestArrived)]
    said = [f"{listed(arrived)} {_verb(arrived, 'arrives', 'arrive')}."] if arrived and strip.state.step else []
    came = [e.request_id for e in strip.events if isinstance(e, ev.RequestAdmitted)]
    for request_id in came[:2]:
        said.append(_came(strip, request_id))
    if len(came) > 2:
        said.append(f"So {'does' if len(came) == 3 else 'do'} {listed(came[2:])}.")
    thrown = [e.request_id for e in strip.events if isinstance(e, ev.RequestPreempted)]
    if thrown:
        said.append(f"No block was left: {listed(thrown)} had to give back all, and {_verb(thrown, 'waits', 'wait')}.")
    written = [e for e in strip.events if isinstance(e, ev.SlotWritten)]
    if written and not said:
        writers = list(dict.fromkeys(e.request_id for e in written))
        said.append(f"{listed(writers, 9)} wrote {plural(len(written), 'token')}.")
    new = [e for e in strip.events if isinstance(e, ev.BlocksAllocated) and e.request_id not in came]
    if new:
        each = listed([f"{e.request_id} #{listed(map(str, e.block_ids))}" for e in new])
        said.append(f"Its block was full, a new one for each: {each}." if len(new) > 1 else f"A new block: {each}.")
    done = [e.request_id for e in strip.events if isinstance(e, ev.RequestFinished)]
    if done:
        said.append(
            f"{listed(done)} {_verb(done, 'is', 'are')} finished, {_verb(done, 'its', 'their')} slots are free."
        )
    return " ".join(said)


def _came(strip: StripState, request_id: str) -> str:
    if strip.paged:
        blocks = strip.state.tables[request_id]
        apart = len(blocks) > 1 and any(b + 1 != c for b, c in zip(blocks, blocks[1:], strict=False))
        took = f"{'blocks' if len(blocks) > 1 else 'block'} {listed([f'#{b}' for b in blocks])}"
        return f"{request_id} took {took}" + (": they need not touch." if apart else ".")
    region = strip.state.regions[request_id]
    return f"{request_id} got {region.length} slots in a row, for {region.num_needed} tokens."


def table(strip: StripState) -> list[tuple[str, str]]:
    """(number, what it counts) of the strip's columns at the right."""
    state = strip.state
    lost = strip.num("external")
    return [
        (str(len(state.running)), "requests that run"),
        (str(strip.num("token")), "slots that hold a token"),
        (str(strip.num("reserved")), "slots held for tokens that will come"),
        (str(strip.num("internal")), "slots held for tokens that never will: internal fragmentation"),
        (str(lost), "free slots of no use to the one who waits: external fragmentation"),
    ]


COLUMNS = ("run", "tokens", "to come", "never", "lost")


def span_tip(strip: StripState, span: Span) -> str:
    where = f"slot {span.start}" if span.length == 1 else f"slots {span.start} to {span.end - 1}"
    if span.what == "free":
        return f"{name(strip)}: {where} free"
    what = {
        "token": f"hold {span.owner}'s tokens",
        "reserved": f"held for tokens of {span.owner} that will come",
        "internal": f"held by {span.owner} for tokens that never come",
    }[span.what]
    return f"{name(strip)}: {where} {what}"


def when(moment: Moment) -> str:
    what = {"room": "who comes in", "tokens": "tokens are written", "end": "who is finished"}[moment.phase]
    return f"step {moment.step}: {what}" if moment.step else "before the first step"


def next_button(moment: Moment | None) -> str:
    if moment is None:
        return "Next event"
    return {"room": "Let in who fits", "tokens": "Write their tokens", "end": "Let go who is finished"}[moment.phase]


def _people(strip: StripState) -> str:
    return listed(strip.state.running, 8) or "nobody"


def _verb(who: list[str], one: str, many: str) -> str:
    return one if len(who) == 1 else many


def _are(n: int) -> str:
    return f"{n} {'is' if n == 1 else 'are'}" if n else "none is"
