"""Where the parts of the memory map lie, in pixels."""

from pagedlab.viz.kit.head import LEFT, RIGHT

SIZE = (960.0, 510.0)
TOP, BOTTOM = 84.0, 290.0  # of the three columns
SEEN = (46.0, 316.0)  # x and width: what the request sees
TABLE = (392.0, 128.0)
POOL = (560.0, 376.0)

__all__ = ["BOTTOM", "LEFT", "POOL", "RIGHT", "SEEN", "SIZE", "TABLE", "TOP"]
