#!/bin/sh
# Builds .venv with the exact set of constraints.txt and the package itself, editable. `make env` calls it; env_parts.sh says
# what can be chosen. The stamp file is written last, so an interrupted run is taken up again by the next one.
set -eu
cd "$(dirname "$0")/.."
name=env venv=.venv py=.venv/bin/python newest=14 constraints=constraints.txt
. tools/env_parts.sh

make_venv
say "installing what is not there yet; the first time this takes some minutes"
torch=$(sed -n 's/^torch==\([0-9.]*\).*/\1/p' constraints.txt)
if [ -n "${TORCH_INDEX_URL:-}" ]; then install --extra-index-url "$TORCH_INDEX_URL" torch
elif no_nvidia; then cpu_build; fi
# The warning silenced here is setuptools' general remark on editable installs.
PYTHONWARNINGS=ignore install --no-build-isolation -e '.[attach,cluster,dev]'

# For JupyterLab: no question about news over the first notebook, and no "Validate" of nbgrader's, which asks no grader of ours;
# what lets a kernel's messages through at once (pagedlab/viz/jupyter_server.py); and what shows a lab's stored picture when its
# kernel is gone, which an editable install leaves out.
cp -R tools/jupyter/. $venv
mkdir -p $venv/share/jupyter/labextensions/pagedlab
cp pagedlab/viz/labextension/* $venv/share/jupyter/labextensions/pagedlab
pwd > $venv/pagedlab-stamp
say "ready"
