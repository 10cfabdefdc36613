#!/bin/sh
# Builds .venv with the exact set of constraints.txt and the package itself, editable. `make env` calls it.
#
#   PYTHON=...           the Python to build from (default: the first of python3.11, 3.12, 3.13 and python3 that fits)
#   TORCH_INDEX_URL=...  a package index to take torch from, for a build that the usual index does not have
#   PIP_ARGS=...         more arguments for every `pip install`
#
# The stamp file is written last, so an interrupted run is taken up again by the next one.
set -eu
cd "$(dirname "$0")/.."
venv=.venv
py=$venv/bin/python
stamp=$venv/pagedlab-stamp

say() { echo "env: $*"; }
stop() { echo "env: $*" >&2; exit 1; }
fits() { "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; }
install() { "$py" -m pip install --quiet --disable-pip-version-check ${PIP_ARGS:-} -c constraints.txt "$@"; }

find_python() {
    if [ -n "${PYTHON:-}" ]; then set -- "$PYTHON"; else set -- python3.11 python3.12 python3.13 python3; fi
    for candidate; do
        if fits "$candidate"; then echo "$candidate"; return; fi
    done
    found=$("${PYTHON:-python3}" --version 2>&1) || found="no ${PYTHON:-python3}"
    stop "Python 3.11, 3.12 or 3.13 is needed; this machine has $found. Install one, or name it: make env PYTHON=/path/to/python3.12"
}

# A Linux machine without an NVIDIA driver has no use for the CUDA build, which is some gigabytes larger.
wants_cpu_build() {
    [ "$(uname -s)" = Linux ] && [ ! -e /dev/nvidia0 ] && ! command -v nvidia-smi >/dev/null 2>&1
}

# The version of torch that pip would install, without downloading it: "2.13.0", or "2.13.0+cpu".
planned_torch() {
    install --dry-run --no-deps --report - torch |
        "$py" -c 'import json, sys; print(json.load(sys.stdin)["install"][0]["metadata"]["version"])'
}

# uv knows where the PyTorch project keeps its CPU builds; pip has to be told (TORCH_INDEX_URL).
install_cpu_torch_with_uv() {
    install uv && "$py" -m uv pip install --quiet --python "$py" -c constraints.txt --torch-backend cpu torch
}

install_torch() {
    wanted=$(sed -n 's/^torch==//p' constraints.txt)
    have=$("$py" -c 'import importlib.metadata as m; print(m.version("torch").split("+")[0])' 2>/dev/null) || have=none
    if [ "$have" = "$wanted" ]; then return; fi
    if [ -n "${TORCH_INDEX_URL:-}" ]; then
        say "installing torch $wanted from TORCH_INDEX_URL"
        install --extra-index-url "$TORCH_INDEX_URL" torch
    elif wants_cpu_build; then
        case $(planned_torch) in
            *+cpu) say "installing torch $wanted (CPU build)"; install torch ;;
            *)
                say "no NVIDIA driver here: installing the CPU build of torch $wanted with uv"
                if ! install_cpu_torch_with_uv; then
                    say "the CPU build could not be had (see above): installing torch as the package index has it, which may"
                    say "be the CUDA build. It works on a CPU too, and is large. To choose yourself: stop, then"
                    say "make env TORCH_INDEX_URL=... with the index that PyTorch's \"Get Started\" page shows for CPU."
                    install torch
                fi ;;
        esac
    else
        say "installing torch $wanted"
        install torch
    fi
}

moved=no
if [ -f "$stamp" ] && [ "$(cat "$stamp")" != "$(pwd)" ]; then moved=yes; fi
if [ $moved = yes ] || ! { fits "$py" && "$py" -m pip --version >/dev/null 2>&1; }; then
    base=$(find_python)
    say "building $venv with $("$base" --version)"
    "$base" -m venv --clear "$venv" ||
        stop "$base could not build a virtual environment. On Debian and Ubuntu: apt-get install python3-venv; then run this again."
fi
rm -f "$stamp"
install pip setuptools
install_torch
say "installing the rest; the first time this takes some minutes"
# The warning silenced here is setuptools' general remark on editable installs.
PYTHONWARNINGS=ignore install --no-build-isolation -e '.[attach,dev]'

# JupyterLab asks first-time users about news from its website, in a box that would cover the first notebook.
settings=$venv/share/jupyter/lab/settings
mkdir -p "$settings"
echo '{"@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": false}}' > "$settings/overrides.json"
# What shows a lab's stored picture when its kernel is gone. A wheel brings it along; an editable install leaves it out.
extension=$venv/share/jupyter/labextensions/pagedlab
mkdir -p "$extension"
cp pagedlab/viz/labextension/* "$extension"
# nbgrader (a development tool here) would put a "Validate" button and menus of its own beside the course: its button does
# not ask our grader.
labconfig=$venv/etc/jupyter/labconfig
mkdir -p "$labconfig"
echo '{"disabledExtensions": {"@jupyter/nbgrader": true}}' > "$labconfig/page_config.json"

pwd > "$stamp"
say "ready"
