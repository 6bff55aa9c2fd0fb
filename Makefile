# Every target makes what it needs: a virtual environment in .venv and, in it, the pinned packages of one extra.
# A stamp file in the environment remembers what is installed, so that a second call starts at once.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
MINIMUM := .venv-minimum
PIP := -m pip install -qq --disable-pip-version-check

# Arguments for pytest, as in `make test ARGS="tests/metrics -x"`.
ARGS ?=

export MPLBACKEND := Agg

# One process a core, and in each one thread: threads of several processes would only wait for one another.
PYTEST := -m pytest -n logical
test test-minimum: export OMP_NUM_THREADS := 1
test test-minimum: export OPENBLAS_NUM_THREADS := 1

.PHONY: help demo test lint format docs bench test-minimum clean
.DEFAULT_GOAL := help

help:
	@echo "make demo          run the quick start on real data and save its three plots"
	@echo "make test          run all tests, doctests and examples"
	@echo "make test-minimum  run the tests on the oldest supported versions, without the peers"
	@echo "make lint          check style (ruff) and types (mypy)"
	@echo "make format        put the code into that style"
	@echo "make docs          build the documentation in docs/_build/html"
	@echo "make bench         measure skuq beside its peers and print one table"
	@echo "make clean         remove what these commands wrote, but not the environments"

demo: $(VENV)/.installed-demo
	$(BIN)/python examples/plot_01_quickstart.py

test: $(VENV)/.installed-test
	$(BIN)/python $(PYTEST) $(ARGS)

lint: $(VENV)/.installed-lint
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

format: $(VENV)/.installed-lint
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

docs: $(VENV)/.installed-docs
	$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html
	@echo "The documentation is in docs/_build/html/index.html"

bench: $(VENV)/.installed-test
	$(BIN)/python benchmarks/run.py
	$(BIN)/python benchmarks/metrics.py
	$(BIN)/python benchmarks/ucc.py
	$(BIN)/python benchmarks/recalibration.py
	$(BIN)/python benchmarks/conformal.py
	$(BIN)/python benchmarks/neural.py
	$(BIN)/python benchmarks/sparse_gp.py

test-minimum: $(MINIMUM)/.installed
	$(MINIMUM)/bin/python $(PYTEST) $(ARGS)

clean:
	rm -rf build dist plots examples/plots docs/_build docs/auto_examples docs/explanation/generated docs/reference/generated
	rm -rf docs/sg_execution_times.rst .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find skuq tests examples docs benchmarks -name __pycache__ -prune -exec rm -rf {} +

# An environment that exists and has pip is used as it is.
$(VENV)/.created $(MINIMUM)/.created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "skuq needs Python 3.11 or newer, got " \
		+ sys.version.split()[0] + ". Name another one, as in: make $(MAKECMDGOALS) PYTHON=python3.12")'
	@$(@D)/bin/python -m pip --version > /dev/null 2>&1 || $(PYTHON) -m venv $(@D)
	@touch $@

$(VENV)/.installed-%: pyproject.toml constraints.txt $(VENV)/.created
	@echo "Installing what 'make $*' needs into $(VENV) (once, about a minute) ..."
	@$(BIN)/python $(PIP) -c constraints.txt -e '.[$*]'
	@touch $@

$(MINIMUM)/.installed: pyproject.toml constraints-minimum.txt $(MINIMUM)/.created
	@echo "Installing the oldest supported versions into $(MINIMUM) (once, about a minute) ..."
	@$(MINIMUM)/bin/python $(PIP) -c constraints-minimum.txt -e '.[plot]' pytest pytest-xdist psutil hypothesis mpmath
	@touch $@
