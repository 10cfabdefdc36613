"""Prints a line for each part; ends with 1 where a mutant survives that is not listed, or hangs on the draw."""

from __future__ import annotations

import argparse
import sys
import time

import torch

from mutants.table import row
from pagedlab.grading.part import EXERCISES, load_exercise


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="mutants", description=__doc__)
    parser.add_argument("wanted", nargs="*", help="an exercise (06) or a part (07.2); nothing for all")
    parser.add_argument("--sample", type=int, help="so many mutants of each part, always the same, and a few listed")
    options = parser.parse_args(argv)
    torch.set_num_threads(1)  # a fork has none of the threads that its parent had
    clean = True
    print("part   mutants  killed  equivalent  by luck  survivors  stale  seconds")
    for number in EXERCISES:
        for part in load_exercise(number).parts:
            if part.missing() or (options.wanted and not {number, part.name} & set(options.wanted)):
                continue
            started = time.monotonic()
            found = row(part.name, sample=options.sample)
            counts = (len(found.by_luck), len(found.survivors), len(found.stale))
            print(f"{part.name} {found.made:>8} {found.killed:>7} {found.equivalent:>11}", end=" ")
            print("{:>8} {:>10} {:>6}".format(*counts), f"{time.monotonic() - started:>8.0f}", flush=True)
            for what, changes in (("by luck", found.by_luck), ("stale", found.stale)):
                for one in changes:
                    print(f"  {what}: {one.was!r} → {one.now!r}")
            for one in found.survivors:
                print(f"\n{one.as_toml()}", flush=True)
            clean = clean and found.clean
    return 0 if clean else 1


if __name__ == "__main__":
    sys.exit(main())
