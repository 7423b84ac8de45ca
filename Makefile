# make demo    a fresh machine shows what this is: installs, replays an incident, proves that nothing is lost
# make test    sets everything up and runs all tests
SHELL := /bin/sh
VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
DEMO_DB := build/demo/incident.db
DATA ?=
# Tests start many interpreters: each would compile the package anew where this is set.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test lint format bench test-browser test-hosts test-agents test-matrix clean

demo: $(VENV)/.core
	@rm -rf build/demo && mkdir -p build/demo
	@$(BIN)/lcm replay examples/incident.jsonl --budget 16000 --database $(DEMO_DB)
	@echo
	@echo "Look around:  $(BIN)/lcm tree agent:replay:main --database $(DEMO_DB)"
	@echo "Find again:   $(BIN)/lcm grep 'poison message' --database $(DEMO_DB)"

test: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2 --dist worksteal

lint: $(VENV)/.dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.dev
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

bench: $(VENV)/.dev
	$(BIN)/python benchmarks/turns.py
	$(BIN)/python benchmarks/summary_retention.py $(DATA) examples/incident.jsonl

# The exported page in a real Chromium, driven from an environment of its own under .venvs/.
test-browser: $(VENV)/.dev
	tests/browser/run.sh

# Each host's own tests drive the real host, in an environment of its own under .venvs/.
HOSTS := $(patsubst tests/hosts/%/requirements.txt,%,$(wildcard tests/hosts/*/requirements.txt))

test-hosts: $(HOSTS:%=test-host-%)

test-host-%:
	tests/hosts/run.sh $* -n 2

# The real coding agents, from npm, against one fake model server.
test-agents: $(VENV)/.dev
	tests/hosts/agents/run.sh

# The oldest supported and the newest version of each host on Python 3.11 to 3.13.
test-matrix:
	tests/hosts/matrix.sh

clean:
	rm -rf $(VENV) .venvs build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed; set PYTHON=/path/to/python3" >&2; exit 1; }
	@echo "Setting up $(VENV) with $$($(PYTHON) --version) …"
	@$(PYTHON) -m venv $(VENV) || { echo "venv failed; on Debian: apt-get install python3-venv" >&2; exit 1; }

$(VENV)/.core: pyproject.toml | $(BIN)/python
	@echo "Installing …"
	@$(PIP) install --editable .
	@touch $@

$(VENV)/.dev: pyproject.toml | $(VENV)/.core
	@echo "Installing what the tests need …"
	@$(PIP) install --upgrade pip
	@$(PIP) install --editable '.[litellm,postgres,semantic,semantic-multilingual,zstd]' --group dev
	@touch $@
