# Every target sets up what it needs: python3 >= 3.11 with venv, make and a package index are enough.
TARGETS := help plan test check test-wheel golden scorecard fuzz bench-plan bench-staging bench-gateway bench-clients bench-proxy bench-tools requirements clean
# A word that is not a target names the stack, and so does stack= in small letters.
WORDS := $(filter-out $(TARGETS),$(MAKECMDGOALS))
ifneq (,$(filter plan,$(MAKECMDGOALS)))
$(if $(or $(word 2,$(WORDS)),$(and $(WORDS),$(filter command,$(origin STACK)))),$(error one stack at a time: make plan STACK=$(firstword $(WORDS))))
$(if $(WORDS),$(eval STACK := $(WORDS))$(eval .PHONY: $(WORDS))$(eval $(WORDS): ; @:))
endif
STACK ?= $(if $(filter command,$(origin stack)),$(stack),l4)
ARGS ?=
# Tests that wait more than they work: three at once keep two cores busy.
WORKERS ?= 3
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
BENCH := .venv-bench
# Python compiles a module when it is first imported: compiling all of pulumi_gcp ahead takes longer than its download.
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --no-compile
# Container images often set this; then each process of a test would compile the whole program again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: $(TARGETS)

help: ## list what there is to run
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

plan: $(VENV)/.run ## plan a stack, offline: make plan STACK=v6e4 ARGS='--full'
	@$(BIN)/gemma4 plan $(STACK) $(ARGS)

test: $(VENV)/.dev ## run all tests, some minutes; what lacks a tool is skipped
	@$(BIN)/python -m pytest -q -n $(WORKERS) --dist loadfile $(ARGS)

check: $(VENV)/.dev ## check format, lint, types, and which room imports which
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/mypy --python-version 3.10 containers
	@$(BIN)/lint-imports --no-logo

test-wheel: $(VENV)/.run ## test that the built wheel plans as the checkout does
	@scripts/test_wheel.sh $(BIN)

golden: $(VENV)/.dev ## write golden plans, generated pages and README's blocks
	@$(BIN)/python -m tests.golden

scorecard: $(VENV)/.run ## write docs/scorecard.md: predictions beside published runs
	@$(BIN)/gemma4 scorecard --markdown >docs/scorecard.new && mv docs/scorecard.new docs/scorecard.md

fuzz: $(VENV)/.dev ## try 5,000 random plans: make fuzz ARGS='--seed 2'
	@$(BIN)/python -m scripts.fuzz_plans $(ARGS)

bench-plan: $(VENV)/.run ## measure time and memory of `gemma4 plan`
	@$(BIN)/python -m scripts.bench_plan $(ARGS)

bench-staging: $(VENV)/.dev ## measure the weights copy beside a plain curl
	@$(BIN)/python -m scripts.bench_staging $(ARGS)

bench-gateway: $(VENV)/.dev ## measure what the gateway adds to a stream (needs HAProxy)
	@$(BIN)/python -m scripts.bench_gateway $(ARGS)

bench-clients: $(VENV)/.dev $(BENCH)/.run ## measure what it costs to read a stream
	@$(BIN)/python -m scripts.bench_clients $(ARGS)

bench-proxy: $(VENV)/.dev ## measure what gemma4 proxy adds to a stream
	@$(BIN)/python -m scripts.bench_proxy $(ARGS)

bench-tools: $(BENCH)/.run ## install aiperf, with which gemma4 bench sends load

requirements: ## compile the pinned, hashed requirements (needs uv)
	uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url -q -o requirements.txt
	uv pip compile pyproject.toml --extra mcp -c requirements.txt --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url -q -o requirements-mcp.txt
	uv pip compile pyproject.toml --extra report -c requirements.txt --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url -q -o requirements-report.txt
	uv pip compile pyproject.toml --extra dev -c requirements-mcp.txt -c requirements-report.txt --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url -q -o requirements-dev.txt
	uv pip compile requirements-bench.in --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url -q -o requirements-bench.txt

clean: ## remove the virtual environment and all caches
	rm -rf $(VENV) $(BENCH) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache *.egg-info

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "gemma4 needs Python 3.11 or later; '$(PYTHON)' is $$($(PYTHON) -V 2>&1). Name another: make $(MAKECMDGOALS) PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { echo "python3 has no venv module; on Debian or Ubuntu: apt-get install python3-venv"; exit 1; }

$(VENV)/.run: requirements.txt pyproject.toml | $(VENV)/bin/python
	@echo "installing the pinned requirements into $(VENV) (once: about a minute, 300 MB)" >&2
	@$(PIP) --require-hashes -r requirements.txt
	@$(PIP) --no-deps --no-build-isolation --config-settings editable_mode=compat -e .
	@touch $@

$(VENV)/.dev: requirements-dev.txt $(VENV)/.run
	@echo "installing the development requirements into $(VENV)" >&2
	@$(PIP) --require-hashes -r requirements-dev.txt
	@touch $@

# aiperf pins what this program pins otherwise (rich, for one), so that the two cannot share an environment.
$(BENCH)/.run: requirements-bench.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "aiperf needs Python 3.11 or later; name one: make bench-tools PYTHON=python3.12"; exit 1; }
	@echo "installing aiperf into $(BENCH) (once: some minutes, 840 MB)" >&2
	@$(PYTHON) -m venv $(BENCH)
	@$(BENCH)/bin/python -m pip --disable-pip-version-check install --quiet --require-hashes -r requirements-bench.txt
	@touch $@
