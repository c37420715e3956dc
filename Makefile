# Two commands are all a newcomer needs: `make setup` and `make test`.
PYTHON         ?= python3
VENV           := .venv
BIN            := $(VENV)/bin
STAMP          := $(VENV)/.setup-done
# Two more than there are cores: flows mostly wait.
PYTEST_WORKERS ?= $(shell $(PYTHON) -c 'import os; print(os.cpu_count() + 2)')
PYTEST_ARGS    ?=
SCALE          ?= all
E2E            ?= all
GITEA          ?= all
# Their command lines and records change from version to version: these were tried.
NODE_AGENTS    := @anthropic-ai/claude-code@2.1.197 @openai/codex@0.169.0 @google/gemini-cli@0.61.0 \
                  opencode-ai@1.18.33 @github/copilot@1.0.102
# The smallest that also speaks the Agent Client Protocol: `make test` tries it both ways.
ONE_AGENT      := $(filter @google/gemini-cli@%,$(NODE_AGENTS)) gemini
PYTHON_AGENTS  := aider-chat==0.86.2 mini-swe-agent==2.4.6

# Stored bytecode is what `collect` is for; without it each worker and each program compiles what it imports.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup test pytest lint types collect test-agents test-e2e test-scale test-forges check descriptions one-agent format demo recording soak storms bench mutants lock clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## a .venv with the locked versions and this project in it

$(STAMP): requirements.lock pyproject.toml setup.py tools/check_python.py
	@$(PYTHON) tools/check_python.py
	$(PYTHON) -m venv $(VENV)
	@# The lock file is complete, so pip need not resolve: its resolver stumbles over hashes of packages with extras.
	$(BIN)/python -m pip install --quiet --require-hashes --no-deps -r requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	$(BIN)/python -m pip check
	@# A new Prefect database takes 10 s of migrations; this one is copied whenever a private server needs one.
	$(BIN)/python -m irontree.flows.server.private --build-template
	@touch $@
	@echo "Ready. The main job on a sample: make demo. Your own repository: $(BIN)/irontree --help"

check: lint types ## formatting, lint and types, without running anything

lint: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: lint
	$(BIN)/python tools/link_tree.py
	$(BIN)/mypy

descriptions: $(STAMP) ## what GitHub publishes of its API, for the tests to compare with (needs npm)
	@$(BIN)/python tools/fetch_descriptions.py

one-agent: $(STAMP) ## one real agent program for the tests that call it (needs npm)
	@$(BIN)/python tools/fetch_agent.py $(ONE_AGENT)

collect: build/collected.txt # compile the tests once: else each worker does so for itself (10 s)

build/collected.txt: $(STAMP) $(shell find tests conftest.py -name '*.py')
	@mkdir -p build
	@$(BIN)/python -m pytest --collect-only -qq >$@ || { cat $@; rm $@; exit 1; }

test: $(STAMP) ## the tests; CI runs test-e2e and test-scale too, in their small forms
	@# Types are looked at beside the first tests: without what mypy remembers, that takes one core for 40 s.
	@$(MAKE) --no-print-directory --jobs=4 types pytest

pytest: lint descriptions one-agent collect
	@tools/in_memory $(BIN)/python -m pytest -n $(PYTEST_WORKERS) --dist loadfile --no-loadscope-reorder $(PYTEST_ARGS)

test-agents: $(STAMP) build/agents/.installed ## real agent programs against a stand-in for their services (10 minutes)
	AGENTS=all $(BIN)/python -m pytest tests/agents $(PYTEST_ARGS)

test-e2e: $(STAMP) ## whole programs: the demo as typed, killed and served, the pages in Chromium; E2E=one: without the longest
	@# UPDATE_IMAGES=1 takes the pictures of docs/ anew.
	E2E=$(E2E) tools/in_memory $(BIN)/python -m pytest -n $(PYTEST_WORKERS) --dist loadfile -o faulthandler_timeout=0 tests/e2e $(PYTEST_ARGS)

test-scale: $(STAMP) ## several API servers and workers, with PostgreSQL and Redis (10 minutes; needs both); SCALE=one: a small form
	SCALE=$(SCALE) $(BIN)/python -m pytest tests/scale $(PYTEST_ARGS)

test-forges: $(STAMP) ## real Gitea servers, built from their Go module the first time (5 minutes each; needs Go); GITEA=one: the newest
	@$(BIN)/python -m tools.build_gitea
	GITEA=$(GITEA) $(BIN)/python -m pytest tests/forges $(PYTEST_ARGS)

build/agents/.installed: Makefile
	npm install --silent --no-audit --no-fund --prefix build/agents $(NODE_AGENTS)
	$(PYTHON) -m venv build/agents/python
	build/agents/python/bin/python -m pip install --quiet $(PYTHON_AGENTS)
	@touch $@

format: $(STAMP) ## put the formatting right
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

demo: $(STAMP) ## the main job on a sample repository, offline
	$(BIN)/irontree demo

recording: $(STAMP) ## the picture in the README, from the demo as it is typed and answered
	$(BIN)/python -m tools.record docs/images/demo.svg

soak: $(STAMP) ## all tests in their longer forms: every kill point, many examples, the stateful model for long (hours)
	@# Tests that last longer than its limit are the rule here, and its look at their stacks has ended a worker.
	SOAK=all $(BIN)/python -m pytest -n $(PYTEST_WORKERS) --dist loadfile --no-loadscope-reorder -o faulthandler_timeout=0 $(PYTEST_ARGS)

storms: $(STAMP) ## 200 storms of SIGKILL from outside (hours); goes on where it was stopped; STORMS=n, SEED=n, STORM=seed
	$(BIN)/python -m tools.storms

bench: $(STAMP) ## compare with the baselines; writes build/bench.json
	@mkdir -p build
	$(BIN)/python -m benchmarks

mutants: build/mutants/sample.json ## how many small faults in the code the tests notice (two hours); goes on where it was stopped
	$(BIN)/python -m tools.mutants run
	@$(BIN)/python -m tools.mutants report

build/mutants/sample.json: $(STAMP)
	$(BIN)/python -m tools.mutants collect
	$(BIN)/python -m tools.mutants sample

lock: $(STAMP) ## resolve requirements.lock anew from pyproject.toml
	$(BIN)/python -m pip install --quiet --upgrade --target build/uv uv
	build/uv/bin/uv pip compile --universal --python-version 3.11 --generate-hashes --extra dev --extra scale --extra browser --quiet \
	  --no-header --no-emit-index-url --no-emit-find-links --no-annotate pyproject.toml -o requirements.lock

clean: ## remove everything that can be made again
	rm -rf $(VENV) build dist irontree-demo .mypy_cache .pytest_cache .ruff_cache .hypothesis src/*.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
