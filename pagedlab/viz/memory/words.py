"""What the memory map says."""

from __future__ import annotations

from typing import Any

from pagedlab.viz.kit.labels import plural
from pagedlab.viz.kit.narrator import in_brief, narrate
from pagedlab.viz.kit.scene import Scene, bytes_per_block, layers_of_a_block, num_ranks
from pagedlab.viz.kit.strip import step_text


def headline(scene: Scene, num_steps: int | None = None) -> str:
    """One sentence about the selected request. ``num_steps``: see ``title``."""
    state = scene.state
    if scene.selected is None:
        return "Before the first step" if num_steps or scene.num_steps else "No request yet: give the engine a prompt"
    request, table = state.requests[scene.selected], scene.table
    if request.status == "refused":
        return "was refused"
    if request.status == "finished":
        return f"finished: {plural(request.num_tokens, 'token')}, no blocks held"
    if not table:
        verb = "preempted" if request.status == "preempted" else "waiting"
        return f"{verb}: {plural(request.num_tokens, 'token')}, none in memory"
    held = [sum(block_id != 0 for block_id in of_group) for of_group in scene.tables]
    left = len(table) * state.block_size - request.num_computed_tokens
    tokens = plural(request.num_computed_tokens, "token")
    if scene.swapped:
        return f"swapped out: {tokens} in {plural(len(table), 'CPU block')}"
    if scene.selected in state.regions:
        return f"{tokens} in {plural(len(table), 'slot')} in one piece, {left} left"
    blocks = plural(len(table), "block") if not scene.has_groups else f"{' + '.join(map(str, held))} blocks"
    return f"{tokens} in {blocks}, {plural(left, 'slot') if left else 'no slot'} left"


def title(scene: Scene, num_steps: int | None = None) -> str:
    """The picture in one line, for a screen reader and as the static picture's name. ``num_steps``: how many there are
    by now, where the scene does not know."""
    num_steps = scene.num_steps if num_steps is None else num_steps
    who = f"{scene.names[scene.selected]}: " if scene.selected is not None else ""
    where = step_text(scene.position, num_steps, scene.live, can_step=False)
    return f"Memory map, {where}. {who}{headline(scene, num_steps)}"


def scale(header: dict[str, Any], block_size: int) -> str:
    """What one block is in bytes, or its slice on one of several ranks; empty where the header does not tell."""
    total, s = bytes_per_block(header, block_size), header.get("model_shape")
    if total is None:
        return ""
    heads, what, where = s["num_kv_heads"], "block", ""
    if (ranks := num_ranks(header)) > 1:  # with more ranks than KV heads each has a copy of one
        here = max(1, heads // ranks)
        total, heads, what, where = total // heads * here, here, "slice", " a rank"
    amount = f"{total / 2**20:.3g} MiB" if total >= 2**20 else f"{total / 2**10:.4g} KiB"
    return (
        f"1 {what} = {plural(block_size, 'token')} × {plural(layers_of_a_block(s), 'layer')} × 2 (K, V) × "
        f"{plural(heads, 'head')} × {s['head_size']} numbers × {s['bytes_per_element']} bytes = {amount}{where}"
    )


def story(scene: Scene, shorter: int = 0) -> tuple[str, str]:
    """What the step did: about the selected request, and in brief about the others (``shorter``: see ``in_brief``)."""
    if shorter not in scene.stories:
        scene.stories[shorter] = _story(scene, shorter)
    return scene.stories[shorter]


def _story(scene: Scene, shorter: int) -> tuple[str, str]:
    whole = scene.selected if shorter < 3 else None  # of whom all is told
    mine = narrate(scene.events, scene.state, whole).get(scene.selected, "") if scene.selected else ""
    others = in_brief(scene.events, scene.state, scene.selected, shorter)
    if not mine and not others:
        return ("Nothing has happened yet." if scene.position == 0 else "This step changed nothing in memory."), ""
    return (mine, others) if mine else (others, "")
