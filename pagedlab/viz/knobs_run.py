"""The runs of the knobs lab, under the name by which chapter and exercise 09 import them."""

from pagedlab.viz.board.run import run_knobs, workload

__all__ = ["run_knobs", "workload"]
