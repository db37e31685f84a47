# `make` alone lists the targets. Everything runs in .venv; VENV=DIR takes another one, PYTHON=... the interpreter to make it with.

VENV ?= .venv
BIN := $(VENV)/bin
PYTHON ?= $(shell for python in python3 python3.13 python3.12 python3.11; do \
	if "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then echo "$$python"; break; fi; done)
INSTALL := PIP_CONSTRAINT=constraints.txt PIP_BUILD_CONSTRAINT=constraints.txt PIP_DISABLE_PIP_VERSION_CHECK=1 \
	$(BIN)/python -m pip install --quiet --retries 10

# Tests run in parallel, up to four at a time; WORKERS=0 runs them in one process (for a debugger).
WORKERS ?= logical
# Compiled modules and rewritten tests are kept: without them each worker of each run takes six seconds more to start.
unexport PYTHONDONTWRITEBYTECODE
PYTEST := $(BIN)/python -m pytest --numprocesses=$(WORKERS) --maxprocesses=4 --dist=loadgroup
SAMPLE := -m "not prove"
# Where a folder is removed in no time, and a disk may take milliseconds; where nothing can be started it is of no use.
MEMORY := $(shell [ -w /dev/shm ] && ! grep -q ' /dev/shm .*noexec' /proc/mounts && echo /dev/shm)
FAST := $(MEMORY:%=TMPDIR=%) $(PYTEST) --dist=worksteal --hypothesis-profile=quotaform-fast -o tmp_path_retention_policy=failed -m "not kafka and not spark and not workflow and not exhaustive and not slow and not prove" \
	--ignore=tests/property --ignore=tests/fuzz --ignore=tests/kafka --ignore=tests/spark --ignore=tests/workflow --ignore=tests/browser --ignore=src/quotaform/fleet --ignore=src/quotaform/history --ignore=src/quotaform/usage \
	--ignore-glob='src/quotaform/*/spark*.py'

# What `make constraints` keeps from moving.
HELD ?= pyspark==4.2.0

# What `make test-versions` looks for, with pyenv or on the PATH.
VERSIONS ?= 3.11 3.12 3.13

# What `make test-brokers` runs, and on which releases of the sandbox.
BROKERS ?= 2.8 3.3 3.9 4.0 4.3
ON_BROKERS := tests/kafka/test_broker_facts.py tests/kafka/test_gateway.py tests/kafka/test_filter.py \
	tests/kafka/test_interop.py tests/kafka/test_enforcement.py tests/workflow/test_loop.py

LEAN := $(VENV)/.quotaform-demo
FULL := $(VENV)/.quotaform-dev
SPARK := $(VENV)/.quotaform-spark.jsa
KERBEROS := $(VENV)/.quotaform-kerberos
INPUTS := pyproject.toml constraints.txt

.DEFAULT_GOAL := help
.PHONY: help venv setup demo demo-fleet demo-usage test test-fast test-kafka test-brokers test-spark test-versions prove check lint format fuzz faults bench golden schemas docs images constraints clean

help: ## list the targets
	@awk 'BEGIN { FS = ":.*## " } /^[a-z-]+:.*## / { printf "  %-13s %s\n", $$1, $$2 }' Makefile

venv: setup
setup: $(FULL) $(KERBEROS) ## make .venv with everything that development needs (also: make venv)

demo: $(LEAN) ## run the full workflow on a real Apache Kafka; needs only Python 3.11+
	@$(BIN)/quotaform demo

demo-fleet: $(FULL) ## plan and apply three clusters on Spark, with history (two minutes); needs a JDK 17+
	@$(BIN)/quotaform demo --fleet

demo-usage: $(FULL) ## record real traffic, backtest a plan and right-size quotas on Spark (three minutes); needs a JDK 17+
	@$(BIN)/quotaform demo --usage

test: $(FULL) $(KERBEROS) $(SPARK) ## run the tests; a broker is started by the tests, Spark needs a JDK 17+
	$(PYTEST) $(SAMPLE)

test-fast: $(FULL) ## run the tests that need neither a broker nor Spark, without the property, exhaustive and slow ones (seconds)
	$(FAST)

test-kafka: $(FULL) $(KERBEROS) ## run the tests on a real broker
	$(PYTEST) $(SAMPLE) tests/kafka tests/workflow

test-brokers: $(FULL) ## run the tests of the gateway, the loop, throttling and interop on each age of Kafka; BROKERS="2.8 3.3" for some
	@for kafka in $(BROKERS); do echo "Kafka $$kafka"; QUOTAFORM_SANDBOX_KAFKA=$$kafka $(PYTEST) $(SAMPLE) $(ON_BROKERS) || exit 1; done

test-spark: $(FULL) $(SPARK) ## run the tests on Spark
	$(PYTEST) $(SAMPLE) tests/spark

test-versions: ## run the tests of test-fast on each Python that is installed, in a venv of its own
	@found=; for version in $(VERSIONS); do \
		python=$$(ls -d "$$HOME"/.pyenv/versions/$$version.*/bin/python 2>/dev/null | tail -n 1); \
		python=$${python:-$$(command -v python$$version)}; \
		if ! "$$python" -c '' 2>/dev/null; then echo "Python $$version is not installed: not tested"; continue; fi; \
		found="$$found $$version"; \
		$(MAKE) --no-print-directory test-fast VENV=build/python$$version PYTHON="$$python" || exit 1; \
	done; if [ -z "$$found" ]; then echo "None of Python $(VERSIONS) is installed." >&2; exit 1; fi; echo "Tested on Python$$found"

prove: $(FULL) $(SPARK) ## run the long proofs (an hour), of which `make test` has a sample: tests, fuzzing, faults
	$(PYTEST) -m prove
	$(MAKE) fuzz faults

check: lint test ## what CI runs: formatting, lint, types, architecture, all tests

lint: $(FULL) ## formatting, lint, types, architecture
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m ruff check .
	$(BIN)/python -m mypy
	$(BIN)/lint-imports

format: $(FULL) ## format the code and apply the safe fixes
	$(BIN)/python -m ruff format .
	$(BIN)/python -m ruff check --fix .

fuzz: $(FULL) ## read documents changed at random (5 minutes); FUZZ="--minutes 5 --seed N --target plan"
	$(BIN)/python -m tests.fuzz $(FUZZ)

faults: $(FULL) ## apply with faults on three brokers (20 minutes); FAULTS="--rounds 100 --seed N"
	$(BIN)/python -m tests.faults $(FAULTS)

bench: $(FULL) ## measure against the floors (minutes); BENCH="--large --json FILE" for more
	$(BIN)/python bench/run.py $(BENCH)

golden: $(FULL) ## rewrite the golden files from the current output; review the diff before committing
	QUOTAFORM_UPDATE_GOLDEN=1 $(BIN)/python -m pytest -q tests/golden tests/unit/test_ci_files.py \
		tests/unit/test_many_limits.py tests/workflow/test_ci_files.py

schemas: $(FULL) ## rewrite schemas/ from the package
	$(BIN)/python -m tools.schema_files schemas

docs: $(FULL) ## rewrite docs/commands.md, docs/rules.md and the tables of docs/files.md and docs/brokers.md from the code
	$(BIN)/python -m tools.commands_page docs/commands.md
	$(BIN)/python -m tools.rules_page docs/rules.md
	$(BIN)/python -m tools.key_table docs/files.md
	$(BIN)/python -m tools.broker_facts docs/brokers.md

images: $(DEV) ## draw the pictures of docs/pages.md (needs chromium)
	$(BIN)/python -m tools.page_images docs/images

constraints: ## rewrite constraints.txt from a fresh install of everything (Python 3.11)
	rm -rf build/constraints && $(PYTHON) -m venv build/constraints
	build/constraints/bin/python -m pip install --quiet -e '.[sandbox,spark,aws,oauth,stores,kerberos,dev]' hatchling editables $(HELD)
	{ sed '/^[^#]/d' constraints.txt; build/constraints/bin/python -m pip freeze --exclude-editable; } > build/constraints.txt
	mv build/constraints.txt constraints.txt

clean: ## remove what was built, cached or installed here
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis spark-warehouse metastore_db derby.log
	find src tests bench -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@if [ -z "$(PYTHON)" ]; then echo "No Python 3.11 or newer is on the PATH; name one: make PYTHON=/path/to/python3" >&2; exit 1; fi
	$(PYTHON) -m venv $(VENV) || { rm -f $@; exit 1; }

$(LEAN): $(INPUTS) | $(BIN)/python
	$(INSTALL) -e '.[sandbox]' -c constraints.txt
	@touch $@

$(FULL): $(INPUTS) | $(BIN)/python
	$(INSTALL) -e '.[sandbox,spark,aws,oauth,stores,dev]' -c constraints.txt
	@touch $(LEAN) $@

# Built from source, so not everybody can install it: the tests on the broker with all mechanisms fail without it.
$(KERBEROS): $(FULL)
	@if $(INSTALL) -e '.[kerberos]' -c constraints.txt >$(VENV)/kerberos.log 2>&1; then touch $@; else \
		echo "The extra kerberos could not be installed ($(VENV)/kerberos.log): apt-get install" \
			"krb5-kdc krb5-admin-server krb5-user libkrb5-dev gcc, then make setup" >&2; fi

# Without it the Java processes of the tests start as well, in twice the time.
$(SPARK): $(FULL)
	-$(BIN)/python -m tests.spark.shared_classes $@
