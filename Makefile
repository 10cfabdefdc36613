# `make lab` opens the course, `make test` checks everything. Both set up .venv first; the second time that takes no time.
#
#   make lab LAB_ARGS="--no-browser --port 9000"   more arguments for JupyterLab
#   make env PYTHON=/path/to/python3.12            which Python to use        (also with lab and test)
#   make env TORCH_INDEX_URL=...  PIP_ARGS=...     where torch comes from; more arguments for pip

SHELL := /bin/sh
PY := .venv/bin/python
STAMP := .venv/pagedlab-stamp
export PYTHON TORCH_INDEX_URL PIP_ARGS
# Commands in notebooks (`!pagedlab doctor`) and tests find the environment's own programs.
RUN := PATH="$(CURDIR)/.venv/bin:$$PATH" $(PY)
# A virtual environment works only where it was built: after a move, or when its Python has gone, build it again.
USABLE := $(shell [ "$$(cat $(STAMP) 2>/dev/null)" = "$$(pwd)" ] && $(PY) -c "" 2>/dev/null && echo yes)

VLLM_STAMP := .venv-vllm/pagedlab-stamp
VLLM_USABLE := $(shell [ "$$(cat $(VLLM_STAMP) 2>/dev/null)" = "$$(pwd)" ] && .venv-vllm/bin/python -c "" 2>/dev/null && echo yes)

.PHONY: help env lab test test-quick vllm test-vllm lint exercises mutants class-repo site constraints clean

help:
	@echo "make lab         set up, then open the course in JupyterLab on this machine (LAB_ARGS=...)"
	@echo "make test        set up, then run everything: lint, tests, notebooks, browser"
	@echo "make test-quick  the same without notebooks, browser and slow tests"
	@echo "make vllm        set up vLLM itself (for the CPU) beside the labs, about 3.5 GB"
	@echo "make test-vllm   the tests that watch a live vLLM"
	@echo "make exercises   make exercises/ from solutions/ (EXERCISE_ARGS=--execute runs the solutions first)"
	@echo "make mutants     change every solution in small ways: is each change caught? (MUTANTS_ARGS=... for less)"
	@echo "make class-repo  write a class's own repository, without solutions (DIR=../my-class)"
	@echo "make site        run all chapters and write the course as web pages into site/ (SITE_ARGS=...)"
	@echo "make env         set up .venv only"
	@echo "make measure     measure everything anew and write the README's table of figures"
	@echo "make constraints write constraints.txt from pyproject.toml (CONSTRAINTS_ARGS=--upgrade for newer versions)"
	@echo "make clean       remove .venv, caches and test artifacts"

env: $(STAMP)

$(STAMP): pyproject.toml setup.py constraints.txt tools/setup_env.sh tools/env_parts.sh $(if $(USABLE),,rebuild)
	@sh tools/setup_env.sh

.PHONY: rebuild
rebuild:

# JupyterLab refuses to run as root (a container, CI) unless told.
lab: env
	$(RUN) -m jupyterlab --ServerApp.ip=127.0.0.1 --LabApp.default_url=/lab/tree/notebooks/00_start_here.ipynb \
		$$([ "$$(id -u)" = 0 ] && echo --allow-root) $(LAB_ARGS)

# The front end is checked where node is there; .ci/run sees to it that it is. It runs without any of that.
lint: env
	$(PY) -m ruff check .
	@if command -v npm > /dev/null; then $(MAKE) -s node_modules/.package-lock.json && npm run --silent lint; \
		else echo "The front end was not checked: there is no npm here (it comes with Node.js)."; [ "$$CI" != true ]; fi

node_modules/.package-lock.json: package.json package-lock.json
	npm ci --silent --no-audit --no-fund && touch $@

# One pytest run for tests, notebooks and solutions: one closing line, one exit status. With --nbval-lax every cell has to
# run, and the output of cells marked NBVAL_CHECK_OUTPUT has to be the stored one. Three workers for two
# cores, as one mostly waits for a browser or for a process; each has whole files (a notebook's cells need each other).
# Threads that wait do not spin, or the workers would take each other's cores.
test: lint
	OMP_WAIT_POLICY=PASSIVE $(RUN) -m pytest -n 3 --dist loadfile --durations=10 --nbval-lax --nbval-current-env --nbval-cell-timeout=300 tests notebooks solutions

test-quick: lint
	OMP_WAIT_POLICY=PASSIVE $(RUN) -m pytest -n 2 --dist loadfile --durations=10 -m "not slow and not browser and not notebook" tests

# vLLM itself beside the labs, in an environment of its own; the rest never needs it.
vllm: $(VLLM_STAMP)

$(VLLM_STAMP): pyproject.toml tools/setup_vllm.sh tools/env_parts.sh tools/check_vllm.py $(if $(VLLM_USABLE),,rebuild) | env
	@sh tools/setup_vllm.sh

test-vllm: vllm
	PATH="$(CURDIR)/.venv-vllm/bin:$$PATH" .venv-vllm/bin/python -m pytest --durations=5 tests/live
	$(RUN) -m pytest tests/live/test_in_jupyterlab.py

# After a change in solutions/; with EXERCISE_ARGS=--execute every solution is run first and its outputs are kept.
exercises: env
	$(RUN) -m pagedlab.grading.make_exercises $(EXERCISE_ARGS)

# Is a wrong answer caught, whatever is drawn? Changes every solution in small ways; takes a while.
# MUTANTS_ARGS="06 07.2" for less.
mutants: env
	PYTHONPATH=tools $(RUN) -m mutants $(MUTANTS_ARGS)

# For instructors: docs/instructors.md. CLASS_ARGS="--seed 4711 --url https://…" for what it takes.
class-repo: env
	@$(RUN) tools/class_repo.py "$(DIR)" $(CLASS_ARGS)

# The labs on these pages step without a kernel. SITE_ARGS="--to FOLDER --jobs 4 3 7" for less or elsewhere.
site: env
	$(RUN) tools/build_site.py $(SITE_ARGS)

# Some fifteen minutes on a machine that has nothing else to do; then the README's table is made from the raw figures.
measure: env
	rm -f pagedlab/bench/measured/engine*.json
	for name in "engine --against transformers" paging startup memory scaling; do \
		$(RUN) -m pagedlab bench $$name --out pagedlab/bench/measured/$${name%% *}.json || exit 1; done
	@# vLLM too, where `make vllm` was made.
	[ ! -x .venv-vllm/bin/python ] || $(RUN) -m pagedlab bench engine --against vllm --out pagedlab/bench/measured/vllm.json
	$(PY) -m pagedlab.bench.table

# One set for every platform and Python. Versions stay as they are: CONSTRAINTS_ARGS="--upgrade" or "--upgrade-package NAME"
# for newer ones. Each build of torch brings its own CUDA libraries, and so they are left out.
constraints:
	$(PY) -m uv pip compile --quiet --universal --fork-strategy fewest --all-extras --no-annotate \
		--custom-compile-command "make constraints" $(CONSTRAINTS_ARGS) --output-file constraints.txt pyproject.toml
	grep -v -e '^cuda-' -e '^nvidia-' constraints.txt > constraints.new
	mv constraints.new constraints.txt

clean:
	rm -rf .venv .venv-vllm .pytest_cache .ruff_cache .hypothesis artifacts site build dist *.egg-info
	find . -name __pycache__ -prune -exec rm -rf {} +
	find . -name .ipynb_checkpoints -prune -exec rm -rf {} +
