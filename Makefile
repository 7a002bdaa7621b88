# Everything a person or a machine does with this repository. Needs Python 3.11 or newer, make and the package registries.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:

PYTHON ?= $(shell for each in python3 python3.13 python3.12 python3.11 python; do \
	"$$each" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$each" && break; done)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
export PIP_RETRIES ?= 8
# Tests of one file stay together: they share brokers. They wait for processes more than they compute.
PARALLEL := -n 3 --dist loadfile
# Suites that start programs of others: a few failures get a second try alone, and are named at the end.
RUN_TESTS := $(BIN)/python scripts/run_tests.py
EXACTLY_ONCE := tests/spark/test_exactly_once.py tests/spark/test_fire.py
BUILT_FROM := pyproject.toml $(wildcard setup.py) $(wildcard src/ottla/records/*.pyx src/ottla/records/*.pxi)

.PHONY: help demo test steady lint unit clients oracle cluster spark docs package release sim faults bench fmt clean

help: ## this list
	@echo "ottla, a Kafka-compatible event streaming platform in Python"
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.installed-demo ## a cluster at work: a shop, a group, a crash, a Spark pipeline; DEMO="--once" picks options
	@$(BIN)/ottla demo $(DEMO)

test: $(VENV)/.packages steady lint unit clients oracle cluster spark package ## lint, types, import walls and all tests
	@if [ -s build/unsteady-tests ]; then echo "make test: passed, but these failed once and passed alone (find out why):"; \
		cat build/unsteady-tests; else echo "make test: everything passed"; fi

steady:
	@rm -f build/unsteady-tests

lint: $(VENV)/.installed-dev ## ruff, mypy --strict and the import walls
	@echo "== ruff"; $(BIN)/ruff check . && $(BIN)/ruff format --check .
	@echo "== mypy"; $(BIN)/mypy
	@echo "== import walls"; $(BIN)/lint-imports

unit: $(VENV)/.installed-dev ## unit and property tests; the record codec also in its pure Python form
	@# A fixed order of sets: a world that is drawn from a seed is the same one in every run.
	@echo "== unit, property, simulation and fault tests"; PYTHONHASHSEED=0 $(BIN)/pytest -q $(PARALLEL) tests/unit tests/property tests/sim tests/faults
	@echo "== the record codec without its compiled twin"; OTTLA_PURE_PYTHON=1 $(BIN)/pytest -q tests/unit/records

clients: $(VENV)/.installed-dev $(VENV)/.packages ## real clients over real sockets, and the test kit that gives users a broker
	@echo "== clients"; $(RUN_TESTS) clients $(PARALLEL) tests/clients tests/testing

oracle: $(VENV)/.installed-dev $(VENV)/.packages ## the same requests to ottla and to a real Kafka
	@echo "== oracle"; $(BIN)/pytest -q tests/oracle

cluster: $(VENV)/.installed-dev $(VENV)/.packages ## processes under faults: kill -9, full disks, bad input
	@echo "== cluster"; $(BIN)/pytest -q $(PARALLEL) tests/cluster

spark: $(VENV)/.installed-dev $(VENV)/.packages ## topics as Spark's tables and streams
	@echo "== spark, exactly-once"; $(BIN)/pytest -q $(EXACTLY_ONCE)
	@echo "== spark"; $(RUN_TESTS) spark tests/spark $(EXACTLY_ONCE:%=--ignore %)

docs: $(VENV)/.installed-dev ## the documentation as a site, in build/site
	@$(BIN)/python scripts/build_docs.py

package: $(VENV)/.installed-dev $(VENV)/.packages ## the documentation run as written; the wheel in empty environments
	@echo "== documentation and packaging"; $(RUN_TESTS) package tests/docs tests/packaging

release: $(VENV)/.installed-dev ## wheel and source distribution of this commit in dist/, built and checked; uploads nothing
	@$(BIN)/python scripts/release.py

sim: $(VENV)/.installed ## whole clusters in simulated worlds, seed after seed; SIM="--seed 7" repeats one
	@$(BIN)/python -m ottla.sim $(SIM)

faults: $(VENV)/.installed-dev ## every call of a disk made to fail with every error, and every end after it: all cases
	@OTTLA_FAULTS=all PYTHONHASHSEED=0 $(BIN)/pytest -q -n 0 tests/faults

bench: $(VENV)/.installed-dev $(VENV)/.packages ## ottla and Apache Kafka side by side; BENCH="--only load" picks parts
	@$(BIN)/python -m bench.run $(or $(BENCH),--keep)

fmt: $(VENV)/.installed-dev ## format and repair what ruff can repair
	@$(BIN)/ruff check --fix . && $(BIN)/ruff format .

clean: ## remove the environment, caches and what the bench left
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache build dist bench/work demo-data
	rm -rf src/*.egg-info src/ottla/records/_codec*.so src/ottla/records/_codec.c
	find src tests bench scripts -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "ottla needs Python 3.11 or newer: install it, or name it with make PYTHON=…" >&2; exit 1; }
	@echo "== making $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
		echo "this Python cannot make environments: install its venv module (Debian: apt-get install python3-venv)" >&2; exit 1; }

$(VENV)/.installed: $(BUILT_FROM) | $(BIN)/python
	@echo "== installing ottla"
	@$(PIP) install --quiet --editable .
	@touch $@

$(VENV)/.installed-dev: $(BUILT_FROM) | $(BIN)/python
	@echo "== installing ottla and what its tests need"
	@$(PIP) install --quiet --editable '.[dev]'
	@touch $@ $(VENV)/.installed $(VENV)/.installed-demo

$(VENV)/.installed-demo: $(BUILT_FROM) | $(BIN)/python
	@echo "== installing ottla and Spark for its pipelines (some 450 MB, once)"
	@$(PIP) install --quiet --editable '.[spark]'
	@touch $@ $(VENV)/.installed

$(VENV)/.packages: scripts/install-test-packages scripts/fetch-test-jars | $(BIN)/python
	@scripts/install-test-packages
	@scripts/fetch-test-jars
	@touch $@
