# Everything a contributor or CI runs. `make demo` and `make test` set up what they need by themselves.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
TYPESCRIPT := sdk/typescript
# Without npm, or with `make test NPM=`, the TypeScript SDK is not built and its tests are skipped.
NPM := $(shell command -v npm)
TYPESCRIPT_READY := $(if $(NPM),$(TYPESCRIPT)/dist/.ready)
# Model servers from npm that tests run against; without npm those tests are skipped too.
LIVE := tests/live
LIVE_READY := $(if $(NPM),$(LIVE)/node_modules/.ready)

.PHONY: demo typescript test check format bench soak lock docs golden clean

demo: $(READY)  ## contextual precision, judged in two ways by a scripted model: offline, no key
	$(BIN)/agentv eval examples/contextual-precision/suite.yaml --out .agentv/demo.jsonl
	$(BIN)/python examples/contextual-precision/compare.py .agentv/demo.jsonl

test: $(READY) $(TYPESCRIPT_READY) $(LIVE_READY)  ## the tests
	$(BIN)/pytest -n 2 -q

typescript: $(TYPESCRIPT_READY)  ## build the TypeScript SDK

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

$(TYPESCRIPT)/node_modules/.ready: $(TYPESCRIPT)/package.json $(TYPESCRIPT)/package-lock.json
	cd $(TYPESCRIPT) && $(NPM) ci --ignore-scripts --loglevel=error
	touch $@

$(LIVE)/node_modules/.ready: $(LIVE)/package.json $(LIVE)/package-lock.json
	cd $(LIVE) && $(NPM) ci --ignore-scripts --loglevel=error
	touch $@

$(TYPESCRIPT)/dist/.ready: $(TYPESCRIPT)/node_modules/.ready $(TYPESCRIPT)/tsconfig.json $(wildcard $(TYPESCRIPT)/src/*.ts)
	rm -rf $(TYPESCRIPT)/dist
	cd $(TYPESCRIPT) && node node_modules/typescript/bin/tsc
	touch $@

clean:
	rm -rf $(VENV) $(TYPESCRIPT)/dist $(TYPESCRIPT)/node_modules $(LIVE)/node_modules dist build .mypy_cache .ruff_cache .pytest_cache
