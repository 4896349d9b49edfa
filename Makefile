# One command for each purpose. All need Python 3.11+ and make; interop and spark need Java, too.
#   make demo     watch delayed messages arrive on time
#   make check    format, lint, types, structure
#   make test     the whole suite, as CI runs it
#   make interop  the suite against real RocketMQ clients and servers
#   make spark    the data source in a local Spark
#   make hostile  full disks, damaged files, greedy clients: the long form
#   make fuzz     a million odd and damaged frames: does the broker answer on?
#   make soak     half an hour of random faults on three brokers: do the clients keep their promises?
#   make sim      10,000 simulated runs of the timer store, with crashes
#   make mutants  break one line at a time: do the tests notice?
#   make recipes  the tests of examples/testing: asyncio, anyio, Django, FastAPI, Celery
#   make bench    take the performance figures (tests/perf)
#   make clean    remove what the other commands made
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUN := $(BIN)/python

.DEFAULT_GOAL := help
.PHONY: help demo test check interop hostile fuzz soak sim mutants spark recipes bench clean

help:
	@sed -n '1,14s/^# //p' Makefile

# Two stamps: the demo needs only the run-time dependencies and the terminal extra.
$(VENV)/.base:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is needed; set PYTHON=/path/to/python3.11"; exit 1; }
	@echo "creating $(VENV) ..."
	@$(PYTHON) -m venv $(VENV) || \
	  { echo "python3 has no venv module; on Debian: apt-get install python3-venv"; exit 1; }
	@$(RUN) -m pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"
	@touch $@

$(VENV)/.demo: pyproject.toml $(VENV)/.base
	@echo "installing rocketmq-py with the terminal extra ..."
	@$(RUN) -m pip install --quiet --editable ".[cli,fast]"
	@touch $@

$(VENV)/.dev: pyproject.toml $(VENV)/.base
	@echo "installing the development tools ..."
	@$(RUN) -m pip install --quiet --editable . --group dev
	@touch $@ $(VENV)/.demo

demo: $(VENV)/.demo
	@$(RUN) examples/delayed_messages.py

# CI also runs the Spark tests and the recipes; elsewhere they run when their packages are there
# (make spark, make recipes).
test: $(VENV)/.dev $(if $(CI),$(VENV)/.spark $(VENV)/.recipes)
	@$(RUN) .ci/parts.py check tests examples smoke spark

check: $(VENV)/.dev
	@$(RUN) .ci/parts.py check

interop: $(VENV)/.dev
	@$(RUN) .ci/parts.py interop

hostile: $(VENV)/.dev
	@$(RUN) .ci/parts.py hostile

fuzz: $(VENV)/.dev
	@$(RUN) -m tests.fuzz

soak: $(VENV)/.dev
	@$(RUN) -m tests.soak --minutes 30

sim: $(VENV)/.dev
	@$(RUN) -m tests.sim --runs 10000 --processes 2

mutants: $(VENV)/.dev
	@$(RUN) -m tests.mutants

# 850 MB, and Java: so not part of the development tools.
$(VENV)/.spark: pyproject.toml $(VENV)/.dev
	@echo "installing PySpark and what Spark Connect needs ..."
	@$(RUN) -m pip install --quiet --editable . --group spark
	@touch $@

spark: $(VENV)/.spark
	@$(RUN) .ci/parts.py spark

$(VENV)/.recipes: pyproject.toml $(VENV)/.dev
	@echo "installing what the recipes of examples/testing use ..."
	@$(RUN) -m pip install --quiet --group recipes
	@touch $@

recipes: $(VENV)/.recipes
	@$(RUN) -m pytest -q tests/kit/test_recipes.py

bench: $(VENV)/.dev
	@$(RUN) -m tests.perf all

clean:
	rm -rf $(VENV) .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
