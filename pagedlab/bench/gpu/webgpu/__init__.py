"""`pagedlab gpu-check --webgpu`: what the kernels in WGSL do on this machine's WebGPU adapter."""
