"""A graded submission as text for a terminal."""

from __future__ import annotations

from pagedlab.grading.grade import Result


def as_text(result: Result) -> str:
    """One line a check, why where points are missing, the total, and what was put right."""
    lines = [f"{result.path}  ({result.exercise}, saved {result.saved})"]
    for check in result.checks:
        mark = "✗" if check.reason else "✓"
        lines.append(f"  {mark} {check.name}  {check.earned} of {check.points}  {check.title}")
        if check.reason:
            lines.append(f"      {check.reason}")
    lines += [f"  note: {note}" for note in result.notes]
    lines.append(f"  {result.earned} of {result.points} points, graded in {result.seconds:.1f} s")
    return "\n".join(lines)
