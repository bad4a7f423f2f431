# `make audit` and `make test` are all that a newcomer needs; both need only Python 3.11 or later, make and git.

VENV ?= .venv
BIN := $(VENV)/bin
STAMPS := $(VENV)/.stamps
DATA ?= digits
WORKERS ?= 2
# Many small matrix products on few cores: threads inside each test process would only wait for one another. And
# compiled modules and numba's machine code are kept in one folder: every worker and command would compile them again.
TEST_ENV := PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 NUMBA_NUM_THREADS=1 \
  NUMBA_CACHE_DIR=$(abspath $(VENV))/.numba
SOAK_LIMIT := $(if $(shell command -v timeout 2>/dev/null),timeout --kill-after=10 1200)

.PHONY: help audit test check format soak bench docs clean
.DEFAULT_GOAL := help

help:  ## list these commands
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{printf "%-14s %s\n", $$1, $$2}'

audit: $(STAMPS)/base  ## audit scikit-learn's digits (or DATA=name or file) and say where the page is
	@$(BIN)/hardpan audit $(DATA) --out audits/$(basename $(notdir $(DATA)))
	@echo "Page: audits/$(basename $(notdir $(DATA)))/index.html"

test: $(STAMPS)/test  ## run every test but the long ones
	@sh scripts/browser
	@sh scripts/axe
	@$(TEST_ENV) $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(ARGS)

check: $(STAMPS)/check  ## lint, format, types and import contracts
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache --no-logo

format: $(STAMPS)/check  ## rewrite the code in the common format
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .
	@$(BIN)/python tests/record_kinds.py

soak: $(STAMPS)/test  ## run the long fault and load tests (at most 20 minutes)
	@sh scripts/browser
	@sh scripts/axe
	@$(TEST_ENV) HARDPAN_EXAMPLES=200 $(SOAK_LIMIT) $(BIN)/python -m pytest -m soak -n $(WORKERS) --dist worksteal $(ARGS)

bench: $(STAMPS)/bench  ## measure beside peers: all topics, or TOPIC=name (and TABLE=name where a topic has several)
	@$(BIN)/python -m bench $(TOPIC) $(if $(TABLE),--table $(TABLE))

docs: $(STAMPS)/docs  ## build the documentation into site/
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "Documentation: site/index.html (with search: python -m http.server -d site)"

clean:  ## remove everything that these commands made, the environment too
	rm -rf $(VENV) site audits .pytest_cache .mypy_cache .ruff_cache .hypothesis

# A stamp is newer than the files that decide what is installed, so a second run installs nothing.
$(STAMPS)/base: pyproject.toml constraints.txt scripts/environment
	@sh scripts/environment $(VENV) torch
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/test $(STAMPS)/check $(STAMPS)/docs $(STAMPS)/bench: pyproject.toml constraints.txt scripts/environment
	@sh scripts/environment $(VENV) $(notdir $@)
	@mkdir -p $(STAMPS) && touch $(STAMPS)/base $@
