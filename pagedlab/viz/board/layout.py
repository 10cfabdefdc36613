"""Where the marks of the knobs lab lie: the card's memory under the chosen knobs, and what each run came to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pagedlab.viz.board.run import KNOBS, MAX_NUM_BATCHED_TOKENS, MEASURES, KnobRun
from pagedlab.viz.kit.areas import Area
from pagedlab.viz.kit.badge import badge_marks, badge_width
from pagedlab.viz.kit.head import LEFT, RIGHT
from pagedlab.viz.kit.labels import number, plural
from pagedlab.viz.kit.marks import Mark
from pagedlab.viz.kit.text import fitted, measure, width

SIZE = (960.0, 488.0)
BAR = (106.0, 34.0)  # of the card's memory: top and height
SHORT = {
    "gpu_memory_utilization": "util",
    "block_size": "block",
    "enable_prefix_caching": "cache",
    "max_num_seqs": "seqs",
}
COLUMNS = 8  # runs that are kept
TABLE_LEFT = 216.0
BETTER = {"concurrency": "↑", "preemptions": "↓", "computed": "↓", "waste": "↓", "table": "↓"}
ROWS, ROW = 282.0, 33.0  # the first measure's baseline, and the distance of the next
STRIP = (238.0, 440.0)  # top and bottom of the columns
GIB = 1 << 30
AREAS = (
    Area((0, 0, 960, 76)),
    Area((0, 76, 960, BAR[0] - 82)),
    Area((0, BAR[0] - 6, 960, BAR[1] + 12), "chart", (LEFT, RIGHT)),
    Area((0, BAR[0] + BAR[1] + 6, 960, 48)),
    Area((0, 190, 960, STRIP[0] - 194)),
    Area((0, STRIP[0] - 4, 960, 34)),
    Area((0, STRIP[0] + 30, 960, STRIP[1] - STRIP[0] - 26), "table", heads=((TABLE_LEFT, STRIP[0], 744, 18),)),
    Area((0, STRIP[1] + 4, 960, 44)),
)


def knob(name: str, value: object) -> str:
    return f"{SHORT[name]} {('on' if value else 'off') if isinstance(value, bool) else f'{value:g}'}"


def settings(run: KnobRun) -> str:
    """All four knobs, by their full names."""
    parts = [f"{name} {('on' if v else 'off') if isinstance(v, bool) else f'{v:g}'}" for name, v in run.knobs.items()]
    return " · ".join(parts)


def changes(run: KnobRun, first: KnobRun) -> list[str]:
    """What is not as in the first run."""
    same_card = (run.plan.card, run.plan.model) == (first.plan.card, first.plan.model)
    changed = [] if same_card else [run.plan.card if run.plan.card != first.plan.card else run.plan.model]
    return changed + [knob(name, run.knobs[name]) for name in KNOBS if run.knobs[name] != first.knobs[name]]


def verdict(run: KnobRun | None) -> str:
    """One sentence of what the knobs led to."""
    if run is None:
        return "No run yet: set the knobs and run."
    if not run.ran:
        if run.plan.outcome == "fits":
            return "The pool is too small for one request."
        return run.summary.split(":")[0] + "."
    m = run.measured
    times = f"{number(int(m['preemptions']))} preemption{'' if m['preemptions'] == 1 else 's'}"
    return f"{m['concurrency']:.1f} requests at once, {times}."


def value(kind: str, amount: float) -> str:
    if kind in ("preemptions", "computed"):
        return f"{amount:,.0f}"
    return f"{amount:.1f}" + (" %" if kind == "waste" else "")


def marks(run: KnobRun | None, badge: str, num_requests: int) -> list[Mark]:
    out = list(_head(run, badge))
    if run is not None:
        out += [*_card(run), *_scale(run, num_requests), *_column(run), *_under(run)]
    return out


def _head(run: KnobRun | None, badge: str) -> Iterator[Mark]:
    wrong = run is not None and not run.ran
    title = verdict(run) if run is None else f"Run {run.number}: {verdict(run)}"
    room, cls = RIGHT - badge_width(badge, "s11 soft") - 16 - LEFT, "s18 bold alarm" if wrong else "s18 bold"
    yield Mark("headline", (LEFT, 36), f"text {cls}", fitted(title, room, cls))
    if badge:
        tip = f"What made these figures: {badge}"
        yield from badge_marks(badge, badge.startswith("live"), RIGHT, 20, "s11 soft", tip=tip)
    if run is not None:
        yield Mark("knobs", (LEFT, 60), "text mono s11", fitted(settings(run), RIGHT - LEFT, "s11 mono"))


def _card(run: KnobRun) -> Iterator[Mark]:
    """The card's memory as one bar, and the sum in words."""
    plan, (top, height) = run.plan, BAR
    b, g = plan.budget, plan.held
    yield Mark("card.title", (LEFT, top - 12), "text s11 bold", "COMPUTED")
    where = f"for {plan.card}, {b.card / GIB:.1f} GiB, and {plan.model}: a sum, nothing ran there"
    yield Mark("card.what", (LEFT + 84, top - 12), "text s11 soft", where)
    parts = [
        ("others", "other programs", g.others * GIB, "card null tiny"),
        ("context", "context", g.context * GIB, "card null tiny"),
    ]
    if plan.outcome == "out of memory":  # it asks before it knows what it needs, and beside what is held already
        parts.append(("asked", "asked for", b.allowed, "cell rule alarm"))
    else:
        rest = b.allowed - b.weights - b.activations - b.other
        parts += [
            ("graphs", "CUDA graphs", g.graphs * GIB, "card null tiny"),
            ("weights", "weights", b.weights, "cell sharp c7"),
            ("activations", "activations", b.activations, "cell sharp c3"),
            ("pool", "KV pool", max(0, rest) if plan.outcome == "fits" else 0, "cell sharp c2"),
        ]
    used = sum(amount for _, _, amount, _ in parts)
    scale = (RIGHT - LEFT) / max(b.card, used)
    tip = f"{plan.card}: {b.card / GIB:.1f} GiB"
    yield Mark("card", (LEFT, top, b.card * scale, height), "card free tiny", tip=tip)
    x, small = LEFT, []  # those too narrow for their name are told under the bar
    for name, label, amount, cls in parts:
        w = amount * scale
        if w <= 0:
            continue
        text = f"{label} {amount / GIB:.1f}"
        yield Mark(f"card.{name}", (x, top, w, height), cls, tip=f"{label}: {amount / GIB:.2f} GiB")
        if measure(text, "s11") < w - 8:
            on = "on" if cls.startswith("cell") else "soft"
            yield Mark(f"card.{name}.t", (x + w / 2, top + height / 2 + 4), f"text s11 mid {on}", text)
        elif name == "activations":
            yield Mark(f"card.{name}.t", (x + w / 2, top + height + 14), "text s10 soft mid", text)
        else:
            small.append(text)
        x += w
    if small:
        yield Mark("card.small", (LEFT, top + height + 14), "text s10 soft", f"{', '.join(small)} (assumed)")
    edge = LEFT + b.card * scale
    if x > edge + 0.5:
        yield Mark("card.over", (edge, top, x - edge, height), "over sharp")
        yield Mark("card.edge", (edge - 1, top - 6, 2, height + 12), "top playhead")
        yield Mark("card.edge.t", (edge, top - 9), "text s10 bold end", "the card ends here")
    if plan.outcome == "out of memory":
        sentence = fitted(run.summary, RIGHT - LEFT, "s11 bold")
        yield Mark("card.sum", (LEFT, top + height + 32), "text s11 alarm bold", sentence)
        return
    allowed = LEFT + (g.others * GIB + b.allowed) * scale
    yield Mark("card.allowed", (allowed - 0.8, top - 4, 1.6, height + 8), "top playhead")
    share = f"{run.knobs['gpu_memory_utilization']:g} of it"
    place = (min(allowed, RIGHT), top + height + 14)
    side = "end" if allowed > RIGHT - width(share, 10) else "mid"
    yield Mark("card.share", place, f"text s10 bold {side}", share)
    fits = plan.outcome == "fits"
    sentence = fitted(_sums(run), RIGHT - LEFT, f"s11{' bold' if not fits else ''}")
    yield Mark("card.sum", (LEFT, top + height + 32), "text s11" if fits else "text s11 alarm bold", sentence)


def _sums(run: KnobRun) -> list[str]:
    """The pool's size, worked out in words; and in fewer. With two decimals, so that the sum is right as it stands."""
    plan = run.plan
    b, g = plan.budget, plan.held
    if plan.outcome != "fits":
        return [run.summary]
    worked_out = (
        f"{run.knobs['gpu_memory_utilization']:g} × {b.card / GIB:.2f} − {b.weights / GIB:.2f} weights − "
        f"{b.activations / GIB:.2f} activations − {g.context + g.graphs:.2f} context and graphs"
    )
    tokens = f"{b.num_blocks - 1:,} × {plan.block_size} = {plan.num_tokens:,} tokens"
    return [
        f"{worked_out} = {b.pool / GIB:.2f} GiB: {b.num_blocks:,} blocks, {but}{tokens}"
        for but in ("one is the null block: ", "without #0 ")
    ]


def _scale(run: KnobRun, num_requests: int) -> Iterator[Mark]:
    """What this machine serves of it: every figure divided by one number."""
    y, n, c = STRIP[0] - 34, run.fraction, run.config
    yield Mark("scale.rule", (LEFT, y - 17, RIGHT - LEFT, 1), "card track")
    yield Mark("scale.title", (LEFT, y), "text s11 bold", "MEASURED")
    if not c:
        yield Mark("scale.what", (LEFT + 84, y), "text s11 soft", "nothing ran with these knobs")
        return
    what = f"real runs of this engine with 1/{n} of it, on a tiny random model: its text means nothing"
    yield Mark("scale.what", (LEFT + 84, y), "text s11 soft", what)
    requested = run.knobs["max_num_seqs"]
    parts = [
        f"{c['num_gpu_blocks_override']:,} blocks ({run.plan.budget.num_blocks:,} ÷ {n}), one is the null block",
        f"at most {c['max_num_seqs']:,} at once ({requested:,} ÷ {n})",
        f"{c['max_num_batched_tokens']:,} tokens a step ({MAX_NUM_BATCHED_TOKENS:,} ÷ {n})",
        f"{plural(num_requests, 'request')} ({num_requests * n:,} ÷ {n})",
    ]
    yield Mark("scale.parts", (LEFT, y + 18), "text s11 soft", fitted(" · ".join(parts), RIGHT - LEFT, "s11"))


def _under(run: KnobRun) -> Iterator[Mark]:
    """Under the columns: why as many tokens were computed, and what the memory map below shows."""
    if not run.ran:
        return
    m = run.measured
    text = f"{m['needed']:,} tokens of all requests"
    text += f" − {m['found']:,} found in the prefix cache" if m["found"] else ""
    text += f" + {m['again']:,} lost to preemption" if m["again"] else ""
    yield Mark("under.computed", (LEFT, STRIP[1] + 19), "text s11 soft", f"{text} = {m['computed']:,} computed")
    yield Mark("under.title", (LEFT, STRIP[1] + 37), "text s11 bold", "BELOW")
    text = f"the memory of run {run.number}, opened at step {run.opening} of {run.steps}: {run.why}"
    yield Mark("under.what", (LEFT + 84, STRIP[1] + 37), "text s11 soft", text)


def _column(run: KnobRun) -> Iterator[Mark]:
    """An outline around the chosen run's column."""
    pitch = (RIGHT - TABLE_LEFT) / COLUMNS
    x = TABLE_LEFT + (run.column - 1) * pitch
    yield Mark("column", (x + 1, STRIP[0], pitch - 3, STRIP[1] - STRIP[0]), "over sharp")


def strip_marks(runs: Sequence[KnobRun]) -> list[Mark]:
    """The runs, a column each: what was changed, and a bar for each kind. Bars of a row have one scale."""
    out = [Mark("scales", (LEFT, STRIP[0] + 14), "text s8 soft", "bars: each row has a scale of its own")]
    if len(runs) > 1:
        out.append(Mark("beside", (LEFT, STRIP[0] + 26), "text s9 soft", f"what differs from run {runs[0].number}"))
    for i, (kind, (name, unit)) in enumerate(MEASURES.items()):
        y = ROWS + i * ROW
        better = f"{BETTER[kind]} better"
        out.append(Mark(f"row.{i}.better", (TABLE_LEFT - 14, y + 4), "text s8 soft end", better))
        out.append(Mark(f"row.{i}", (LEFT, y + 4), "text s11 bold", name))
        out.append(Mark(f"row.{i}.unit", (LEFT, y + 17), "text s8 soft", unit))
        out.append(Mark(f"row.{i}.line", (LEFT, y - 11, RIGHT - LEFT, 1), "card track"))
    most = {m: max([r.measured[m] for r in runs if r.ran], default=0) or 1 for m in MEASURES}
    pitch = (RIGHT - TABLE_LEFT) / COLUMNS
    for column, run in enumerate(runs):
        x, room = TABLE_LEFT + column * pitch + 7, pitch - 16
        id = f"run.{run.number}"
        out.append(Mark(id, (x, STRIP[0] + 14), "text s11 bold", f"run {run.number}"))
        changed = changes(run, runs[0]) if column else [run.plan.card]
        changed = changed or ["the same"]
        shown = changed[0] if len(changed) == 1 else f"{changed[0]} +{len(changed) - 1}"
        out.append(Mark(f"{id}.what", (x, STRIP[0] + 26), "text s9 soft", fitted(shown, room + 4, "s9")))
        for i, kind in enumerate(MEASURES):
            y = ROWS + i * ROW
            if not run.ran:
                words = run.outcome.rsplit(" ", 1)  # in two lines
                if i < 2:
                    out.append(Mark(f"{id}.none.{i}", (x, ROWS + 5 + 14 * i), "text s10 bold alarm", words[i]))
                continue
            amount = run.measured[kind]
            out.append(Mark(f"{id}.{kind}", (x, y + 4), "text mono s11 bold", value(kind, amount)))
            w = max(1.0, room * amount / most[kind]) if amount else 0
            out.append(Mark(f"{id}.{kind}.track", (x, y + 9, room, 6), "card track"))
            if w:
                out.append(Mark(f"{id}.{kind}.bar", (x, y + 9, w, 6), "cell sharp c0"))
    return out
