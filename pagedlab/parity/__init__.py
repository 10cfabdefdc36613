"""Does ours do what vLLM does? Recordings of the real one, replayed against the classes that our engine runs on.

There is no second implementation in here: the replay drives :class:`pagedlab.kv.KVCacheManager`, for several groups
:class:`pagedlab.kv.groups.GroupedKVCacheManager`, :class:`pagedlab.engine.Scheduler`, for the paper's era
:class:`pagedlab.kv.paper.BlockSpaceManager`, and for recordings of vLLM's whole engine :class:`pagedlab.engine.LLM`
with the real model, and compares what they did with what the recording says, in every field."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from pagedlab.errors import PagedlabError, as_path
from pagedlab.parity.report import Difference, read_lines
from pagedlab.terminal import Progress, printable, printable_lines

GOLDEN = Path(__file__).parent / "golden"
LIVE = "LLMEngine on CPU"


def in_package() -> list[Path]:
    """The recordings that come with the package: those of whole engines, which take longest, at the end."""
    return sorted(GOLDEN.glob("*.jsonl.gz"), key=lambda path: ("sync-" in path.name, path.name))


def compare_file(
    path: Path, progress: Progress | None = None, tensor_parallel_size: int | None = None
) -> tuple[str, Difference | None]:
    """What the file is, in words, and the first difference (None: identical). ``progress`` is told where it takes
    longer than a moment. ``tensor_parallel_size``: ranks that the model runs on, for greedy continuations. Raises
    PagedlabError for anything unreadable."""
    from pagedlab.parity import groups_trace, kv_trace, paper_trace, sched_trace

    path = as_path(path)
    lines = read_lines(path)
    header = lines[0]
    if "prompt_ids" in header and "output_ids" in header:
        from pagedlab.parity import greedy  # loads torch and the model

        over = f", over {tensor_parallel_size} ranks" if tensor_parallel_size else ""
        difference = greedy.compare(path, lines, tensor_parallel_size=tensor_parallel_size)
        return f"{len(lines)} greedy continuations, alone and batched{over}", difference
    if tensor_parallel_size is not None:
        raise PagedlabError(f"{path} holds no greedy continuations; leave --tensor-parallel-size out for it.")
    engine = header.get("engine")
    if header.get("kind") == "header" and isinstance(engine, str) and engine.endswith(LIVE):
        from pagedlab.parity import live_trace  # loads torch and the model

        difference, near_ties = live_trace.compare(path, header, lines[1:], progress)
        ties = f"; near ties taken as recorded: {near_ties}" if near_ties else ""
        return f"{len(lines) - 1} lines of {engine}{ties}", difference
    kinds: dict[str, tuple[str, Any]] = {
        "KVCacheManager": ("operations", kv_trace.compare),
        "V1 Scheduler": ("steps", sched_trace.compare),
        "BlockSpaceManager": ("operations", paper_trace.compare),
        "KVCacheManager, groups": ("operations", groups_trace.compare),
    }
    for name, (unit, compare) in kinds.items():
        if header.get("kind") == "header" and isinstance(engine, str) and engine.endswith(name):
            return f"{len(lines) - 1} {unit} of {engine}", compare(path, header, lines[1:])
    raise PagedlabError(
        f"{path} is of no known kind (its first line names engine {engine!r}). Known: recordings of vLLM's "
        f"{', '.join(kinds)}, {LIVE}, and greedy continuations (prompt_ids, output_ids)."
    )


def run(paths: list[Path], tensor_parallel_size: int | None = None) -> int:
    """Compare each file and print the outcome. Returns 0 where all are identical, 1 where one is different, 2 where
    one cannot be read (standard error says why); the others are compared all the same."""
    status, progress = 0, Progress()
    for path in paths:
        progress.say(f"{path.name} …")
        try:
            what, difference = compare_file(path, progress, tensor_parallel_size)
        except PagedlabError as error:
            progress.say("")
            print(f"pagedlab: {printable(str(error))}", file=sys.stderr, flush=True)
            status = 2
            continue
        progress.say("")
        if difference is None:
            print(printable(f"{path}: identical ({what})"), flush=True)
        else:
            print(printable_lines(f"{path}: DIFFERENT ({what})\n{difference}"), flush=True)
            status = max(status, 1)
    return status
