# Each target makes what it needs: `make demo` and `make test` work in a fresh clone.
PYTHON ?= python3
VENV   ?= .venv
BIN     = $(VENV)/bin

.PHONY: help demo test coverage matrix test-install test-docs lint bench results clean
.DEFAULT_GOAL := help

help: ## this list
	@grep -E '^[a-z-]+:.*##' Makefile | sed -E 's/:.*## /\t/' | expand -t 14

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.core: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[plot,serve]' --constraint constraints.txt
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[dev]' --constraint constraints.txt
	@touch $(VENV)/.core $@

demo: $(VENV)/.core ## train a translator on embedded English and French, in about two minutes
	$(BIN)/throughtime demo

lint: $(VENV)/.dev ## check format, style, types and the direction of imports
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint ## lint, then run every test and doctest, one process for each core
	$(BIN)/python -m pytest --numprocesses logical --dist worksteal --durations 15

coverage: $(VENV)/.dev ## run the tests and fail below the smallest share of lines allowed in pyproject.toml
	$(BIN)/python -m pytest --numprocesses logical --dist worksteal --quiet --cov --cov-report=

matrix: ## run the tests on each Python from 3.11 on that this machine has
	$(PYTHON) tools/matrix.py

test-install: ## install the wheel without extras into a fresh environment and use every task there
	$(PYTHON) tools/check_install.py

test-docs: $(VENV)/.dev ## run every command and every Python line of README.md and docs/*.md
	$(BIN)/python -m tools.docs

bench: $(VENV)/.dev ## measure speed and memory beside other libraries, in one run
	$(BIN)/python -m benchmarks

results: $(VENV)/.dev ## measure the figures of RESULTS.md again
	$(BIN)/python -m recipes

clean: ## remove everything that the other targets made
	rm -rf $(VENV) .matrix .coverage build dist out .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
