# Two commands are enough: `make demo` and `make test`. Both set themselves up in .venv first.

# The first that runs and is new enough; an old python3 is still named, so that the message below can say so.
PYTHON ?= $(shell for name in python3.11 python3 python3.12 python3.13; do \
  $$name -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { command -v $$name; exit; }; done; \
  command -v python3)
BIN := .venv/bin
RUN_READY := .venv/.run-ready
DEV_READY := .venv/.dev-ready
DOCS_READY := .venv/.docs-ready
# The tests of a file share what they train, so they run in one process.
SPREAD := --numprocesses=auto --maxprocesses=4 --dist=loadfile --no-loadscope-reorder --durations=15
GPU_PYTHON = $(if $(filter file,$(origin PYTHON)),$(BIN)/python,$(PYTHON))

export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Tests start hundreds of processes; each would compile torch and harken again where this is set.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-slow test-gpu test-wheel coverage lint types docs docs-images clean

help: ## say what there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(RUN_READY) ## install harken and what it needs to run into .venv

demo: $(RUN_READY) ## train a small translator and look inside it, in three minutes
	@$(BIN)/harken demo --out runs/demo

# Kernels are compiled beside the check of types, once for all processes of the tests.
test: lint ## lint, check types and run the quick tests
	@$(BIN)/harken warm 2>/dev/null & warm=$$!; trap 'kill $$warm 2>/dev/null || true' EXIT INT TERM; \
	  $(BIN)/mypy && { wait $$warm || true; }
	@$(BIN)/python -m pytest -m "not slow" $(SPREAD)

test-slow: $(DEV_READY) ## run every test, also those that take minutes
	@$(BIN)/python -m pytest $(SPREAD)

test-gpu: ## run tests/gpu in parallel shards on one GPU; PYTHON=... names a Python with torch for CUDA and pytest
	@PYTHONPATH=src $(GPU_PYTHON) tests/gpu/run_shards.py

coverage: $(DEV_READY) ## run the quick tests and print their coverage by package of src/harken
	@rm -f .coverage .coverage.*
	@$(BIN)/python -m pytest -m "not slow" $(SPREAD) --cov=harken --cov-report=json:.coverage.json
	@$(BIN)/python tests/coverage_by_package.py .coverage.json

test-wheel: $(DEV_READY) ## build the wheel, install it into a clean environment and run the demo there
	@folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && set -e; \
	  rm -rf build; $(BIN)/pip wheel --quiet --no-deps --no-build-isolation --wheel-dir "$$folder" .; \
	  $(PYTHON) -m venv "$$folder/venv"; \
	  "$$folder/venv/bin/pip" install --quiet --no-compile --constraint requirements/run.txt "$$(ls "$$folder"/harken-*.whl)[plot]"; \
	  cd "$$folder" && venv/bin/harken demo --out demo && test -s demo/alignment.png && \
	  echo 'My brother works in a hospital.' | venv/bin/harken translate demo

lint: $(DEV_READY) ## check the code with ruff
	@$(BIN)/ruff check .

types: $(DEV_READY) ## check the types with mypy
	@$(BIN)/mypy

docs: $(DOCS_READY) ## build the documentation into site/; CHAPTERS=off leaves out the outputs of the course
	@CHAPTERS=$(CHAPTERS) NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet
	@echo "open site/index.html"

docs-images: $(DEV_READY) ## train small models and draw the pictures of the documentation again
	@$(BIN)/python docs/make_images.py

clean: ## remove .venv, caches and build leftovers; trained models in runs/ stay
	rm -rf .venv build dist site src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage*
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

# A virtual environment, made again where an earlier attempt left half of one behind. Debian keeps Python's venv in a
# package of its own; root gets it installed, everybody else is told its name.
$(BIN)/pip:
	@test -n "$(PYTHON)" || { echo "error: no python3 was found; install Python 3.11 or later" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "error: $(PYTHON) is $$($(PYTHON) --version 2>&1), but harken needs Python 3.11 or later; name one with: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)" >&2; exit 1; }
	@$(PYTHON) -m venv --clear .venv || { \
	  version=$$($(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])'); \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    apt-get update && { apt-get install -y python$$version-venv || apt-get install -y python3-venv; } && $(PYTHON) -m venv --clear .venv; \
	  else false; fi; } || { \
	  rm -rf .venv; \
	  echo "error: $(PYTHON) cannot make a virtual environment; on Debian and Ubuntu: sudo apt-get install python3-venv" >&2; exit 1; }

# harken itself goes in last, with what is there already: its build needs setuptools, which torch brings along.
$(RUN_READY): requirements/run.txt pyproject.toml | $(BIN)/pip
	@echo "Installing harken into .venv (torch is large: this takes a minute or two the first time) ..."
	@$(BIN)/pip install --quiet --no-compile -r requirements/run.txt  # Python compiles what is imported
	@$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

$(DEV_READY): requirements/dev.txt $(RUN_READY)
	@$(BIN)/pip install --quiet --no-compile -r requirements/dev.txt
	@touch $@

$(DOCS_READY): requirements/docs.txt $(DEV_READY)
	@$(BIN)/pip install --quiet --no-compile -r requirements/docs.txt
	@touch $@
