# Every target creates its virtual environment in .venv and installs the pinned packages of one extra. A stamp file in
# the environment records the installed extra, so a second call starts immediately. The oldest and the newest versions
# have a separate environment for each Python.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
MINIMUM := .venv-minimum-$(notdir $(PYTHON))
NEWEST := .venv-newest-$(notdir $(PYTHON))
AUTOML := .venv-automl
FOUNDATION := .venv-foundation
# Modules are compiled when they are first imported: compiling all of them takes most of the time of an installation.
PIP := -m pip install -qq --no-compile --disable-pip-version-check

# The version of `make release-check`, and the other commit of `make bench-compare`.
VERSION ?= 0.1.0
BASE ?= main

# Arguments for pytest. Example: `make test ARGS="tests/metrics -x"`.
ARGS ?=

# Program that finds obstacles to readers with a screen reader, for the test of the page of `HTMLReport`.
AXE := node_modules/axe-core/axe.min.js

# Tests of `make check`: the structure of the code, the public names, and the examples in the docstrings, which test
# every public module quickly.
QUICK := tests/test_architecture.py tests/test_public_api.py skuq

# Tests of `make test-automl`: the tests and docstrings of AutoML tools, and the page with a code block for each tool.
AUTOML_TESTS := tests/integrations tests/prediction/_rules/test_automl.py skuq/integrations \
	'tests/test_docs.py::test_page_runs[docs/automl.rst]' \
	--ignore=tests/integrations/test_dask.py --ignore=skuq/integrations/dask

# Test tools for the environments without related packages and networks.
TOOLS := pytest pytest-timeout pytest-xdist psutil hypothesis mpmath

export MPLBACKEND := Agg
# Compiled modules are stored. Without them, each process of a test compiles all packages that it imports.
unexport PYTHONDONTWRITEBYTECODE

# One process per core and one thread per process: more threads would wait for each other. Each process runs a share of
# the test files, so that fixtures are created once. A process without work takes tests from the others.
PYTEST := -m pytest -n logical --dist worksteal --durations=20
check coverage docs test test-%: export OMP_NUM_THREADS := 1
check coverage docs test test-%: export OPENBLAS_NUM_THREADS := 1
# All tests but those that take minutes or need a GPU.
ALL := -m 'not slow and not gpu'

.PHONY: help demo test check lint format docs coverage tables bench-compare \
	test-docs test-laws test-rest test-all test-automl test-foundation test-minimum test-newest release-check \
	pin-actions clean
.DEFAULT_GOAL := help

help:
	@echo "make demo          run the quick start on real data and save its plots"
	@echo "make test          run the tests and doctests of a commit, in some minutes"
	@echo "make test-docs     run pages, examples, papers, type checkers, packages and benchmarks"
	@echo "make test-laws     run studies of many seeds and rare settings"
	@echo "make test-rest     run both, in one run of pytest"
	@echo "make test-all      run all three"
	@echo "make check         lint and one quick test of every module, in under a minute"
	@echo "make test-automl   run the tests of AutoML tools, in a separate environment"
	@echo "make test-foundation run the tests of TabPFN and TabICL with random weights, in a separate environment"
	@echo "make test-minimum  run the tests on the oldest supported versions, without related packages"
	@echo "make test-newest   run the tests on the newest versions; example: make test-newest PYTHON=python3.13"
	@echo "make lint          check style (ruff) and types (mypy)"
	@echo "make format        format the code (ruff)"
	@echo "make docs          build the documentation in docs/_build/html"
	@echo "make tables        measure the tables of the documentation again; see tables.py for ARGS=--stale and --quick"
	@echo "make coverage      run all tests and measure the covered branches"
	@echo "make bench-compare compare the speed with another commit; example: make bench-compare BASE=main"
	@echo "make release-check rehearse a release in a clean clone; example: make release-check VERSION=0.1.0"
	@echo "make pin-actions   replace the tags of GitHub's actions by hashes"
	@echo "make clean         remove the files that these commands wrote, but not the environments"

demo: $(VENV)/.installed-demo
	$(BIN)/python docs/demo.py
	@echo "The plots are in the folder plots"

test: $(VENV)/.installed-test
	$(BIN)/python $(PYTEST) $(ARGS)

test-docs test-rest test-all coverage: $(AXE)

test-docs test-laws: test-%: $(VENV)/.installed-test
	$(BIN)/python $(PYTEST) -m '$* and not slow and not gpu' $(ARGS)

# One run of both tiers, because each run imports all tests.
test-rest: $(VENV)/.installed-test
	$(BIN)/python $(PYTEST) -m '(docs or laws) and not slow and not gpu' $(ARGS)

test-all: $(VENV)/.installed-test
	$(BIN)/python $(PYTEST) $(ALL) $(ARGS)

coverage: $(VENV)/.installed-test
	$(BIN)/python $(PYTEST) --cov --cov-report=term $(ALL) $(ARGS)

check: lint $(VENV)/.installed-test
	$(BIN)/python $(PYTEST) $(QUICK) $(ARGS)

lint: $(VENV)/.installed-lint
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

format: $(VENV)/.installed-lint
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

docs: $(VENV)/.installed-docs
	$(BIN)/sphinx-build -W --keep-going -q -j auto -b html docs docs/_build/html
	@echo "The documentation is in docs/_build/html/index.html"

tables: export OMP_NUM_THREADS := 1
tables: $(VENV)/.installed-tables
	$(BIN)/python -m benchmarks.tables $(ARGS)

# Warnings of the AutoML tools are not errors.
test-automl: $(AUTOML)/.installed
	$(AUTOML)/bin/python $(PYTEST) -W default $(ALL) $(AUTOML_TESTS) $(ARGS)

# The models are small, so two processes would need more time to import the packages than they save.
test-foundation: $(FOUNDATION)/.installed
	$(FOUNDATION)/bin/python -m pytest -W default $(ALL) tests/foundation tests/test_peers.py $(ARGS)

test-minimum: $(MINIMUM)/.installed
	$(MINIMUM)/bin/python $(PYTEST) $(ARGS)

test-newest: $(NEWEST)/.installed
	$(NEWEST)/bin/python $(PYTEST) $(ARGS)

# The last commit and another commit, whose trees take turns.
bench-compare: $(VENV)/.installed-test
	$(BIN)/python benchmarks/compare.py $(BASE) $(ARGS)

release-check: $(VENV)/.installed-release
	$(BIN)/python .ci/release.py rehearse $(VERSION)

pin-actions:
	$(PYTHON) .ci/pin_actions.py

clean:
	rm -rf build dist plots examples/plots docs/_build docs/auto_examples docs/how-to docs/tutorials
	rm -rf docs/explanation/generated docs/reference/generated .coverage
	rm -rf docs/sg_execution_times.rst .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find skuq tests examples docs benchmarks -name __pycache__ -prune -exec rm -rf {} +

# An existing environment with pip is used without changes.
$(VENV)/.created $(AUTOML)/.created $(FOUNDATION)/.created $(MINIMUM)/.created $(NEWEST)/.created:
	@set -e; python=$$(.ci/python $(PYTHON)); \
	"$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11) and "skuq requires Python 3.11 or newer, got " \
		+ sys.version.split()[0] + ". Select another Python: make $(MAKECMDGOALS) PYTHON=python3.12")'; \
	$(@D)/bin/python -m pip --version > /dev/null 2>&1 || "$$python" -m venv $(@D)
	@touch $@

# Without npm or its registry, only the test of the page in a browser fails.
$(AXE): package.json
	@echo "Installing axe-core into node_modules (once, some seconds) ..."
	@npm install --no-package-lock --ignore-scripts --no-audit --no-fund --silent && touch $@ \
		|| echo "Not installed: axe-core. It needs npm. The test of the page in a browser will fail."

$(VENV)/.installed-%: pyproject.toml constraints.txt $(VENV)/.created
	@echo "Installing the packages of 'make $*' into $(VENV) (once, about a minute) ..."
	@$(BIN)/python $(PIP) -c constraints.txt -e '.[$*]'
	@touch $@

# The list is complete. Resolving dependencies would add 300 MB of CUDA, required by TPOT's xgboost.
$(AUTOML)/.installed: pyproject.toml requirements-automl.txt $(AUTOML)/.created
	@echo "Installing AutoML tools into $(AUTOML) (once, some minutes, 1 GB) ..."
	@$(AUTOML)/bin/python $(PIP) --no-deps -r requirements-automl.txt
	@$(AUTOML)/bin/python $(PIP) --no-deps -e .
	@touch $@

$(FOUNDATION)/.installed: pyproject.toml requirements-foundation.txt $(FOUNDATION)/.created
	@echo "Installing TabPFN and TabICL into $(FOUNDATION) (once, a minute, 1 GB) ..."
	@$(FOUNDATION)/bin/python $(PIP) --no-deps -r requirements-foundation.txt
	@$(FOUNDATION)/bin/python $(PIP) --no-deps -e .
	@touch $@

$(MINIMUM)/.installed: pyproject.toml constraints-minimum.txt $(MINIMUM)/.created
	@echo "Installing the oldest supported versions into $(MINIMUM) (once, about a minute) ..."
	@$(MINIMUM)/bin/python $(PIP) -c constraints-minimum.txt -e '.[plot]' $(TOOLS)
	@touch $@

$(NEWEST)/.installed: pyproject.toml $(NEWEST)/.created
	@echo "Installing the newest versions into $(NEWEST) (once, about a minute) ..."
	@$(NEWEST)/bin/python $(PIP) --upgrade --upgrade-strategy eager -e '.[plot,progress]' $(TOOLS)
	@touch $@
