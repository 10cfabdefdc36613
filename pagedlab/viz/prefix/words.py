"""What the prefix lab says: what the step did, what the learner's prompt would find, and why its walk ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pagedlab.trace import MemoryState
from pagedlab.trace import events as ev
from pagedlab.viz.kit import labels
from pagedlab.viz.kit.labels import listed, ordinal, plural, quoted
from pagedlab.viz.kit.narrator import in_brief
from pagedlab.viz.kit.text import fitted
from pagedlab.viz.prefix.tree import difference
from pagedlab.viz.walk import Lookup, block_ids, num_hit


@dataclass
class Scene:
    """What one picture depends on. ``lookups``: the prompt's blocks; of these ``looked_up`` have been looked up so far.
    ``costs``: of each request that came in."""

    state: MemoryState
    events: Sequence[ev.Event]
    lookups: list[Lookup]
    looked_up: int
    badge: str
    live: bool
    attached: bool
    costs: list[Cost]
    pieces: Mapping[int, str]  # a token's text, where some request has told it
    names: dict[str, str] = field(init=False)
    hues: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        self.names = labels.names(self.state.requests)
        self.hues = labels.hues(self.state.requests)

    def words(self, token_ids: Sequence[int]) -> str:
        """The tokens' text, with a sign for a space at either end; their numbers where a text is not known."""
        if not all(t in self.pieces for t in token_ids):
            return " ".join(map(str, token_ids))
        text = "".join(self.pieces[t] for t in token_ids)
        inner = text.strip(" ")
        before, _, after = text.partition(inner) if inner else (text, "", "")
        inner = labels.printable(inner.replace("\\n", "↵").replace("\n", "↵").replace("\t", "⇥"))
        return "␣" * len(before) + inner + "␣" * len(after)

    @property
    def ended(self) -> bool:
        """Has the walk come to its end?"""
        return all(lookup.outcome not in ("hit", "last", "miss") for lookup in self.lookups[self.looked_up :])

    @property
    def now(self) -> Lookup | None:
        """The block looked up last: what is behind the walk's end, or not full, never is."""
        done = [x for x in self.lookups[: self.looked_up] if x.outcome in ("hit", "last", "miss")]
        return done[-1] if done else None


@dataclass(frozen=True)
class Cost:
    """What the prompt of one request came to: ``seconds`` from its arrival to its first token, in steps that ran the
    model; None where it has none yet, or where nobody measured it."""

    request_id: str
    num_prompt: int
    num_found: int
    seconds: float | None


def headline(scene: Scene, room: float = 1000.0) -> str:
    """What the step did to the blocks that can be found again, in one line of at most ``room`` pixels."""
    return fitted(_happened(scene), room, "s18 bold")


def _happened(scene: Scene) -> tuple[str, ...]:
    """Ways to say it, the longest first. Who came in is told before who went."""
    state, names, events = scene.state, scene.names, scene.events
    if scene.attached:
        return (f"{plural(len(state.prefixes), 'full block')} can be found by {_their(len(state.prefixes))} tokens",)
    admitted = {e.request_id: e.num_computed_tokens for e in events if isinstance(e, ev.RequestAdmitted)}
    arrived = [e.request_id for e in events if isinstance(e, ev.RequestArrived)]
    left = [e for e in events if isinstance(e, ev.BlocksFreed) and e.pool == "gpu"]
    lost = [f"#{e.block_id}" for e in events if isinstance(e, ev.BlockEvicted)]
    full = [f"#{e.block_id}" for e in events if isinstance(e, ev.BlockCached)]
    if admitted:
        found, total = sum(admitted.values()), sum(state.requests[r].num_prompt_tokens for r in admitted)
        back = any(state.requests[r].num_preemptions for r in admitted)
        one = len(admitted) == 1
        verb = "come" if back else "arrive" if set(admitted) <= {*arrived} else "start"
        verb += ("s" if one else "") + (" back" if back else "")
        of = f"{found or 'none'} of {'its' if one else 'their'} {plural(total, 'token')} found"
        if back:
            of = f"{plural(found, 'token')} found again" if found else "no token found again"
        rest = f", {total - found} to compute" if found and not back else ""
        sentence = f"{listed(names[r] for r in admitted)} {verb}: {of}"
        return f"{sentence}{rest}", sentence, f"{plural(len(admitted), 'request')} {verb}: {of}", of
    if left:
        who, blocks = [names[e.request_id] for e in left], {b for e in left for b in e.block_ids}
        ways = {"finished": ev.RequestFinished, "preempted": ev.RequestPreempted}
        gone = {w: {e.request_id for e in events if isinstance(e, kind)} for w, kind in ways.items()}
        kept, one = sum(b in state.cached for b in blocks), len(left) == 1
        what = next((w for w, ids in gone.items() if {e.request_id for e in left} <= ids), "gone")
        of = f"{kept or 'none'} of {'its' if one else 'their'} {plural(len(blocks), 'block')} can be found again"
        be = "is" if one else "are"
        return f"{listed(who)} {be} {what}: {of}", f"{plural(len(who), 'request')} {be} {what}: {of}", of
    if arrived:
        verb = "arrives and waits" if len(arrived) == 1 else "arrive and wait"
        return f"{listed(names[r] for r in arrived)} {verb}", f"{plural(len(arrived), 'request')} {verb}"
    if full or lost:
        sentences = []
        if full:
            sentences.append(f"{listed(full)} {'is' if len(full) == 1 else 'are'} full and can be found from now on")
        sentences += [f"{listed(lost)} {'is' if len(lost) == 1 else 'are'} handed out again, and can be found no more"]
        return sentences[0], f"{plural(len(full or lost), 'block')} {'full' if full else 'lost'} in this step"
    return ("No block was found, filled or lost in this step" if events else "Nothing has run yet",)


def _their(n: int) -> str:
    return "its" if n == 1 else "their"


def result(scene: Scene) -> str:
    """What the learner's prompt would find: a question to memory as it is now, no part of the run."""
    if not scene.lookups:
        return "type one below: what would be found of it?"
    hit, total = num_hit(scene.lookups[: scene.looked_up]), sum(len(x.token_ids) for x in scene.lookups)
    if not scene.ended:
        return f"if you sent it now: {plural(hit, 'token')} found so far"
    return f"if you sent it now: {hit or 'none'} of {plural(total, 'token')} found, {total - hit} to compute"


def why(scene: Scene) -> str:
    """Of the block looked up last: what was found, or the first token that is not the same."""
    if (now := scene.now) is None:
        return "No block of it is full, so none is looked up." if scene.lookups and scene.ended else ""
    sentence = f"Block {now.logical}: {verdict(now, scene)}"
    if now.outcome != "miss":
        return f"{sentence}."
    if (other := difference(scene.state, scene.lookups)) is None:
        before = scene.lookups[now.logical - 1].block_id if now.logical else None
        where = "begins a prompt" if not now.logical else "follows" + (f" #{before}" if before else " it")
        return f"{sentence}: no hashed block {where}."
    block_id = block_ids(scene.state).get(other.block_hash)
    there = "the nearest" if block_id is None else f"#{block_id}"
    if other.index is None:
        return f"{sentence}: {there} has the same tokens, but under a salt."
    mine, theirs = (scene.words([t]) for t in (other.token_id, other.other_token_id))
    return f"{sentence}. Its {ordinal(other.index + 1)} token is {quoted(mine)}, in {there} it is {quoted(theirs)}."


def title(scene: Scene, step: str) -> str:
    answer = f" Your prompt, {result(scene)}." if scene.lookups else ""
    return f"Prefix hits, {step}. {headline(scene)}.{answer}"


def story(scene: Scene, shorter: int = 0) -> str:
    """What the step did. ``shorter``: see ``in_brief``."""
    if scene.attached:
        stored = sum(isinstance(e, ev.PrefixStored) for e in scene.events)
        removed = sum(isinstance(e, ev.PrefixRemoved) for e in scene.events)
        missed = sum(e.num_missed for e in scene.events if isinstance(e, ev.BatchReceived))
        summary = f"The server cached {plural(stored, 'block')} and evicted {removed or 'none'}."
        batches = "1 batch" if missed == 1 else f"{missed} batches"
        return f"{summary} {batches} never came: the tree may be wrong." if missed else summary
    return in_brief(scene.events, scene.state, shorter=shorter) or "This step changed nothing in memory."


def in_short(lookup: Lookup) -> str:
    if lookup.outcome == "hit":
        return "hit, revived" if lookup.revives else "hit"
    return {"last": "computed again", "miss": "miss: stop", "partial": "not full: no hash", "after": "not looked up"}[
        lookup.outcome
    ]


def verdict(lookup: Lookup, scene: Scene) -> str:
    where = f"in #{lookup.block_id}" if lookup.block_id is not None else "in memory"
    match lookup.outcome:
        case "hit" if lookup.revives:
            return f"found {where}, out of the free queue"
        case "hit" if lookup.block_id is not None:
            owners = listed(scene.names[r] for r in scene.state.owners(lookup.block_id))
            return f"found {where}, shared with {owners}"
        case "hit":
            return f"found {where}"
        case "last":
            return f"{where}, but the last token's logits are needed: computed again"
        case "miss":
            return "not in memory, so the walk ends"
        case "partial":
            return "not full, so it has no hash"
    return "behind the first miss: not looked up"
