# Needs Python >= 3.11, git and make; everything else is installed into .venv on first use.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
LOWEST := .venv-lowest

.DEFAULT_GOAL := help
.PHONY: help install demo check test test-slow browser ceph simulate bench wheel lowest clean

# Each process that tests start would compile the project anew, and pytest each test.
unexport PYTHONDONTWRITEBYTECODE

# Processes that run tests; a file's tests stay together, and each process has its own servers.
WORKERS ?= 2

# For `make simulate`; FIRST is drawn if it is not given.
SECONDS := 3600
JOBS := 2
FIRST :=

# What `make ceph` runs when Ceph is missing.
CEPH := apt-get install -y --no-install-recommends ceph-mon ceph-osd radosgw

# What `make browser` runs when Chromium is missing; fonts, so that a page has letters.
CHROMIUM := apt-get install -y --no-install-recommends chromium fonts-liberation

help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1|/' \
		| while IFS='|' read -r name says; do printf '  %-10s %s\n' "$$name" "$$says"; done

install: $(STAMP) ## make .venv with the project and its development tools

# The stamp is newer than pyproject.toml when nothing is left to install.
$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("lakestore needs Python >= 3.11; try make PYTHON=python3.11")'
	@echo "installing into $(VENV), this takes a minute or two"
	@$(PYTHON) -m venv $(VENV) || { echo "on Debian: apt-get install python3-venv"; exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

demo: $(STAMP) ## run an agent whose sessions land in ./demo-lake, then ask SQL
	@$(BIN)/lakestore demo demo-lake

check: $(STAMP) ## lint, format, types, who may import whom, spelling
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo --no-cache
	$(BIN)/codespell

test: $(STAMP) ## every test that needs a minute, not ten; WORKERS=4 where there are more cores
	$(BIN)/pytest --numprocesses $(WORKERS) --dist loadfile

test-slow: $(STAMP) ## the slow tests: many processes, many examples, long histories
	HYPOTHESIS_PROFILE=ci $(BIN)/pytest -m "slow and not ceph and not browser"

browser: $(STAMP) ## pages in a real Chromium; as root, Debian's packages are installed
	@command -v chromium || command -v chromium-browser || command -v google-chrome || { \
		if [ "$$(id -u)" = 0 ]; then echo "$(CHROMIUM)"; apt-get update -qq && $(CHROMIUM); \
		else echo "Chromium is missing; on Debian, as root: $(CHROMIUM)"; exit 1; fi; }
	$(BIN)/pytest -m browser

ceph: $(STAMP) ## contracts and races on a Ceph of one node; as root, Debian's packages are installed
	@for each in ceph-mon ceph-osd radosgw; do command -v $$each || missing=yes; done >/dev/null; \
	if [ "$$missing" ]; then \
		if [ "$$(id -u)" = 0 ]; then echo "$(CEPH)"; $(CEPH); \
		else echo "Ceph is missing; on Debian, as root: $(CEPH)"; exit 1; fi; fi
	$(BIN)/pytest -m "ceph and not slow"

simulate: $(STAMP) ## look for faults in histories for an hour; SECONDS=60 JOBS=2 FIRST=<seed>
	$(BIN)/python -m tests.simulator --seconds $(SECONDS) --jobs $(JOBS) $(if $(FIRST),--first $(FIRST))

bench: $(STAMP) ## measure: requests and seconds, ADK's own services in the same run
	$(BIN)/pytest tests/benchmarks --bench-full --bench-json .benchmarks/figures.json \
		-o faulthandler_timeout=0

wheel: $(STAMP) ## build dist/*.whl and see that it is typed
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/python -m zipfile --list dist/*.whl | grep lakestore/py.typed

lowest: ## run the tests on the oldest dependencies that pyproject.toml allows
	$(PYTHON) -m venv --clear $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check \
		--editable '.[dev]' --constraint tests/constraints-lowest.txt
	$(LOWEST)/bin/pytest

clean: ## remove what make made, .venv and demo-lake too
	rm -rf $(VENV) $(LOWEST) build dist demo-lake .hypothesis .benchmarks
	rm -rf .mypy_cache .pytest_cache .ruff_cache
	find lakestore tests -name __pycache__ -type d -prune -exec rm -rf {} +
