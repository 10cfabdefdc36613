"""The ladder's five kernels, each behind a function, in the language that runs here: Triton, or WGSL without it."""

from pagedlab.kernels import available

if available():
    from pagedlab.kernels.ladder1_copy import copy
    from pagedlab.kernels.ladder2_gather import gather
    from pagedlab.kernels.ladder3_dot import scores
    from pagedlab.kernels.ladder4_softmax import online_softmax
    from pagedlab.kernels.ladder5_decode import decode
else:
    from pagedlab.kernels.wgsl.ladder import copy, decode, gather, online_softmax, scores

__all__ = ["copy", "decode", "gather", "online_softmax", "scores"]
