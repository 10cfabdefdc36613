#!/bin/sh
# Builds .venv with the exact set of constraints.txt and the package itself, editable. `make env` calls it.
#
#   PYTHON=...           the Python to build from (default: the first of python3.11 to 3.14 and python3 that fits)
#   TORCH_INDEX_URL=...  a package index to take torch from, for a build that the usual index does not have
#   PIP_ARGS=...         more arguments for every `pip install`
#
# The stamp file is written last, so an interrupted run is taken up again by the next one.
set -eu
cd "$(dirname "$0")/.."
venv=.venv py=.venv/bin/python stamp=.venv/pagedlab-stamp

say() { echo "env: $*"; }
stop() { say "$@" >&2; exit 1; }
fits() { "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' 2>/dev/null; }
install() { $py -m pip install --quiet --disable-pip-version-check ${PIP_ARGS:-} -c constraints.txt "$@"; }
find_python() {
    if [ -n "${PYTHON:-}" ]; then set -- "$PYTHON"; else set -- python3.11 python3.12 python3.13 python3.14 python3; fi
    for candidate; do if fits "$candidate"; then echo "$candidate"; return; fi; done
    found=$("${PYTHON:-python3}" --version 2>&1) || found="no ${PYTHON:-python3}"
    stop "Python 3.11 to 3.14 is needed; this machine has $found. Install one, or name it: make env PYTHON=/path/to/python3.12"
}
# A Linux machine without an NVIDIA driver has no use for the CUDA build, which is some gigabytes larger. The CPU build lies
# where pip looks, or else where the PyTorch project keeps it, and uv knows where that is.
no_nvidia() { [ "$(uname -s)" = Linux ] && [ ! -e /dev/nvidia0 ] && ! command -v nvidia-smi >/dev/null; }
cpu_build() {
    install "torch==$torch+cpu" 2>/dev/null || {
        install uv && $py -m uv pip install --quiet --python $py -c constraints.txt --torch-backend cpu torch; } ||
        say "the CPU build of torch could not be had (see above), so the one of pip's index comes. It works too, and is large." \
            "To choose: stop, then make env TORCH_INDEX_URL=... with what PyTorch's \"Get Started\" page shows for your machine."
}

if ! { [ "$(cat $stamp 2>/dev/null || pwd)" = "$(pwd)" ] && fits $py && $py -m pip --version >/dev/null 2>&1; }; then
    base=$(find_python)
    say "building $venv with $("$base" --version)"
    "$base" -m venv --clear $venv || stop "$base could not. On Debian and Ubuntu: apt-get install python3-venv; then run this again."
fi
rm -f $stamp
install pip setuptools
say "installing what is not there yet; the first time this takes some minutes"
torch=$(sed -n 's/^torch==\([0-9.]*\).*/\1/p' constraints.txt)
if [ -n "${TORCH_INDEX_URL:-}" ]; then install --extra-index-url "$TORCH_INDEX_URL" torch
elif no_nvidia && ! $py -m pip freeze | grep -q "^torch==$torch"; then cpu_build; fi
# The warning silenced here is setuptools' general remark on editable installs.
PYTHONWARNINGS=ignore install --no-build-isolation -e '.[attach,dev]'

# For JupyterLab: no question about news over the first notebook, and no "Validate" of nbgrader's, which asks no grader of ours;
# and what shows a lab's stored picture when its kernel is gone, which an editable install leaves out.
cp -R tools/jupyter/. $venv
mkdir -p $venv/share/jupyter/labextensions/pagedlab
cp pagedlab/viz/labextension/* $venv/share/jupyter/labextensions/pagedlab
pwd > $stamp
say "ready"
