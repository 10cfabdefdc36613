"""What the fragmentation lab says: a pure function of the four strips at one moment."""

from __future__ import annotations

from collections.abc import Iterator

from pagedlab.trace import events as ev
from pagedlab.viz.kit.labels import listed, plural
from pagedlab.viz.strips.run import Moment, Span, StripState

NAMES = {
    "max": "Reserve the maximum",
    "power_of_two": "Reserve a power of two",
    "oracle": "Oracle: reserve what it will need",
    "paged": "Paged",
}
SHORT = {"max": "maximum", "power_of_two": "power of two", "oracle": "oracle", "paged": "paged"}


def name(strip: StripState) -> str:
    return f"Paged, blocks of {strip.block_size}" if strip.paged else NAMES[strip.kind]


def short_name(strip: StripState) -> str:
    return SHORT[strip.kind].capitalize()


def headlines(strip: StripState) -> list[str]:
    """The headline, and whose it is in front: there are four strips. In fewer and fewer words."""
    text = headline(strip)
    shorter = text.replace(" slots in a row", " in a row").replace(" slots, and", ", and")
    return [f"{short_name(strip)}: {text}", f"{short_name(strip)}: {shorter}", shorter]


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
        return f"{who} will need {needs}, but asks for {slots}, and {_are(wait.free)} free"
    return f"{who} needs {slots}, and {_are(wait.free)} free"


def waiting(strip: StripState) -> str:
    """Who waits, in the queue's order."""
    first, *rest = strip.state.waiting or [""]
    if not first:
        return "nobody waits"
    more = f", then {', '.join(rest[:7])}" if rest else ""
    return f"waiting: {first}{more}{f' … ({len(rest) + 1} in all)' if len(rest) > 7 else ''}"


def need(strip: StripState) -> list[str]:
    """What the head of the queue asks for, and what there is, in fewer and fewer words. Nothing where nobody waits."""
    if not strip.state.waiting:
        return []
    who, wait = strip.state.waiting[0], strip.wait
    slots = strip.asks_for(who)
    if strip.paged:
        wanted = f"{who} asks for {plural(slots // strip.block_size, 'block')}"
        return [f"{wanted}: {f'{_are(wait.free // strip.block_size)} free' if wait else 'it fits'}"]
    wanted = f"{who} asks for {slots:,} in a row"
    if wait is None:
        return [f"{wanted}: it fits"]
    if wait.scattered:
        return [f"{wanted}: longest hole {wait.longest:,}", f"{who}: {slots:,} in a row, longest {wait.longest:,}"]
    return [f"{wanted}: {_are(wait.free)} free"]


def holes(strip: StripState) -> str:
    """The lengths of the holes, "9 + 11", where they matter."""
    lengths = [hole.length for hole in strip.holes]
    if len(lengths) > 4:
        return " + ".join(map(str, lengths[:3])) + " + …"
    return " + ".join(map(str, lengths)) or "none"


def story(strip: StripState) -> str:
    """What this moment did to the strip."""
    return wordings(strip)[0]


def wordings(strip: StripState) -> list[str]:
    """The same in fewer and fewer words, for where there is no room."""
    return [" ".join(filter(None, sentences)) for sentences in zip(*_sentences(strip), strict=True)] or [""]


def _sentences(strip: StripState) -> Iterator[tuple[str, str, str]]:
    """Each thing that happened, in full, shorter, and as short as can be."""
    arrived = [e.request_id for e in strip.events if isinstance(e, ev.RequestArrived)]
    if arrived and strip.state.step:
        yield (f"{listed(arrived)} {_verb(arrived, 'arrives', 'arrive')}.",) * 3
    came = [e.request_id for e in strip.events if isinstance(e, ev.RequestAdmitted)]
    if came:
        yield _came(strip, came)
    thrown = [e.request_id for e in strip.events if isinstance(e, ev.RequestPreempted)]
    if thrown:
        yield (
            f"No block was left: {listed(thrown)} had to give back all, and {_verb(thrown, 'waits', 'wait')}.",
            f"No block was left: {listed(thrown)} gave back all.",
            f"{listed(thrown)} gave back all.",
        )
    written = [e for e in strip.events if isinstance(e, ev.SlotWritten)]
    if written and not (came or thrown or (arrived and strip.state.step)):
        who, tokens = list(dict.fromkeys(e.request_id for e in written)), plural(len(written), "token")
        short = f"{plural(len(who), 'request')} wrote {tokens}."
        yield f"{listed(who, 9)} wrote {tokens}.", short, short
    new = [e for e in strip.events if isinstance(e, ev.BlocksAllocated) and e.request_id not in came]
    if new:
        each = listed([f"{e.request_id} #{listed(map(str, e.block_ids))}" for e in new])
        who, got = [e.request_id for e in new], [f"#{b}" for e in new for b in e.block_ids]
        whole = f"{who[0]}'s block was" if len(who) == 1 else f"The blocks of {listed(who, 9)} were"
        one = f"it got {got[0]}" if len(got) == 1 else f"they got {listed(got, 9)}"
        yield (
            f"{whole} full, {one}.",
            f"New: {each}.",
            f"{plural(len(new), 'new block')}.",
        )
    done = [e.request_id for e in strip.events if isinstance(e, ev.RequestFinished)]
    if done:
        sentence = f"{listed(done)} {_verb(done, 'is', 'are')} finished"
        own = f"{sentence}, {_verb(done, 'its', 'their')} slots are free."
        # Named in the order in which the next one takes them.
        back = [f"#{b}" for b in strip.state.free if b in _given_back(strip, done)]
        yield (f"{sentence}: {listed(back)} are free again." if len(back) > 1 else own), own, f"{sentence}."


def _came(strip: StripState, who: list[str]) -> tuple[str, str, str]:
    """Who came in, and what they got."""
    if len(who) > 1:
        if strip.paged:
            got = [f"#{b}" for r in who for b in strip.state.tables[r]]
            took = f"took blocks {got[0]} to {got[-1]}" if got == _in_a_row(got) else f"took {len(got)} blocks"
            return f"{listed(who, 9)} {took}.", f"{len(who)} requests {took}.", f"{len(who)} came in."
        sizes = [strip.state.regions[r].length for r in who]
        needs = [str(strip.state.regions[r].num_needed) for r in who]
        alike = len(set(sizes)) == 1
        got = f"{sizes[0]} slots each" if alike else f"{listed(map(str, sizes), 9)} slots"
        full = f", for {listed(needs, 9)} tokens" if alike else ""
        return f"{listed(who, 9)} got {got}{full}.", f"{listed(who, 9)} got {got}.", f"{len(who)} came in."
    (request_id,) = who
    if strip.paged:
        blocks = strip.state.tables[request_id]
        apart = len(blocks) > 1 and any(b + 1 != c for b, c in zip(blocks, blocks[1:], strict=False))
        took = f"{request_id} took {'blocks' if len(blocks) > 1 else 'block'} {listed([f'#{b}' for b in blocks])}"
        return took + (": they need not touch." if apart else "."), f"{took}.", f"{request_id} came in."
    region = strip.state.regions[request_id]
    got = f"{request_id} got {region.length} slots"
    return f"{got} in a row, for {region.num_needed} tokens.", f"{got} in a row.", f"{got}."


def _given_back(strip: StripState, who: list[str]) -> set[int]:
    freed = [e for e in strip.events if isinstance(e, ev.BlocksFreed) and e.request_id in who]
    return {b for e in freed for b in (*e.to_head, *e.to_tail)}


def _in_a_row(blocks: list[str]) -> list[str]:
    first = int(blocks[0][1:])
    return [f"#{b}" for b in range(first, first + len(blocks))]


def table(strip: StripState) -> list[tuple[str, str]]:
    """(number, what it counts) of the strip's columns at the right."""
    state = strip.state
    lost = strip.num("external")
    return [
        (str(len(state.running)), "requests that run: those in memory"),
        (str(strip.num("token")), "slots that hold a token"),
        (str(strip.num("reserved")), "slots held already, for tokens that will come"),
        (str(strip.num("internal")), "slots held for tokens that never come: internal fragmentation"),
        (str(lost), "free slots: enough in sum for the one who waits, no hole is long enough: external fragmentation"),
    ]


COLUMNS = ("running", "tokens", "to come", "never", "lost")
GROUPS = ("slots held", "free")  # of the columns: the three after the first, the last


def span_tip(strip: StripState, span: Span) -> str:
    where = f"slot {span.start}" if span.length == 1 else f"slots {span.start} to {span.end - 1}"
    if span.what == "free":
        return f"{SHORT[strip.kind]}: {where} free"
    what = {
        "token": f"hold {span.owner}'s tokens",
        "reserved": f"held for {span.owner}'s tokens to come",
        "internal": f"held by {span.owner}, never used",
    }[span.what]
    return f"{SHORT[strip.kind]}: {where} {what}"


def when(moment: Moment, last: int | None = None) -> str:
    """``last``: the last step, where it is to be told."""
    what = {"room": "who comes in", "tokens": "tokens are written", "end": "who is finished"}[moment.phase]
    of = f" of {last}" if last else ""
    return f"step {moment.step}{of}: {what}" if moment.step else "before the first step"


def question(strip: StripState, after: StripState, who: str) -> str:
    """Where will ``who``, who is first to come in next, begin? ``after``: the strip when it is in."""
    comes = "comes in next" if who in strip.state.requests else "arrives next"
    if strip.paged:
        blocks = next(e.block_ids for e in after.events if isinstance(e, ev.BlocksAllocated) and e.request_id == who)
        takes = plural(len(blocks), "block")
    else:
        takes = f"{plural(after.state.regions[who].length, 'slot')} in a row"
    return f"{short_name(strip)}: {who} {comes} and takes {takes}. Where will its tokens begin? Click a free slot."


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
