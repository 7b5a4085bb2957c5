# Each target sets up what it needs, so that any of them is the first command on a fresh machine.
.DEFAULT_GOAL := help
.PHONY: help demo test bench lint image engine venv browser bubblewrap postgresql openapi lock

# The first Python that is new enough; another one: make PYTHON=/path/to/python3
PYTHON ?= $(firstword $(foreach name,python3 python3.14 python3.13 python3.12 python3.11,$(shell \
	$(name) -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $(name))))
BIN := .venv/bin
# Files of tests that run at the same time; those that use the engine go one after another whatever this says.
TEST_JOBS ?= 2
PIP_INSTALL := $(BIN)/python -m pip --disable-pip-version-check --quiet --quiet install

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: .venv/.runtime ## run the main job end to end on a repository of its own
	@if .ci/engine; then .ci/image sandbox && $(BIN)/python examples/demo/run_demo.py; \
	elif .ci/bubblewrap && command -v bwrap >/dev/null; then \
		echo 'demo: no engine can be had, so commands run in bubblewrap, which holds less' >&2; \
		$(BIN)/python examples/demo/run_demo.py --sandbox bubblewrap; \
	else exit 3; fi

test: venv image browser bubblewrap postgresql openapi lint ## run all checks and all tests
	$(BIN)/python -m pytest -n $(TEST_JOBS)

bench: venv image ## run all benchmarks at full size
	@set -e; for file in $(filter-out tests/bench/_% tests/bench/test_%,$(wildcard tests/bench/*.py)); do \
		name=$${file#tests/bench/}; name=$${name%.py}; \
		echo "== $$name"; $(BIN)/python -m tests.bench._run $$name; \
	done

lint: venv ## check style, types and the direction of imports
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

engine: ## find a Docker engine, or start one where that is possible
	@.ci/engine

image: engine ## build the sandbox image
	@.ci/image

browser: ## install Chromium for the browser tests where that is possible
	@.ci/browser

bubblewrap: ## install bubblewrap for its tests where that is possible
	@.ci/bubblewrap

postgresql: ## install PostgreSQL for the tests of several workers where that is possible
	@.ci/postgresql

openapi: ## fetch GitHub's own API description for the tests, once
	@.ci/openapi

venv: .venv/.ready ## make .venv from the lock file

# Says first what is missing, and makes .venv where there is none that works.
define BARE_VENV
if [ -z "$(PYTHON)" ]; then echo 'venv: no python3 >= 3.11 with venv found; name one with: make PYTHON=...' >&2; exit 3; fi; \
$(BIN)/python -c '' 2>/dev/null || { echo "venv: making .venv with $$($(PYTHON) --version)" >&2; $(PYTHON) -m venv --clear .venv; }
endef

.venv/.ready: requirements-dev.txt pyproject.toml
	@$(BARE_VENV)
	@echo 'venv: installing what requirements-dev.txt locks' >&2
	@$(PIP_INSTALL) --require-hashes --requirement requirements-dev.txt
	@$(PIP_INSTALL) --no-deps --no-build-isolation --editable .
	@touch .venv/.runtime $@

# What the gate itself needs: the demonstration waits for no tool of its developers.
.venv/.runtime: requirements.txt
	@$(BARE_VENV)
	@echo 'venv: installing what requirements.txt locks' >&2
	@$(PIP_INSTALL) --require-hashes --requirement requirements.txt
	@touch $@

# Settings of the machine (index addresses, folders of wheels) must not get into the lock files.
PIP_COMPILE := env -u PIP_FIND_LINKS -u PIP_INDEX_URL -u PIP_EXTRA_INDEX_URL PIP_CONFIG_FILE=/dev/null $(BIN)/pip-compile --quiet \
	--allow-unsafe --generate-hashes --no-emit-index-url --no-emit-find-links --no-header --strip-extras $(LOCK_FLAGS)

lock: venv ## write the lock files anew (newer releases: make lock LOCK_FLAGS=--upgrade)
	$(PIP_COMPILE) --output-file requirements.txt pyproject.toml
	$(PIP_COMPILE) --extra dev --constraint requirements.txt --output-file requirements-dev.txt pyproject.toml
