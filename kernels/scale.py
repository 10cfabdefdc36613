"""Which factor on the scores can be meant? Said here for every way into a kernel; needs neither torch nor Triton."""

from pagedlab.errors import PagedlabError, is_real

# It is used in float32, where it must not be 0. A score is query · key · scale; were it infinite, the softmax would be
# NaN. With a scale up to here, and numbers as large as float16 has, none is: 65,504² · 512 (head size) · 1e25 < 3.4e38.
# Larger query · key, as float32 and bfloat16 can have, are the caller's.
SMALLEST, LARGEST = 2.0**-126, 1e25


def check_scale(scale: object) -> float:
    """``scale`` as a plain float. Raises PagedlabError for NaN, infinity, 0, what is negative, too large or no number.
    """
    if is_real(scale) and SMALLEST <= scale <= LARGEST:  # NaN is refused, too
        return float(scale)
    raise PagedlabError(
        f"scale is {scale!r:.60}; it must be a number from {SMALLEST:.1e} to {LARGEST:.0e}, so that a score is neither "
        "nothing nor infinite (1 / sqrt(head size) is usual)."
    )
