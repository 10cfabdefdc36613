#!/bin/sh
# Builds .venv with the course's own wheel and the versions of constraints.txt. The second time it takes no time.
#
#   PYTHON=python3.12  which Python to build from;   PIP_ARGS=...  more arguments for pip
set -eu
cd "$(dirname "$0")"
py=.venv/bin/python
wheel=$(ls pagedlab-*.whl)
mark=.venv/installed

# The package that grades is the one that this repository was made with.
if command -v sha256sum >/dev/null; then sha256sum -c --quiet SHA256SUMS; else shasum -a 256 -c SHA256SUMS; fi
if [ -f $mark ] && cmp -s $mark SHA256SUMS; then exit 0; fi

[ -x $py ] || "${PYTHON:-python3}" -m venv .venv
install() { $py -m pip install --quiet --disable-pip-version-check ${PIP_ARGS:-} -c constraints.txt "$@"; }

install pip setuptools  # those that come with an older Python do not see that torch 2.13.0+cpu is a torch 2.13.0
# A Linux machine without an NVIDIA driver has no use for the CUDA build of torch, which is some gigabytes larger.
if ! $py -c 'import torch' 2>/dev/null && [ "$(uname -s)" = Linux ] && [ ! -e /dev/nvidia0 ]; then
    { install uv && $py -m uv pip install --quiet --python $py -c constraints.txt --torch-backend cpu torch; } ||
        echo "setup: the CPU build of torch could not be had; taking the usual one, which is large" >&2
fi
install "./$wheel"
cp SHA256SUMS $mark
