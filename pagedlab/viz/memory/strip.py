"""The strip of time: each row a physical block, each column a step, coloured by owner. It is also the scrubber."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

from pagedlab.viz.kit import labels
from pagedlab.viz.kit.flow import Flow
from pagedlab.viz.kit.history import KEPT, History, Run
from pagedlab.viz.kit.marks import Mark
from pagedlab.viz.kit.strip import Strip, step_text
from pagedlab.viz.kit.text import fitted, measure, width

LEFT, RIGHT = 60.0, 936.0
TOP, BOTTOM = 390.0, 500.0
LOW = set("acegmnopqrsuvwxyz")  # letters without a part that rises
MOST_ROWS = 50  # two pixels each
LETTER = 4.4  # the lowest row that has room for one
HIGHEST = 13.0  # of a row, with the gap below it


def drawn(history: History, num_columns: int) -> Strip:
    """The strip with everything on it."""
    time = Strip(LEFT, TOP, RIGHT - LEFT, BOTTOM - TOP, num_columns)
    time.marks = marks(history, time)
    return time


def marks(history: History, time: Strip) -> list[Mark]:
    """Everything but the playhead."""
    blocks = list(range(int(history.state.has_null_block), history.state.num_blocks))
    caption = "each row a physical block, each column a step"
    if len(blocks) > 13:
        used = sorted(b for b, runs in history.runs.items() if runs and (b or not history.state.has_null_block))
        caption = f"each row a physical block ({len(used):,} of {len(blocks):,} used so far), each column a step"
        blocks = used
    per_row = max(1, math.ceil(len(blocks) / MOST_ROWS))
    if per_row > 1:
        rows_are = f"each row {per_row} blocks in the hue of who holds most"
        caption = caption.replace("each row a physical block", rows_are)
    rows = [blocks[i : i + per_row] for i in range(0, len(blocks), per_row)]
    out = [
        Mark("time.title", (24, 377), "text s11 bold soft", "TIME"),
        Mark("time.caption", (LEFT, 377), "text s11 soft", caption),
    ]
    if not rows:
        return [*out, Mark("time.row.0", (LEFT, TOP, RIGHT - LEFT, 8), "card track")]
    pitch = min(HIGHEST, (BOTTOM - TOP) / len(rows))
    height = pitch - (2 if pitch >= 9 else 1 if pitch >= 4 else 0.3)
    every = math.ceil(8.0 / pitch)  # not every row has room for its number
    names, hues = labels.names(history.state.requests), labels.family_hues(history.state.requests)
    groups: dict[tuple[tuple[str, ...], int], list[list[tuple[int, float]]]] = {}
    for i, row in enumerate(rows):
        y = TOP + i * pitch
        out.append(Mark(f"time.row.{row[0]}", (LEFT, y, RIGHT - LEFT, height), "card track"))
        if i % every == 0:
            out.append(
                Mark(f"time.row.{row[0]}.n", (LEFT - 8, y + height / 2 + 3), "text mono s8 soft end", f"#{row[0]}")
            )
        for run in _runs(history, row):
            last = history.num_steps if run.last is None else run.last
            left, right = time.x_of(run.first - 1), time.x_of(last)
            id = f"run.{row[0]}.{run.first}"
            if run.owner == KEPT:
                out.append(Mark(id, (left, y + height * 0.3, right - left, height * 0.4), "cell sharp ghost"))
                continue
            owners = run.owners or (run.owner,)
            out += _shared(id, (left, y, right - left, height), [f"c{hues[r]}" for r in owners])
            # Neighbouring rows that tell the same story share a letter where each is too low for one.
            group = groups.setdefault((owners, run.first), [])
            if group and group[-1][-1][0] == i - 1 and height < LETTER:
                group[-1].append((i, right))
            else:
                group.append([(i, right)])
    for (owners, first), parts in groups.items():
        for part in parts:
            left, room = time.x_of(first - 1), min(right for _, right in part)
            tall = (len(part) - 1) * pitch + height
            small, size = tall < 7.5, 9.5 if height >= 10 else 8.0
            ways = labels.crowd([names[r] for r in owners])
            text = next((t for t in ways if room - left >= width(t, size, bold=True) + 6), "")
            if tall >= LETTER and text:
                top, id = TOP + part[0][0] * pitch, f"run.{rows[part[0][0]][0]}.{first}"
                if len(owners) > 1:  # letters are not read on stripes
                    place = (left + 1, top, width(text, size, bold=True) + 4, tall)
                    out.append(Mark(f"{id}.tag", place, "cell sharp tag"))
                cls = f"text {'s6' if small else 's9' if size > 9 else 's8'} bold" + (" on" if len(owners) == 1 else "")
                down = 2.4 if small else 3.4 if size > 9 else 3
                if set(text) <= LOW and set(text) & set("gpqy"):  # they would hang out of their bar
                    down -= 1.2
                out.append(Mark(f"{id}.t", (left + 3, top + tall / 2 + down), cls, text))
    return [*out, *_key(history, measure(caption, "s11") if per_row == 1 else None)]


def _shared(id: str, box: tuple[float, float, float, float], hues: list[str]) -> list[Mark]:
    """A cell of the strip; split into stripes, one an owner and at most three, where several hold the block."""
    x, y, w, h = box
    shown = hues[: min(3, max(1, int(h / 2)))]
    gap = 0.8 if len(shown) > 1 and h >= 5 else 0.0  # so that stripes of one hue (a family) are seen as two
    each = (h - gap * (len(shown) - 1)) / len(shown)
    return [
        Mark(f"{id}.{k}" if k else id, (x, y + k * (each + gap), w, each), f"cell sharp {hue}")
        for k, hue in enumerate(shown)
    ]


def _key(history: History, caption: float | None) -> list[Mark]:
    """What a split bar and a thin one mean, once there are any, and who is not among the requests any more."""
    if caption is None:
        return []
    runs = [run for _, of in sorted(history.runs.items()) for run in of]
    line, y, out = Flow(LEFT + caption + 14, 377), 369.0, []
    if shared := next((run.owners for run in runs if len(run.owners) > 1), ()):
        hues = labels.family_hues(history.state.requests)
        out += _shared("time.key.shared", (line.x, y, 16, 8), [f"c{hues[r]}" for r in shared[:2]])
        line.skip(21).text("time.key.shared.w", "split: held by several", "s10 soft")
    if any(run.owner == KEPT for run in runs):
        line.sign("time.key.kept", (16, 3.2), "cell sharp ghost", up=5.6)
        line.text("time.key.kept.w", "cached, free", "s10 soft")
    names, requests = labels.names(history.state.requests), history.state.requests
    seen = {r for run in runs for r in run.owners}
    gone = [names[r] for r in requests if r in seen and requests[r].status == "finished"]
    # Which step it is stands at the right end; that changes with the cursor, and this does not.
    num_steps = history.num_steps
    longest = step_text(num_steps - 1, num_steps, live=True, can_step=True)
    room = RIGHT - measure(longest, "s12 bold") - 12 - line.x
    if gone:
        ways = (f"{', '.join(gone)}: finished earlier", f"finished earlier: {len(gone)}", "")
        line.text("time.key.gone", fitted(ways, room, "s10"), "s10 soft")
    return [*out, *line]


def _runs(history: History, row: list[int]) -> Iterator[Run]:
    """A row's runs. Where it stands for several blocks: at each step the owner of most of them."""
    if len(row) == 1:
        yield from history.runs.get(row[0], [])
        return
    changes = sorted(
        {
            edge
            for b in row
            for run in history.runs.get(b, [])
            for edge in (run.first, (run.last or history.num_steps) + 1)
        }
    )
    before: Run | None = None
    for first, after in zip(changes, [*changes[1:], history.num_steps + 1], strict=True):
        owners = Counter(
            run.owner
            for b in row
            for run in history.runs.get(b, [])
            if run.owner != KEPT and run.first <= first and (run.last is None or run.last >= first)
        )
        owner = max(owners, key=owners.__getitem__) if owners else None
        if before and before.owner == owner and before.last == first - 1:
            before.last = after - 1
            continue
        if before:
            yield before
        before = Run(owner, first, after - 1) if owner is not None and after > first else None
    if before:
        yield before
