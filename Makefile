# Each target makes what it needs: `make demo` and `make test` work in a fresh clone.
PYTHON ?= python3
VENV   ?= .venv
BIN     = $(VENV)/bin
MINUTES ?= 10
# Some images forbid Python to store compiled modules: each of the hundreds of processes of the tests would compile torch again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help lock lock-check demo test test-browser coverage matrix test-install test-docs fuzz lint bench results results-check wasm clean
.DEFAULT_GOAL := help

help: ## this list
	@grep -E '^[a-z-]+:.*##' Makefile | sed -E 's/:.*## /\t/' | expand -t 14

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# torch is installed by version, as its builds differ from place to place; beside it, all else with hashes. Modules are
# compiled when they are first imported: compiling all of them would take as long as the rest of the installation.
PIP = $(BIN)/python -m pip install --quiet --no-compile --no-deps
# A package index may fail for a moment: what fails is tried once more.
define install
pip() { $(PIP) "$$@" || { sleep 5; $(PIP) "$$@"; }; }; \
pip --require-hashes --requirement requirements/$(1).txt & others=$$!; pip torch --constraint constraints.txt && wait $$others
$(PIP) --no-build-isolation --editable .
endef

$(VENV)/.core: pyproject.toml constraints.txt requirements/demo.txt | $(BIN)/python
	$(call install,demo)
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt requirements/dev.txt | $(BIN)/python
	$(call install,dev)
	@touch $(VENV)/.core $@

lock: | $(BIN)/python ## choose the newest versions of all packages, and write them with their hashes to requirements/
	$(BIN)/python tools/lock.py

lock-check: | $(BIN)/python ## check that requirements/ fits pyproject.toml and constraints.txt
	$(BIN)/python tools/lock.py --check

demo: $(VENV)/.core ## train a translator on embedded English and French, in about two minutes
	$(BIN)/throughtime demo

lint: lock-check $(VENV)/.dev ## check format, style, types, the direction of imports, sizes and the locked versions
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/mypy
	$(BIN)/python -m tools.sizes

# The lint runs beside the tests, as most of it uses one core; its output comes after theirs.
# Of tests of emulated kernels, one variant in twenty runs here, as a compiler builds each; `make coverage` runs all.
test: $(VENV)/.dev ## lint, and run every test and doctest, one process for each core
	@$(MAKE) --no-print-directory lint > $(VENV)/lint.log 2>&1 & lint=$$!; \
	THROUGHTIME_EMULATED=20 $(BIN)/python -m pytest --numprocesses logical --dist worksteal --durations 15; tests=$$?; \
	wait $$lint; failed=$$?; cat $(VENV)/lint.log; [ $$tests -eq 0 ] && [ $$failed -eq 0 ]

coverage: $(VENV)/.dev ## run the tests, property tests on more examples, and fail below the share of lines allowed in pyproject.toml
	THROUGHTIME_EXAMPLES=40 $(BIN)/python -m pytest --numprocesses logical --dist worksteal --quiet --cov --cov-report=

matrix: ## run the tests on each Python from 3.11 on that this machine has
	$(PYTHON) tools/matrix.py

test-install: ## install the wheel without extras into a fresh environment and use every task there
	$(PYTHON) tools/check_install.py

test-docs: $(VENV)/.dev ## run every command and every Python line of README.md and docs/*.md
	$(BIN)/python -m tools.docs

# Where npm is missing, the tests that need its packages are skipped and say so.
PACKAGES = tests/browser/node_modules
$(PACKAGES)/.installed: tests/browser/package.json tests/browser/package-lock.json
	@if command -v npm > /dev/null; then npm() { command npm ci --prefix tests/browser --ignore-scripts --no-audit --no-fund --loglevel error; }; \
	npm || { sleep 5; npm; } && touch $@; fi

test-browser: $(VENV)/.dev $(PACKAGES)/.installed ## test the page and exported HTML files in Chromium, Firefox and node, THROUGHTIME_INPUTS=50 inputs a task
	$(BIN)/python -m pytest tests/browser --numprocesses logical --dist loadfile --durations 15

fuzz: $(VENV)/.dev ## feed every reader and every HTTP endpoint with odd input for MINUTES=10, and count failures
	$(BIN)/python -m tools.fuzz --minutes $(MINUTES)

bench: $(VENV)/.dev ## measure speed and memory beside other libraries, in one run
	$(BIN)/python -m benchmarks

results: $(VENV)/.dev ## measure the figures of RESULTS.md again
	$(BIN)/python -m recipes

results-check: $(VENV)/.dev ## check in about half an hour that the code still gives the first losses of each row of RESULTS.md
	CUDA_VISIBLE_DEVICES= $(BIN)/python -m recipes --check

# Any clang makes working code; the committed bytes are those of Debian 12's clang and lld 14.
ENGINE = src/throughtime/page/engine
wasm: ## compile the products of exported pages from C to WebAssembly, with clang and lld
	clang --target=wasm32-unknown-unknown -O2 -msimd128 -ffreestanding -nostdlib -fno-vectorize -Wall -Wextra -Werror \
		-Wl,--no-entry,--import-memory,--strip-all,-z,stack-size=16384 -o $(ENGINE)/products.wasm $(ENGINE)/products.c
	chmod 644 $(ENGINE)/products.wasm

clean: ## remove everything that the other targets made
	rm -rf $(VENV) $(PACKAGES) .matrix .coverage build dist out .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
