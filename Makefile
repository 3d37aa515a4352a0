# Each target makes what it needs: `make demo` and `make test` work in a fresh clone.
PYTHON ?= python3
VENV   ?= .venv
BIN     = $(VENV)/bin

.PHONY: help demo test lint bench results clean
.DEFAULT_GOAL := help

help: ## this list
	@grep -E '^[a-z]+:.*##' Makefile | sed -E 's/:.*## /\t/' | expand -t 12

$(VENV)/.core: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[plot,serve]' --constraint constraints.txt
	@touch $@

$(VENV)/.dev: $(VENV)/.core
	$(BIN)/python -m pip install --quiet --editable '.[dev]' --constraint constraints.txt
	@touch $@

demo: $(VENV)/.core ## a translator on embedded English and French, in about two minutes
	$(BIN)/throughtime demo

lint: $(VENV)/.dev ## format, lint, types and the direction of dependencies
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint ## lint, then every test and doctest
	$(BIN)/python -m pytest

bench: $(VENV)/.dev ## speed and memory beside peers, in one run
	$(BIN)/python -m benchmarks

results: $(VENV)/.dev ## the measured figures of RESULTS.md, anew
	$(BIN)/python -m recipes

clean: ## everything that the other targets made
	rm -rf $(VENV) build dist out .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
