# Everything runs in .venv, which each target makes when it is missing or pyproject.toml has changed.

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready

# pyright would ask a server whether there is a newer version of it.
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1

.DEFAULT_GOAL := help
.PHONY: help demo test lint types fuzz bench soak large coverage format docs clean

help: ## Show this list
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

demo: $(READY) ## Show what structmem does, on real input
	@$(BIN)/structmem demo

test: $(READY) ## Run the tests
	$(BIN)/python -m pytest

lint: $(READY) ## Check style and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY) ## Check the types, strictly
	$(BIN)/pyright --pythonpath $(BIN)/python

fuzz: $(READY) ## Search for failures, shortly and the same way in every run
	HYPOTHESIS_PROFILE=ci $(BIN)/python -m pytest fuzz --timeout 900

bench: $(READY) ## Measure against bare SQLite, and how fast the MCP door opens
	$(BIN)/python -m tests.benchmarks
	$(BIN)/python -m tests.benchmarks.startup

soak: $(READY) ## Kill 500 writers and crowd one file: a quarter of an hour
	$(BIN)/python -m tests.engine.soak

large: $(READY) ## Measure what is large: half an hour, 6 GB of memory
	$(BIN)/python -m tests.engine.large

coverage: $(READY) ## Run the tests and show the lines and branches they miss
	$(BIN)/python -m pytest --cov --cov-report=term-missing:skip-covered

format: $(READY) ## Format the code and repair what can be repaired
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(READY) ## Write the pages that are made from the code
	$(BIN)/python docs/generate_errors.py
	$(BIN)/python docs/generate_tools.py

clean: ## Remove what these targets made
	rm -rf .venv .coverage .hypothesis .pytest_cache .ruff_cache dist build
	find engine journal replicator tests fuzz -name __pycache__ -prune -exec rm -rf {} +

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info; v >= (3, 11) or sys.exit("structmem needs \
	Python 3.11 or later, and $(PYTHON) is %d.%d; try: make PYTHON=python3.11" % v[:2])'
	@echo "Installing into .venv, once (about a minute)"
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@
