"""The table of the fragmentation lab, under the name by which chapter 04 imports it."""

from pagedlab.viz.strips.table import comparison

__all__ = ["comparison"]
