#!/bin/sh
# Grades exercises/, and nothing else. `sh setup.sh` comes first. PY=... names another Python that has pagedlab.
set -eu
cd "$(dirname "$0")"
mkdir -p results
"${PY:-.venv/bin/python}" -m pagedlab grade exercises --seed @SEED@ \
    --json results/grade.json --junit results/grade.xml --out results "$@" > results/grade.txt || status=$?
cat results/grade.txt
# GitHub shows this on the run's page.
if [ -n "${GITHUB_STEP_SUMMARY:-}" ]; then
    { echo '```'; cat results/grade.txt; echo '```'; } >> "$GITHUB_STEP_SUMMARY"
fi
exit "${status:-0}"
