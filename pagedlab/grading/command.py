"""What ``pagedlab grade`` does with its arguments: grade, print, write."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from tqdm import tqdm

from pagedlab.errors import PagedlabError
from pagedlab.grading import class_report, class_table, cluster, report
from pagedlab.grading.classroom import Graded, Refused, find, grade_all
from pagedlab.grading.grade import Result, grade
from pagedlab.terminal import printable, width


def run(
    paths: Sequence[str | Path],
    *,
    json_path: str | Path | None = None,
    junit_path: str | Path | None = None,
    out: str | Path | None = None,
    min_score: float | None = None,
    seed: int | None = None,
    jobs: int | None = None,
    scheduler: str | None = None,
    workers: int | None = None,
) -> int:
    """What ``pagedlab grade`` does: grade, print, write, and return an exit status.

    0: graded; 1: ``min_score`` (percent) was not reached by every notebook; 2: something could not be graded.
    ``json_path``, ``junit_path``: the same as data; ``out``: a folder for the class table, the report and the
    feedback. ``scheduler``, ``workers``: grade on a Dask cluster (``cluster.py``), and keep each grade in ``out`` as it
    comes. Raises PagedlabError for arguments that cannot be right.
    """
    if not paths:
        raise PagedlabError(
            "Nothing to grade: give at least one notebook, for example exercises/03_block_table.ipynb."
        )
    if min_score is not None and not 0 <= min_score <= 100:
        raise PagedlabError(f"min_score is {min_score}; it is a percentage, from 0 to 100.")
    if seed is not None and not 0 <= seed < 10**9:
        raise PagedlabError(f"seed is {seed}; it is a number from 0 to 999,999,999.")
    if jobs is not None and jobs < 1:
        raise PagedlabError(f"jobs is {jobs}; at least one notebook is graded at a time.")
    if workers is not None and workers < 1:
        raise PagedlabError(f"workers is {workers}; at least one worker grades.")
    if (scheduler, workers, jobs).count(None) < 2:
        raise PagedlabError("Of --scheduler, --workers and --jobs give one: each says where the notebooks are graded.")
    _check_targets(paths, json_path, junit_path)
    for target in (json_path, junit_path):
        report.check_writable(target)
    if out is not None:
        class_table.make_folders(Path(out))

    if scheduler is not None or workers is not None:
        graded = _on_cluster(paths, seed, scheduler, workers, None if out is None else Path(out) / "kept")
    else:
        graded = _with_progress(paths, seed, jobs)
    results = [one.outcome for one in graded if isinstance(one.outcome, Result)]
    refused = [one.outcome for one in graded if isinstance(one.outcome, Refused)]
    for result in results:
        print(report.as_text(result))
    for one in refused:
        print(one.reason, file=sys.stderr)
    if len(graded) > 1:
        print(report.closing_lines(graded))
    if json_path is not None:
        report.write(json_path, report.as_json(graded))
    if junit_path is not None:
        report.write(junit_path, report.as_junit(graded))
    if out is not None:
        print(f"class table and feedback: {class_table.write(graded, Path(out))}")
        class_report.write(graded, Path(out))
    if refused:
        return 2
    below = min_score is not None and any(100 * result.earned < min_score * result.points for result in results)
    return 1 if below else 0


def _check_targets(paths: Sequence[str | Path], *targets: str | Path | None) -> None:
    """Raises PagedlabError where a result would be written over a notebook, or over the other result."""
    given = [os.path.realpath(target) for target in targets if target is not None]
    if len(set(given)) < len(given):
        raise PagedlabError(f"{given[0]} was named for both results; give each a file of its own.")
    for _, file in [entry for path in paths for entry in find(Path(path))]:
        if not isinstance(file, Refused) and os.path.realpath(file) in given:
            raise PagedlabError(f"{file} is to be graded; the result would be written over it. Name another file.")


def _bar() -> Callable[..., tqdm]:
    # Widths and heights are stated, because a terminal that does not know its own would get no bar.
    return partial(tqdm, disable=None, leave=False, ncols=width(100), nrows=20)


def _on_cluster(
    paths: Sequence[str | Path], seed: int | None, scheduler: str | None, workers: int | None, keep: Path | None
) -> list[Graded]:
    """Grade, with a line on standard error for each as it ends."""
    total = sum(len(find(Path(path))) for path in paths)
    with _bar()(total=total, unit="notebook", desc="graded") as bar:
        count = Counter[str]()

        def say(sentence: str) -> None:
            bar.write(printable(sentence), file=sys.stderr)

        def ended(one: Graded, where: str) -> None:
            kept, graded = where == "kept", isinstance(one.outcome, Result)
            count.update(ended=1, kept=kept, graded=graded and not kept)
            how = f"  {one.outcome.seconds} s at {where}" if graded and not kept else f"  ({where})" * bool(where)
            say(f"[{count['ended']} of {total}] {report.line(one)}{how}")
            bar.update()

        try:
            graded = cluster.grade_on_cluster(
                paths, scheduler=scheduler, workers=workers, seed=seed, keep=keep, ended=ended, say=say
            )
        except KeyboardInterrupt:
            done = count["graded"] + count["kept"]
            kept = "nothing is kept without --out" if keep is None else "the same command grades the rest"
            say(f"Stopped: {done} of {total} notebooks are graded; {kept}.")
            raise
    if count["kept"]:
        say(f"{count['kept']} of {total} notebooks had been graded before; {count['graded']} were graded now.")
    return graded


def _with_progress(paths: Sequence[str | Path], seed: int | None, jobs: int | None) -> list[Graded]:
    """Grade, with a bar on standard error where a person looks at it."""
    bar = _bar()
    found = [entry for path in paths for entry in find(Path(path))]
    if len(found) == 1 and not isinstance(found[0][1], Refused):
        learner, path = found[0]
        with bar(bar_format="{desc:24}{bar:20} {n_fmt} of {total_fmt}, {elapsed}") as line:

            def show(done: int, of: int, what: str) -> None:
                line.total, line.n = of, done
                line.set_description_str(what)

            try:
                return [Graded(learner, grade(path, seed=seed, progress=show))]
            except PagedlabError as error:
                return [Graded(learner, Refused(str(path), str(error)))]
    with bar(total=len(found), unit="notebook", desc="graded") as line:
        return grade_all(paths, seed=seed, jobs=jobs, one_more=line.update)
