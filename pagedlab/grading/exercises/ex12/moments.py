"""Part 12.2: does everybody read what they have, and do blocks hold what their names say?"""

from __future__ import annotations

import copy
import random
from typing import Any

from pagedlab.grading.exercises.ex12.moment import changed, honest_moments, small
from pagedlab.grading.part import Part, Property
from pagedlab.grading.plain import is_ints, show
from pagedlab.grading.tasks.ex12 import probes
from pagedlab.grading.tasks.ex12.probes import as_state
from pagedlab.trace.invariants import misreads, names


def _cases(rng: random.Random, seed: int) -> list[dict]:
    good = small()
    cases = [
        good,
        changed(good, slots={1: [["A", 2, 12], None]}, names={"1": ["h2", "h1", [12, 13]]}),
        changed(good, slots={4: [["C", 0, 30], None]}),
        changed(good, slots={4: [["B", 0, 22], None]}),
        changed(good, slots={2: [["C", 0, 10], ["C", 1, 19]]}),
        changed(good, slots={5: [None, ["A", 4, 14]]}),
        changed(good, slots={3: [["C", 0, 30], ["C", 1, 32]]}),
        changed(good, names={"4": ["h9", "h1", [22, 23]]}),
        changed(good, slots={5: [["A", 4, 14], ["X", 9, 99]]}),  # not computed yet, so not read
        changed(good, slots={2: [["A", 0, 10], ["A", 1, 99]]}),  # both read it, and it has a name
        changed(good, slots={2: [["A", 1, 11], ["A", 0, 10]]}),
        changed(good, slots={1: [["A", 0, 12], ["A", 1, 13]]}),  # the right tokens, for other positions
        changed(good, slots={1: [["B", 2, 12], ["B", 3, 13]]}),  # who wrote does not matter
        changed(good, slots={5: [["A", 4, 15], None]}),
        # Whoever has a table reads, whatever its status.
        changed(good, slots={5: [["A", 4, 15], None]}, requests={"A": [good["requests"]["A"][0], 5, "waiting"]}),
        changed(good, slots={5: [["A", 4, 13], None]}),
        changed(good, slots={5: [["A", 5, 14], None]}),
        changed(good, slots={5: [["A", 3, 14], None]}),
        changed(good, requests={"A": [good["requests"]["A"][0], 6, "running"]}),  # the last one is not there
        changed(good, requests={"A": [good["requests"]["A"][0], 0, "waiting"]}, slots={5: [["X", 9, 99], None]}),
        changed(good, slots={1: [["X", 0, 9], ["A", 3, 13]], 5: [None, None]}),  # two blocks of one request
        changed(good, slots={3: [["C", 5, 30], ["C", 9, 31]]}),  # a name says nothing of positions
        changed(good, names={"3": ["h3", None, [31, 30]]}),
        changed(good, names={"3": ["h3", None, [30]]}),
        changed(good, names={"3": ["h3", None, [30, 31, 32]]}),
        changed(good, slots={3: [["C", 0, 30], None]}),
        changed(good, slots={3: [None, None]}),
        changed(good, slots={3: [["C", 0, 29], ["C", 1, 31]]}),
        # A table that is too short for what is computed: as far as it goes, all is well; and not.
        changed(good, tables={"A": [2, 1]}),
        changed(good, tables={"A": []}),
        changed(good, tables={"A": [2, 1]}, slots={1: [["A", 2, 12], ["A", 3, 19]]}),
        # Token 0 is a token.
        changed(good, requests={"B": [[10, 11, 0], 3, "running"]}, slots={4: [["B", 2, 0], None]}),
        changed(good, slots={3: [["C", 0, 0], ["C", 1, 31]]}, names={"3": ["h3", None, [0, 31]]}),
    ]
    for draw in (random.Random("12.2"), rng):
        for moment in honest_moments(draw, 10):
            cases += [moment, _spoilt(draw, moment)]
    return cases


def _spoilt(rng: random.Random, moment: dict) -> dict:
    """One slot emptied, moved or overwritten."""
    moment = copy.deepcopy(moment)
    full = [(b, o) for b, slots in enumerate(moment["slots"]) for o, slot in enumerate(slots) if slot]
    if full:
        block, offset = rng.choice(full)
        slot = moment["slots"][block][offset]
        wrong = [None, [slot[0], slot[1] + 1, slot[2]], ["X", slot[1], slot[2] + 1]]
        moment["slots"][block][offset] = rng.choice(wrong)
    return moment


def _kept(case: dict, answer: dict) -> str | None:
    return "the state is another one after the calls" if answer["changed"] else None


def _reads(case: dict) -> set[tuple[str, int]]:
    return {(b.request_id, case["tables"][b.request_id].index(b.block_id)) for b in misreads(as_state(case))}


def _named(case: dict) -> set[int]:
    return {b.block_id for b in names(as_state(case))}


def _is_pairs(value: Any) -> bool:
    return type(value) is list and all(
        type(pair) is list and len(pair) == 2 and type(pair[0]) is str and type(pair[1]) is int for pair in value
    )


def _shape(case: dict, answer: dict) -> str | None:
    if not _is_pairs(answer["reads"]):
        return f"misreads gave {show(answer['reads'])}"
    return None if is_ints(answer["names"]) else f"false_names gave {show(answer['names'])}"


def _tell(case: dict, name: str, logical: int) -> str:
    tokens, computed, _ = case["requests"][name]
    size, block = case["block_size"], case["tables"][name][logical]
    slots = [slot and f"token {slot[2]} at position {slot[1]}" for slot in case["slots"][block]]
    return (
        f"{name} has the tokens {show(tokens, 60)}, {computed} of them computed; its logical block {logical} is block "
        f"{block} ({size} slots), which holds {', '.join(slot or 'nothing' for slot in slots)}"
    )


def _too_many_reads(case: dict, answer: dict) -> str | None:
    for name, logical in answer["reads"]:
        if (name, logical) not in _reads(case):
            if logical not in range(len(case["tables"].get(name, []))):
                return f"there is no logical block {logical} of {name}"
            return f"{_tell(case, name, logical)}: nothing is wrong, and you accuse it"
    return None


def _missed_reads(case: dict, answer: dict) -> str | None:
    for name, logical in sorted(_reads(case)):
        if [name, logical] not in answer["reads"]:
            return f"{_tell(case, name, logical)}: not in your list {show(answer['reads'])}"
    return None


def _tell_name(case: dict, block: int) -> str:
    tokens, found = case["names"][str(block)][2], [slot and slot[2] for slot in case["slots"][block]]
    return f"block {block} is named after the tokens {tokens} and holds {found}"


def _too_many_names(case: dict, answer: dict) -> str | None:
    for block in answer["names"]:
        if block not in _named(case):
            known = str(block) in case["names"]
            return f"{_tell_name(case, block) if known else f'block {block} has no name'}: yet you accuse it"
    return None


def _missed_names(case: dict, answer: dict) -> str | None:
    for block in sorted(_named(case)):
        if block not in answer["names"]:
            return f"{_tell_name(case, block)}: not in your list {show(answer['names'])}"
    return None


CONTENTS = Part(
    "12.2",
    "the contents: what is read, and what is named",
    2,
    ("misreads", "false_names"),
    _cases,
    probes.contents,
    (
        Property(
            "misreads returns pairs (request, logical block), false_names block numbers",
            _shape,
            ('For example [("A", 2)] and [5].',),
        ),
        Property(
            "who reads its own tokens is not accused",
            _too_many_reads,
            (
                "What is not computed yet is not read: only the first num_computed_tokens positions count.",
                "A found block was written by somebody else: what counts is the token and its position.",
            ),
        ),
        Property(
            "whoever reads something else than its own tokens, each at its own position, is found",
            _missed_reads,
            (
                "Go through the positions that are computed: which block and offset is each, and what lies there?",
                "A slot may be empty, hold another token, or the right token of another position.",
            ),
        ),
        Property(
            "a block that holds what its name says is not accused",
            _too_many_names,
            ("state.prefixes[name].token_ids are the tokens that a name stands for. Free blocks may have one too.",),
        ),
        Property(
            "a block that does not hold what its name says is found",
            _missed_names,
            (
                "Go through state.cached: which name has the block, and which tokens are in its slots?",
                "A block that is not full has no right to a name: somebody would find the empty slots.",
            ),
        ),
        Property("the state stays as it is", _kept, ("Only look: other functions look at the same state.",)),
    ),
)
