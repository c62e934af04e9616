# Everything sets itself up on a fresh machine: Python 3.11 or newer with venv, make, gcc.
# `make demo`, `test`, `test-compiled`, `clients`, `page`, `pictures`, `check`, `schema`, `seeds`, `campaign`, `bench`, `bench-queue`, `bench-page`, `bench-gate`, `clean`
# PYTHON=... chooses the interpreter.

.DEFAULT_GOAL := help
.PHONY: help demo test test-compiled clients page pictures check schema seeds campaign bench bench-queue bench-page bench-gate clean

VENV := .venv
COMPILED := .cache/compiled
BIN := $(VENV)/bin
RUN := $(BIN)/python
PAGE := src/headway/web/index.html
CHECKED := src tests $(wildcard demo bench)
PIP := $(RUN) -m pip install --quiet --disable-pip-version-check
# How long the demo runs, in seconds; empty: until Ctrl-C.
SECONDS := 60
# What the simulation plays, as `headway sim --seeds` takes it, and for how long a campaign goes on. Without SEEDS a
# campaign begins at a number made from the date: other days, other seeds.
SEEDS :=
MINUTES := 60
# More options for pytest: make test PYTEST="-k gate", and for the gate's bench: make bench-gate GATE="--first --write"
PYTEST :=
GATE :=
QUEUE :=

help:
	@sed -n '2p' Makefile | cut -c3-

demo: $(VENV)/demo.stamp
	$(RUN) -m demo $(if $(SECONDS),--seconds $(SECONDS))

test: $(VENV)/dev.stamp $(PAGE)
	$(RUN) -m pytest -n 2 --dist worksteal -m "not strict" --durations 10 $(PYTEST)

# The web page, one file; the build hook makes it, with a node of its own where the machine has none.
page: $(PAGE)

$(PAGE): hatch_build.py $(shell find ui -name node_modules -prune -o -type f -print) | $(VENV)/dev.stamp
	$(PIP) --no-deps --editable .
	@test -e $@ || { echo "The page was not built: see ui/, and what 'cd ui && npm ci && npm run build' says." >&2; exit 1; }
	@touch $@

# The pictures of docs/howto/page.md, from a Headway with a simulated device.
pictures: $(VENV)/dev.stamp $(PAGE)
	@mkdir -p docs/pictures
	HEADWAY_PICTURES="$(CURDIR)/docs/pictures" $(RUN) -m pytest -q -p no:xdist tests/page/test_pictures.py

# litellm and llm are large (300 MB, half a minute) and strangers to us: in a Python of their own, and only where asked
# for. With them `make test` tries the gate with these two as well.
CLIENTS := .cache/clients
clients: $(CLIENTS)/stamp

$(CLIENTS)/stamp: tests/parts/clients.txt | $(RUN)
	$(RUN) -m venv $(CLIENTS)
	$(CLIENTS)/bin/python -m pip install --quiet --disable-pip-version-check -r tests/parts/clients.txt
	@touch $@

# The gate's own tests against the gate as machine code, in a wheel as pip builds it: docs/howto/compiled-gate.md
GATE_TESTS := $(wildcard tests/contract/test_gate_*.py tests/contract/test_holding*.py) \
  $(addprefix tests/contract/test_,compiled.py protocol.py known_heads.py link_machine.py) tests/e2e/test_gate_process.py
test-compiled: $(COMPILED)/stamp
	HEADWAY_COMPILED=1 PYTHONPATH="$(CURDIR)/$(COMPILED)/tree:$(CURDIR)" $(RUN) -m pytest -n 2 --dist worksteal \
	  -m "not strict" -o pythonpath="$(COMPILED)/tree ." $(GATE_TESTS) $(PYTEST)

$(COMPILED)/stamp: pyproject.toml hatch_build.py $(wildcard src/headway/*.py src/headway/*/*.py) | $(VENV)/dev.stamp
	rm -rf $(COMPILED)
	HEADWAY_COMPILE=1 $(RUN) -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir $(COMPILED) .
	$(RUN) -m zipfile -e $(COMPILED)/*.whl $(COMPILED)/tree
	@touch $@

check: $(VENV)/dev.stamp $(PAGE)
	$(RUN) -m ruff check $(CHECKED) hatch_build.py
	$(RUN) -m ruff format --check $(CHECKED) hatch_build.py
	$(RUN) -m mypy $(CHECKED)
	$(BIN)/lint-imports --no-logo
	cd ui && PATH="$(CURDIR)/$(BIN):$$PATH" && export PATH && { test -d node_modules || npm ci --silent; } && npm run --silent check
	$(RUN) -m pytest -q -p no:xdist tests/core/test_tidy.py

# The API against whatever fits its OpenAPI document and whatever does not: some minutes.
schema: $(VENV)/dev.stamp
	HEADWAY_EXAMPLES=$(or $(EXAMPLES),60) $(RUN) -m pytest -n 2 --dist worksteal --timeout 1200 tests/contract/test_api_schema.py $(PYTEST)

# The simulation as CI runs it: each seed an hour of virtual time, twice, and the campaign must have seen everything.
seeds: $(VENV)/dev.stamp
	$(BIN)/headway sim --seeds $(or $(SEEDS),1-200) --twice --coverage

# As many seeds of 20 virtual minutes as fit, on all cores.
campaign: $(VENV)/dev.stamp
	$(BIN)/headway sim --seeds $(or $(SEEDS),$(shell date +%Y%m%d)000000-) --hours 0.34 --minutes $(MINUTES)

bench: $(VENV)/demo.stamp
	$(RUN) -m bench.turn
	$(RUN) -m bench.swap

# Three minutes; QUEUE=--first where the cores have something else to do (root).
bench-queue: $(VENV)/demo.stamp
	$(RUN) -m bench.queue $(QUEUE)

# Two minutes, and a Chromium; BENCH_PAGE=--first where the cores have something else to do (root).
bench-page: $(VENV)/dev.stamp $(VENV)/demo.stamp $(PAGE)
	$(RUN) -m bench.page $(BENCH_PAGE)

# Beside nginx and HAProxy, where they are installed; needs two cores that have little else to do, or GATE=--first.
bench-gate: $(VENV)/demo.stamp
	$(RUN) -m bench.gate $(GATE)

clean:
	rm -rf $(VENV) .cache build dist src/headway/web ui/node_modules .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(RUN):
	@set -e; \
	for candidate in "$(PYTHON)" python3.13 python3.12 python3.11 python3; do \
	  if [ -n "$$candidate" ] && "$$candidate" -c \
	    'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then \
	    echo "venv: $$("$$candidate" --version)"; \
	    exec "$$candidate" -m venv $(VENV); \
	  fi; \
	done; \
	echo "Headway needs Python 3.11 or newer with venv (Debian: apt install python3-venv)." >&2; exit 1

$(VENV)/demo.stamp: pyproject.toml | $(RUN)
	$(PIP) --editable '.[demo]'
	@touch $@

$(VENV)/dev.stamp: pyproject.toml | $(RUN)
	$(PIP) --editable '.[demo,dev]'
	@touch $@ $(VENV)/demo.stamp
