# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --disable-pip-version-check --quiet -c constraints.txt

# Idle OpenMP threads sleep instead of spinning, which on two busy cores is up to ten times faster.
export OMP_WAIT_POLICY := PASSIVE
export GOMP_SPINCOUNT := 0

.PHONY: help demo test lint docs proofs parity smollm2 clean

help: ## show the targets
	@grep -hE '^[a-z0-9]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(VENV)/.run: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) -e .
	touch $@

$(VENV)/.dev: $(VENV)/.run
	$(PIP) -e '.[dev]'
	touch $@

demo: $(VENV)/.run ## compress the embedded model (about four minutes), then open runs/demo/report.html
	rm -rf runs/demo
	$(BIN)/sparing train --output runs/demo

test: $(VENV)/.dev ## run the test suite with doctests and the coverage floor
	$(BIN)/python -m pytest -n 2 --cov --cov-report=term

lint: $(VENV)/.dev ## style, types and import arrows
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

export NO_MKDOCS_2_WARNING := 1
docs: $(VENV)/.dev ## build the documentation into site/
	$(BIN)/mkdocs build --strict

proofs: $(VENV)/.dev ## the long proofs: twenty kills, real model, large tables
	$(PIP) -e '.[dev,smollm2]'
	$(BIN)/python -m pytest -m slow -v

parity: ## losses and gradients against TRL 1.16, in an environment of its own
	test -x .venv-trl/bin/python || $(PYTHON) -m venv .venv-trl
	.venv-trl/bin/python -m pip install --disable-pip-version-check --quiet -c constraints.txt -e '.[trl]' pytest
	.venv-trl/bin/python -m pytest -m trl -v tests/method/test_trl_parity.py

clean: ## remove environments, runs and build outputs
	rm -rf .venv .venv-trl runs site
