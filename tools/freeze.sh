#!/bin/sh
# Prints the exact set of packages in .venv as constraints.txt: `make constraints` keeps the answer.
set -eu
cat <<'HEAD'
# The exact set that CI runs, transitive packages included. Made by `make constraints`; ranges are in pyproject.toml.
# torch and triton come first because they belong together: each torch release is built for one triton release.
HEAD
# "+cpu" and its like are cut off: torch==2.13.0 admits every build of 2.13.0, torch==2.13.0+cpu only one.
frozen=$(.venv/bin/python -m pip freeze --all --exclude-editable | sed 's/+[A-Za-z0-9.]*$//')
echo "$frozen" | grep '^torch=='
echo "$frozen" | grep '^triton=='
echo "$frozen" | grep -v -e '^torch==' -e '^triton==' -e '^pagedlab' -e '^uv=='
