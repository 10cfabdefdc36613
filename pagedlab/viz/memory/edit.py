"""Changing a run: take hold of a table entry, or live the run again from here with something else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pagedlab.errors import PagedlabError
from pagedlab.trace import MemoryState
from pagedlab.trace.compare import compare
from pagedlab.trace.invariants import broken
from pagedlab.viz.kit import labels, panes
from pagedlab.viz.kit.panes import Part
from pagedlab.viz.kit.text import clip

RUN_ON = 60  # steps that a branch is run on at most
# Knobs that can be changed in a branch, and how their text is read.
KNOBS: dict[str, Callable[[str], Any]] = {
    "num_gpu_blocks_override": int,
    "block_size": int,
    "max_num_seqs": int,
    "max_num_batched_tokens": int,
    "enable_prefix_caching": lambda text: {"true": True, "false": False}[text.lower()],
    "preemption": str,
}


def grab_pane(state: MemoryState, selected: str | None, at_end: bool, can_undo: bool) -> list[Part]:
    """The keyboard's way to drag an entry, undo, and which rules of memory are broken now."""
    parts = []
    if selected in state.tables and at_end:
        table = state.tables[selected]
        parts.append(panes.text("Drag a row of the block table onto a block, or say it here; then take a step."))
        entries = [f"{i} → #{b}" for i, b in enumerate(table)]
        parts.append(
            panes.form(
                "remap",
                "Point it there",
                panes.field("entry", f"{selected}'s entry", entries[-1], entries),
                panes.field("block", "to block #", "", [b for b in range(state.num_blocks)]),
            )
        )
    elif not at_end:
        parts.append(panes.text("The past cannot be edited. Go to the last step, or branch here."))
    else:
        parts.append(panes.text("Select a running request: only what is in memory can be pointed elsewhere."))
    return [*parts, *_consequences(state, can_undo)]


def cow_pane(state: MemoryState, at_end: bool, can_undo: bool) -> list[Part]:
    """Copy-on-write off and on (the paper's era), undo, and which rules of memory are broken now."""
    shared = [
        f"#{table[-1]} of {request_id}"
        for request_id, table in state.tables.items()
        if state.ref_cnt[table[-1]] > 1 and state.requests[request_id].num_computed_tokens % state.block_size
    ]
    if state.copy_on_write:
        says = "On: whoever is about to write into a block that others hold too gets a copy of it first."
    else:
        says = "Off: nobody gets a copy. Whoever writes last into a shared block has overwritten the others."
    parts = [panes.text(says)]
    if shared:
        parts.append(panes.text(f"Shared now, with room to write into: {labels.listed(shared)}."))
    if at_end:
        switch = ("switch off", "Switch copy-on-write off", False)
        parts.append(panes.buttons(switch if state.copy_on_write else ("switch on", "Switch it on again", False)))
    else:
        parts.append(panes.text("The past cannot be edited. Go to the last step, or branch here."))
    return [*parts, *_consequences(state, can_undo)]


def _consequences(state: MemoryState, can_undo: bool) -> list[Part]:
    parts = []
    if can_undo:
        parts.append(panes.buttons(("undo", "Undo the edit and the steps since", False)))
    rules = broken(state)
    if rules:
        parts.append(panes.text("Broken now:", alarm=True))
        parts += [panes.text(rule, alarm=True) for rule in rules[:8]]
        if len(rules) > 8:
            parts.append(panes.text(f"… and {len(rules) - 8} more.", alarm=True))
    elif state.edited:
        parts.append(panes.text("Every rule holds again, but this is no honest run any more."))
    return parts


ONE_MORE = "one more request"


def branch_pane(
    state: MemoryState,
    config: dict[str, Any],
    position: int,
    prompts: Sequence[str],
    result: list[Part],
    branched: bool,
) -> list[Part]:
    """What to change, and (once it ran) how the two runs compare. ``prompts``: the requests whose prompts can be
    replaced."""
    known = [name for name in KNOBS if name in config and (name != "preemption" or config.get("era") == "paper")]
    now = {name: config["num_blocks"] if name == "num_gpu_blocks_override" else config[name] for name in known}
    fields = [
        panes.field("knob", "Knob", "(none)", ["(none)", *(f"{name} (now {now[name]})" for name in known)]),
        panes.field("value", "becomes", ""),
        panes.field("whose", "Prompt of", ONE_MORE, [ONE_MORE, *(f"{r}, instead of its own" for r in prompts)]),
        panes.field("prompt", "reads", "", wide=True),
    ]
    if len(state.running) > 1:
        fields.append(panes.field("victim", "Next victim", "(none)", ["(none)", *state.running]))
    what = (
        f"The run is lived again to step {position} on a second engine, changed, and run on; this one stays as it is."
    )
    parts = [panes.text(what), panes.form("branch", f"Branch at step {position}", *fields), *result]
    if branched:
        parts.append(panes.buttons(("swap", "Show the other run", False)))
    return parts


def numbers(values: dict[str, str]) -> tuple[int, int]:
    """A form's values as (logical block, physical block). Raises PagedlabError where they are no numbers."""
    entry, block = values.get("entry", "").split(" ")[0], values.get("block", "").strip()
    try:
        return int(entry), int(block)
    except ValueError:
        what = f"block #{block!r}" if entry.isdecimal() else f"entry {entry!r}"
        raise PagedlabError(f"There is no {what}; choose an entry, and give a block's number, such as 5.") from None


def changes(values: dict[str, str]) -> dict[str, Any]:
    """A form's values as arguments of ``driver.branch``. Raises PagedlabError where nothing is to be changed or a value
    cannot be read."""
    arguments: dict[str, Any] = {}
    knob = values.get("knob", "").split(" ")[0]
    if knob in KNOBS:
        try:
            arguments[knob] = KNOBS[knob](values.get("value", "").strip())
        except (ValueError, KeyError):
            kind = "true or false" if knob == "enable_prefix_caching" else "a number"
            raise PagedlabError(f"{knob} cannot become {values.get('value')!r}; give {kind}.") from None
    if values.get("prompt", "").strip():
        whose, prompt = values.get("whose", ONE_MORE), values["prompt"].strip()
        if whose == ONE_MORE:
            arguments["prompt"] = prompt
        else:
            arguments["replace"] = {whose.removesuffix(", instead of its own"): prompt}
    if values.get("victim", "(none)") != "(none)":
        arguments["victim"] = values["victim"]
    if not arguments:
        raise PagedlabError("Nothing is changed yet: choose a knob and its value, a prompt, or a victim.")
    return arguments


def run_on(
    driver: Any, at: int, arguments: dict[str, Any], progress: Callable[[int, int], None]
) -> tuple[Any, list[Part]]:
    """The branch, run to its end or ``RUN_ON`` steps, and a table that compares it with the same run unchanged.

    ``progress(done, of)`` is called after each step.
    """
    branch, same = driver.branch(at, **arguments), driver.branch(at)
    done, total = 0, 2 * RUN_ON
    for one in (same, branch):
        for _ in range(RUN_ON):
            if not one.step():
                break
            done += 1
            progress(done, total)
        done = RUN_ON
    found = compare(same.trace, branch.trace)
    where = (
        f"Memory is not the same from step {found.first} on." if found.first else "Memory is the same at every step."
    )
    rows = [[name, *("–" if value is None else value for value in pair)] for name, *pair in found.rows]
    rows.sort(key=lambda row: row[1] == row[2])
    rows = [*_answers(same.state(), branch.state()), *rows]
    branch.seek(min(at, branch.num_steps))
    text = panes.text(f"Changed: {_summary(arguments)}. {where}")
    return branch, [text, panes.table(["", "as it was", "changed"], rows)]


def _summary(arguments: dict[str, Any]) -> str:
    parts = [f"{name}: {value}" for name, value in arguments.items() if name != "replace"]
    parts += [f"{request_id}'s prompt: {prompt}" for request_id, prompt in arguments.get("replace", {}).items()]
    return labels.listed(parts)


def _answers(one: MemoryState, two: MemoryState) -> list[list[str]]:
    """What each request's answer has come to in both runs, where it is not the same."""
    rows = []
    for request_id in dict.fromkeys([*one.requests, *two.requests]):
        texts = []
        for state in (one, two):
            request = state.requests.get(request_id)
            answer = "".join(request.texts[request.num_prompt_tokens :]) if request else "–"
            texts.append(clip(labels.printable(answer.replace("\\n", "↵")).strip() or "–", 60))
        if texts[0] != texts[1]:
            rows.append([f"{request_id} said", *texts])
    return rows
