"""`pagedlab gpu-check`: what is right, what is fast and what is recorded on the GPU of this machine."""
