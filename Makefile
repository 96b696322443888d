# The two commands of a fresh machine are `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export HF_HUB_OFFLINE := 1
export TOKENIZERS_PARALLELISM := false
# Threads that spin while they wait make small models up to ten times slower on busy cores.
export OMP_WAIT_POLICY := passive

.PHONY: demo test lint format benchmarks wheel clean

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip --constraint constraints.txt
	$(BIN)/python -m pip install --quiet torch --constraint constraints.txt
	$(BIN)/python -m pip install --quiet --editable '.[dev]' --constraint constraints.txt
	touch $@

demo: $(VENV)/.installed  ## install, guard a small RAG chain offline, leave a report
	$(BIN)/knowgate demo

test: $(VENV)/.installed  ## the whole test suite
	$(BIN)/python -m pytest

lint: $(VENV)/.installed  ## formatting, style, types, layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.installed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

wheel: $(VENV)/.installed
	$(BIN)/python -m build --wheel

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache
