"""What the lab of shares says, in whole sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pagedlab.viz.kit.labels import listed, plural
from pagedlab.viz.shares.run import Step

Names = Mapping[str, str]
RULE = (
    "A step computes as many tokens as its budget allows, of all requests together. Those who run come first, in their "
    "order, then those who wait. Each gets what it has to compute, one token or a piece of a prompt, as far as it goes."
)


def headlines(step: Step | None, names: Names, budget: int | None) -> Sequence[str]:
    """The one thing to see, in fewer and fewer words."""
    if step is None:
        return ("Nothing has run yet",)
    if not step.shares:
        return (f"Step {step.number} computes nothing: it only takes in tokens", f"Step {step.number} computes nothing")
    total = f"{step.num_tokens:,}" if budget is None else f"{step.num_tokens:,} of {budget:,}"
    short = f"Step {step.number}: {total} tokens"
    chunks = [f"{share.num_tokens:,} of {names[r]}" for r, share in step.shares.items() if share.num_tokens > 1]
    ones = sum(share.num_tokens == 1 for share in step.shares.values())
    if not chunks:
        return (f"{short}, one of each who runs", short)
    others = [f"one each of {plural(ones, 'other')}"] if ones > 1 else ["one of another"] if ones else []
    return (f"{short}: {listed([*chunks, *others])}", f"{short}: {listed([*chunks, *others], 3)}", short)


def story(step: Step | None, names: Names) -> list[str]:
    """What happened in the step beside the shares."""
    if step is None:
        return [RULE]
    sentences = []
    for request_id, found in step.admitted.items():
        extra = f" and finds {found:,} of its tokens in memory" if found else ""
        sentences.append(f"{names[request_id]} comes in{extra}.")
    sentences += [f"{names[r]} has to make room: all of its tokens are to be computed again." for r in step.preempted]
    sentences += [_end(names[r], reason) for r, reason in step.finished.items()]
    return sentences


def _end(name: str, reason: str) -> str:
    return f"{name} is done." if reason == "length" else f"{name} is done (it ended by {reason})."


def overlap(steps: Sequence[Step], names: Names) -> list[str]:
    """What planning one step ahead changed in the last of these steps."""
    if not steps:
        return []
    step, before = steps[-1], steps[-2] if len(steps) > 1 else None
    if before is None:
        return ["Plan 1 has no step before it to wait for; its own is under way now, and nobody waits for that either."]
    sentences = []
    for request_id, reason in step.finished.items():
        name = names[request_id]
        if request_id in step.shares:
            sentences.append(
                f"{name} ended by {reason}. Plan {step.number} had been made with it, so one token too many is "
                "computed, and dropped."
            )
        elif reason == "length" and request_id not in step.preempted:
            sentences.append(
                f"{name}'s last token was under way when plan {step.number} was made: it is not in it, but its blocks "
                "were still taken."
            )
    for request_id in step.preempted:
        if request_id in step.finished:
            sentences.append(
                f"{names[request_id]} was thrown out while its last token was being sampled. It is done with that "
                "token, and does not come back."
            )
        elif request_id in before.shares:
            sentences.append(
                f"{names[request_id]} was thrown out while its token was being sampled. It keeps the token, and waits "
                "for it before it comes back."
            )
    early = [r for r, share in step.shares.items() if share.is_awaited and share.blocks]
    for request_id in early:
        blocks = " and ".join(f"#{block}" for block in step.shares[request_id].blocks)
        sentences.append(f"{names[request_id]} got block {blocks} for a token that nobody knew yet.")
    awaited = [names[r] for r, share in step.shares.items() if share.is_awaited]
    if awaited:
        sentences.append(f"Planned for tokens still being sampled (?): {listed(awaited)}.")
    return sentences
