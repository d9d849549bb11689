# Not Twice: `make` lists what there is to make.

PYTHON ?= python3
export PYTHON

# The demo's data and generated configuration stay in this clone, so two clones never meet.
NOTTWICE_HOME ?= $(CURDIR)/var

# The house is many short processes: each reads what the first one compiled, whatever the shell says.
unexport PYTHONDONTWRITEBYTECODE

BIN := .venv/bin

.PHONY: help setup setup-test demo test fuzz screenshots bench lint format constraints clean
.DEFAULT_GOAL := help

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## install everything the demo needs into .venv
	@.ci/setup console

setup-test:
	@.ci/setup test

demo: export NOTTWICE_HOME := $(NOTTWICE_HOME)
demo: setup ## run the whole chain here, against a sandbox provider, until Ctrl-C
	@exec .ci/demo

test: setup-test ## install what the tests need (Chromium too, when it may) and run them all
	@.ci/chromium
	@$(BIN)/pytest $(ARGS)

screenshots: setup-test ## take every picture of the console anew, of a seeded house, into docs/images (FOLDER=...: elsewhere)
	@.ci/chromium
	@$(BIN)/python -m tests.browser.screenshots $(FOLDER)

bench: setup-test ## measure side by side with other queues, one JSON object a line (ONLY=drain: one of them)
	@.ci/setup peers
	@$(BIN)/python -m tests.benchmarks $(ONLY)

fuzz: setup-test ## send hundreds of thousands of hostile requests to a receiver (INPUTS=5000 SEED=7: fewer, or the same again)
	@$(BIN)/python -m tests.fuzz $(if $(INPUTS),--inputs $(INPUTS)) $(if $(SEED),--seed $(SEED))

lint: setup-test ## ruff, mypy and the walls between the packages
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

format: setup-test ## let ruff format and sort
	@$(BIN)/ruff check --quiet --fix-only .
	@$(BIN)/ruff format .

COMPILE = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate \
	--custom-compile-command "make constraints" --group build pyproject.toml

# The smaller sets follow the largest, so that one .venv can serve them all.
constraints: setup ## bring constraints/*.txt in line with pyproject.toml (UPGRADE=1: to the newest versions)
	@[ -x $(BIN)/uv ] || $(BIN)/python -m pip install --quiet uv
	@$(COMPILE) $(if $(UPGRADE),--upgrade) --extra test --extra bench -o constraints/test.txt
	@$(COMPILE) --upgrade -c constraints/test.txt --extra embedded --extra console --extra auth --extra sandbox -o constraints/console.txt
	@$(COMPILE) --upgrade -c constraints/test.txt --extra embedded -o constraints/worker.txt
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate \
		--custom-compile-command "make constraints" $(if $(UPGRADE),--upgrade) constraints/peers.in -o constraints/peers.txt

clean: ## remove .venv and caches, but no data
	@rm -rf .venv .venv-peers .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist
