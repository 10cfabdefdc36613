# What both environments are built with. The caller sets $venv, $py, $name (in front of what is said) and $constraints.
#
#   PYTHON=...           the Python to build from (default: the first that fits)
#   TORCH_INDEX_URL=...  a package index to take torch from, for a build that the usual index does not have
#   PIP_ARGS=...         more arguments for every `pip install`

say() { echo "$name: $*"; }
stop() { say "$@" >&2; exit 1; }
fits() { "$1" -c "import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, $newest))" 2>/dev/null; }
install() { $py -m pip install --quiet --disable-pip-version-check ${PIP_ARGS:-} ${constraints:+-c "$constraints"} "$@"; }
find_python() {
    if [ -n "${PYTHON:-}" ]; then set -- "$PYTHON"; else set -- python3.11 python3.12 python3.13 python3.14 python3; fi
    for candidate; do if fits "$candidate"; then echo "$candidate"; return; fi; done
    found=$("${PYTHON:-python3}" --version 2>&1) || found="no ${PYTHON:-python3}"
    stop "Python 3.11 to 3.$newest is needed; this machine has $found. Install one, or name it: make $name PYTHON=/path/to/python3.12"
}
make_venv() {
    if ! { [ "$(cat $venv/pagedlab-stamp 2>/dev/null || pwd)" = "$(pwd)" ] && fits $py && $py -m pip --version >/dev/null 2>&1; }; then
        base=$(find_python)
        say "building $venv with $("$base" --version)"
        "$base" -m venv --clear $venv || stop "$base could not. On Debian and Ubuntu: apt-get install python3-venv; then run this again."
    fi
    rm -f $venv/pagedlab-stamp
    install pip setuptools
}
# A Linux machine without an NVIDIA driver has no use for the CUDA build, which is some gigabytes larger. The CPU build lies
# where pip looks, or else where the PyTorch project keeps it, and uv knows where that is.
no_nvidia() { [ "$(uname -s)" = Linux ] && [ ! -e /dev/nvidia0 ] && ! command -v nvidia-smi >/dev/null; }
cpu_build() {
    $py -m pip freeze | grep -q "^torch==$torch" || install "torch==$torch+cpu" 2>/dev/null || {
        install uv && $py -m uv pip install --quiet --python $py --torch-backend cpu "torch==$torch"; } ||
        say "the CPU build of torch could not be had (see above), so the one of pip's index comes. It works too, and is large." \
            "To choose: stop, then make $name TORCH_INDEX_URL=... with what PyTorch's \"Get Started\" page shows for your machine."
}
