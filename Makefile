# make demo   a first run on embedded data: prints a result, writes a picture
# make test   lint, types and the whole test suite (what .ci/run runs)
PYTHON ?= python3
VENV   ?= .venv
CONSTRAINTS ?= constraints.txt
BIN := $(VENV)/bin

.PHONY: demo test test-slow test-oldest format clean

$(VENV)/.runtime: pyproject.toml $(CONSTRAINTS)
	@echo "Making the environment in $(VENV) (one or two minutes, once) ..."
	@$(PYTHON) -c 'import sys; sys.exit("dpbraid needs Python 3.11 or newer; set PYTHON=...") if sys.version_info < (3, 11) else None'
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c $(CONSTRAINTS) -e .
	@touch $@

$(VENV)/.test: $(VENV)/.runtime
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c $(CONSTRAINTS) -e '.[test]'
	@touch $@

demo: $(VENV)/.runtime
	@$(BIN)/dpbraid demo

test: $(VENV)/.test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest

test-slow: $(VENV)/.test
	DPBRAID_FULL=1 $(BIN)/python -m pytest

test-oldest:
	$(MAKE) VENV=.venv-oldest CONSTRAINTS=constraints-oldest.txt .venv-oldest/.test
	.venv-oldest/bin/python -m pytest

format: $(VENV)/.test
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf .venv .venv-oldest build src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
