"""The second pool, under the first: where the blocks of swapped-out requests wait. Only the paper's era has it."""

from __future__ import annotations

from collections.abc import Iterator

from pagedlab.viz.kit import labels
from pagedlab.viz.kit.flow import Flow
from pagedlab.viz.kit.marks import Mark
from pagedlab.viz.kit.scene import Scene
from pagedlab.viz.kit.text import fitted, measure

CPU_ROOM = 52.0  # height
CELL = (56.0, 15.0)
PER_LINE, LINES = 6, 2
WIDTH = 376.0


def cpu_marks(scene: Scene, at: tuple[float, float], sign: str = "#") -> Iterator[Mark]:
    """A title, and a small card for each block that is in use (as many as fit), in the order of their numbers, with
    ``sign`` in front of them."""
    cpu, (left, top) = scene.state.cpu, at
    if not cpu.num_blocks:
        return
    used = sorted(scene.cpu_owners)
    says = f"swapped out: {len(used)} of {cpu.num_blocks:,} blocks" if used else f"{cpu.num_blocks:,} blocks, all free"
    yield from Flow(left, top + 14).text("cpu.title", "CPU MEMORY", "s11 bold soft").text("cpu.says", says, "s11 soft")
    shown = used if len(used) <= PER_LINE * LINES else used[: PER_LINE * LINES - 1]
    for i, block_id in enumerate(shown):
        line, column = divmod(i, PER_LINE)
        x, y = left + column * (CELL[0] + 6), top + 19 + line * (CELL[1] + 3)
        owners = scene.cpu_owners[block_id]
        mine = scene.selected in owners
        who = scene.selected if mine else owners[0]
        hue = scene.hue(who)
        number = f"{sign}{block_id}"
        held = f"CPU block #{block_id}, swapped out from {labels.listed(scene.names[r] for r in owners)}"
        yield Mark(f"cpu.{block_id}", (x, y, *CELL), f"card owned{' mine' if mine else ''} {hue} tiny", tip=held)
        yield Mark(f"cpu.{block_id}.n", (x + 4, y + 11), f"text mono s9 {'bold' if mine else 'soft'}", number)
        names = labels.crowd([scene.names[r] for r in sorted(owners, key=lambda r: r != who)])
        name = fitted(names, CELL[0] - 9 - measure(number, "s9 mono"), "s9 bold")
        yield Mark(f"cpu.{block_id}.owner", (x + CELL[0] - 4, y + 11), f"text s9 bold end hue {hue}", name)
    if len(shown) < len(used):
        yield Mark("cpu.more", (left + WIDTH, top + 49), "text s10 soft end", f"+{len(used) - len(shown)}")
