"""`python -m pagedlab.bench.table`: the README's table of figures, made from the raw figures in `measured/`.

`pagedlab bench NAME --out pagedlab/bench/measured/NAME.json` makes those. Nothing in the table is typed by hand.
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path
from typing import Any

from pagedlab.bench.machine import machine_line
from pagedlab.errors import PagedlabError

MEASURED = Path(__file__).parent / "measured"
START, END = "<!-- figures: start (python -m pagedlab.bench.table writes this) -->", "<!-- figures: end -->"


def load(folder: Path = MEASURED) -> dict[str, dict[str, Any]]:
    """Every benchmark's raw figures by its name; what was measured case by case in several files comes together."""
    found: dict[str, dict[str, Any]] = {}
    for path in sorted(folder.glob("*.json")):
        result = json.loads(path.read_text())
        name = result["benchmark"]
        if name in found and "cases" in result:
            found[name]["cases"] |= result["cases"]
        else:
            found[name] = result
    return found


TRANSFORMERS = "engine --against transformers"


def table(found: dict[str, dict[str, Any]]) -> str:
    """Markdown. What was not measured is named under it. Raises PagedlabError where nothing was."""
    if not set(found) & set(ROWS):
        raise PagedlabError(
            f"There are no figures of {', '.join(sorted(ROWS))}; measure with pagedlab bench NAME --out FILE."
        )
    rows = [("measured", "figure", "`pagedlab bench …`")]
    for name, make in ROWS.items():
        rows += make(found[name]) if name in found else []
    lines = [f"| {' | '.join(row)} |" for row in rows]
    lines.insert(1, "|---|---|---|")
    machine = next(of["machine"] for name, of in found.items() if name in ROWS and "machine" in of)
    versions = f"; transformers {found[TRANSFORMERS]['transformers']}" if TRANSFORMERS in found else ""
    lines[:0] = [f"The real model in fp32 on a CPU ({machine_line(machine)}{versions}):", ""]
    missing = ", ".join(name for name in ROWS if name not in found)
    return "\n".join([*lines, "", f"Not measured yet: {missing}."] if missing else lines)


def _engine(result: dict[str, Any]) -> list[tuple[str, str, str]]:
    rows = []
    for name, case in sorted(result["cases"].items()):
        faster = case["times_faster"]
        text = f"{case['tokens_per_second']['pagedlab']:.0f} tokens/s, {100 * case['of_bound']:.0f} % of the bound; "
        text += f"{faster['padded']:.1f} times transformers' padded batch, {faster['continuous']:.1f} times its "
        text += "continuous batching"
        rows.append((f"({name}) {case['words']}", text, "`engine`"))
    return rows


def _vllm(result: dict[str, Any]) -> list[tuple[str, str, str]]:
    rows = []
    version = result["vllm"]["eager"]["vllm"]
    for name, case in sorted(result["cases"].items()):
        faster, rates = case["times_faster"], case["tokens_per_second"]
        text = f"{rates['pagedlab']:.0f} tokens/s, vLLM {version} eager {rates['eager']:.0f}, compiled "
        text += f"{rates['compiled']:.0f}: {faster['eager']:.2f} and {faster['compiled']:.2f} times as fast as it"
        rows.append((f"({name}) beside vLLM, on the same CPU", text, "`engine --against vllm`"))
    return rows


def _paging(result: dict[str, Any]) -> list[tuple[str, str, str]]:
    parts = [f"{at['ratio']:.2f} times at context {int(context):,}" for context, at in result["contexts"].items()]
    words = f"a decode step of {result['batch']} requests over scattered blocks, against contiguous K and V"
    return [(words, ", ".join(parts), "`paging`")]


def _startup(result: dict[str, Any]) -> list[tuple[str, str, str]]:
    m = result["medians"]
    text = f"{m['import_pagedlab']:.2f} s; {m['first_token']:.1f} s; {m['doctor']:.1f} s"
    text += f" (`import torch` alone: {m['import_torch']:.1f} s)"
    return [("`import pagedlab`; cached model to first token; `pagedlab doctor`", text, "`startup`")]


def _memory(result: dict[str, Any]) -> list[tuple[str, str, str]]:
    text = f"{result['taken_over_weights_and_pool']:.2f}; {result['growth_bytes'] / 1e6:.1f} MB"
    words = f"peak memory over weights plus pool; growth in {result['decode_steps']:,} decode steps"
    return [(words, text, "`memory`")]


def _scaling(result: dict[str, Any]) -> list[tuple[str, str, str]]:
    largest = max(s["batch"] for s in result["shares"])
    plain, both = (next(s for s in result["shares"] if s["batch"] == largest and s["recorded"] is on)
                   for on in (False, True))
    text = f"{plain['scheduler']:.2%}; {both['scheduler'] + both['recorder']:.2%}"
    points = {(p["batch"], p["context"]): statistics.median(p["seconds"]) for p in result["step_seconds"]}
    (batch, context), (most, longest) = min(points), max(points)
    growth = f"{1e3 * points[batch, context]:.0f} ms to {1e3 * points[most, longest]:,.0f} ms"
    return [
        (f"the scheduler's share of a step at batch {largest}; with the recorder", text, "`scaling`"),
        (f"a decode step, from batch {batch} at context {context} to batch {most} at context {longest:,}", growth,
         "`scaling`"),
    ]


def _labs(result: dict[str, Any]) -> list[tuple[str, str, str]]:
    ours, plotly, labs = result["memory_map"], result["plotly"], result["labs"]
    text = f"{ours['without_engine_ms']:.0f} ms without the engine's step, {ours['of_plotly']:.2f} of plotly's "
    text += f"{plotly['update_ms']:.0f} ms"
    times = sorted((lab["step_ms"], name) for name, lab in labs.items())
    (least, first), (most, last) = times[0], times[-1]
    every = f"{least:.0f} ms (`{first}`) to {most:.0f} ms (`{last}`)"
    return [
        (f"a click in a memory map of {result['blocks']} blocks, to the painted picture", text, "`labs`"),
        (f"a step of a run that is over, in each of the {len(labs)} labs", every, "`labs`"),
    ]


ROWS = {
    TRANSFORMERS: _engine, "engine --against vllm": _vllm, "paging": _paging, "startup": _startup, "memory": _memory,
    "scaling": _scaling, "labs": _labs,
}  # fmt: skip


def write(readme: Path, folder: Path = MEASURED) -> bool:
    """Put the table between its two marks in the README. True where that changed something."""
    text = readme.read_text()
    if text.count(START) != 1 or text.count(END) != 1:
        raise PagedlabError(f"{readme.name} must have the two lines {START} and {END}, once each.")
    before, after = text.split(START)[0], text.split(END)[1]
    new = f"{before}{START}\n{table(load(folder))}\n{END}{after}"
    readme.write_text(new)
    return new != text


if __name__ == "__main__":
    try:
        write(Path(sys.argv[1] if len(sys.argv) > 1 else "README.md"))
    except PagedlabError as error:
        sys.exit(str(error))
