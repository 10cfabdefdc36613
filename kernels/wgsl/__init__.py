"""The kernels once more in WGSL, the language of WebGPU: for Macs, for most laptops, and in a browser."""
