# The front door. `make` alone lists the targets; each of them first sets up .venv if it is missing or out of date.
SHELL := /bin/sh
.DEFAULT_GOAL := help

# The interpreter that .venv is made with: empty means that of an existing .venv, else the newest that is found.
PYTHON ?=
# More arguments for pytest (`make test ARGS='-k fmt'`), and the benchmarks to run (`make bench BENCH=check`).
ARGS ?=
BENCH ?=
# What `make peers` installs; wherever a build without CUDA is at hand, name it: it is a tenth of the size.
TORCH ?= torch>=2.4
export PYTHON BENCH

BIN := .venv/bin
# One process more than there are processors, five at most: some tests wait for processes of their own, or for the disk.
PROCESSES := $(shell cores=$$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2); [ $$cores -lt 4 ] || cores=4; echo $$((cores + 1)))
PYTEST := $(BIN)/pytest --numprocesses $(PROCESSES) --dist worksteal

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile

.PHONY: environment
environment: ## set up .venv if it is missing or out of date
	@sh tests/tools/environment.sh

.PHONY: test
test: environment ## every check: lint, types, then all tests
	@failed=; \
	$(MAKE) --no-print-directory lint || failed="$$failed lint"; \
	$(MAKE) --no-print-directory types || failed="$$failed types"; \
	$(PYTEST) tests $(ARGS) || failed="$$failed tests"; \
	if [ -n "$$failed" ]; then echo "make test: failed:$$failed (reported above)" >&2; exit 1; fi

.PHONY: demo
demo: environment ## a small GPT learns to write; its loss exactly, its steps replayed, what an edit compiles (3 minutes)
	@sh tests/tools/demo.sh

.PHONY: lint
lint: environment ## ruff's rules and format, and the direction of imports
	@failed=; \
	$(BIN)/ruff check --quiet --output-format concise . || failed=1; \
	$(BIN)/ruff format --quiet --check --output-format concise . || { echo "run \`make format\`"; failed=1; }; \
	$(BIN)/python tests/tools/imports.py || failed=1; \
	[ -z "$$failed" ]

.PHONY: format
format: environment ## bring all Python code into the one format, with its imports in order
	@$(BIN)/ruff check --quiet --select I --fix . ; $(BIN)/ruff format .

.PHONY: types
types: environment ## mypy, strict over the package and the tools, and over the tests
	@$(BIN)/python tests/tools/typecheck.py

.PHONY: bench
bench: environment ## the benchmarks, or those that BENCH names
	@$(BIN)/python tests/bench/run.py $(BENCH)

.PHONY: golden-update
golden-update: environment ## rewrite the golden files from what the compiler says now; read the diff
	@$(PYTEST) tests --quiet -m golden --golden-update $(ARGS)

.PHONY: fuzz
fuzz: environment ## the property tests with new and many more examples
	@$(PYTEST) tests --quiet -m hypothesis --hypothesis-profile=fuzz $(ARGS)

.PHONY: math-check
math-check: environment ## compile the equations of the corpus with LaTeX, which has to be there (a minute)
	@$(BIN)/python tests/tools/math_check.py

.PHONY: plan-check
plan-check: environment ## the corpus under plans of its defaults; every point of four nests (minutes; ARGS='--every 1': of derivatives too)
	@$(BIN)/python -m tests.tools.plan_check $(ARGS)

.PHONY: peers
peers: environment ## make PyTorch's results again, in build/peers (ARGS=--write: store them), and compare
	@[ -x build/peers/bin/python ] || $(BIN)/python -m venv build/peers
	@build/peers/bin/python -c 'import torch' 2>/dev/null || build/peers/bin/python -m pip install --quiet '$(TORCH)' numpy
	@build/peers/bin/python -m tests.peers.recompute $(ARGS)
	@build/peers/bin/python -m tests.peers.adamw_recompute $(ARGS)
	@build/peers/bin/python -m tests.peers.training_recompute $(ARGS)
	@$(BIN)/pytest --quiet tests/peers

.PHONY: exhaustive
exhaustive: environment ## run the elementary functions of f32 over all 2^32 arguments against MPFR (five minutes; ARGS=exp: one)
	@$(BIN)/python -m tests.tools.exhaustive $(ARGS)

.PHONY: lock
lock: ## rewrite requirements/*.lock from pyproject.toml (UPGRADE=1: take the newest versions)
	@sh tests/tools/lock.sh
