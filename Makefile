# Everything a contributor or CI runs. `make demo` and `make test` set up what they need by themselves.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test check format bench soak lock docs golden clean

demo: $(READY)  ## run the demo suite offline, with the scripted model
	$(BIN)/agentv eval examples/quickstart/suite.yaml

test: $(READY)  ## the tests
	$(BIN)/pytest -n 2 -q

check: $(READY)  ## what CI runs: format, lint, types, then the tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/mypy tests
	$(MAKE) test

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(READY)  ## ratios, measured in one run; writes benchmarks/results/
	$(BIN)/python -m benchmarks

soak: $(READY)  ## the long versions: 1,000 kill -9 / resume cycles, 300 killed runtimes, 200,000 and 50,000 fuzzed inputs
	$(BIN)/python -m benchmarks.kill_resume --kills 1000
	$(BIN)/python -m benchmarks.kill_runtime --rounds 300
	$(BIN)/python -m benchmarks.fuzz_proxy --requests 200000
	$(BIN)/python -m benchmarks.fuzz_suites --examples 50000

docs: $(READY)  ## rewrite the generated tables of the reference
	$(BIN)/python docs/generate_reference.py

golden: $(READY)  ## rewrite the golden files of the tests
	AGENTV_REWRITE_GOLDEN=1 $(BIN)/pytest -q tests/golden

lock:  ## pin the newest allowed versions into requirements.lock
	$(PYTHON) -m pip install --quiet --target .lock-tools uv
	.lock-tools/bin/uv pip compile pyproject.toml --extra dev --universal --generate-hashes --quiet --upgrade \
	  --no-header --no-emit-index-url --output-file requirements.lock
	rm -rf .lock-tools

$(READY): requirements.lock pyproject.toml sdk/python/pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --editable .
	touch $(READY)

clean:
	rm -rf $(VENV) dist build .mypy_cache .ruff_cache .pytest_cache
