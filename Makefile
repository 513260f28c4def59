# Commands for contributors and CI. Dependencies are installed into .venv when needed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip --disable-pip-version-check --quiet
RUNTIME_READY := $(VENV)/.runtime-ready
READY := $(VENV)/.ready
DOCS_READY := $(VENV)/.docs-ready
# An environment with Ray (260 MB) for the tests of Ray; it also sees the packages of .venv.
RAY := .venv-ray
RAY_READY := $(RAY)/.ready
# An environment with a model of 135M parameters and its server (127 MB) for `make test-real`.
REAL := .venv-real
REAL_READY := $(REAL)/.ready
TYPESCRIPT := sdk/typescript
# Without npm (or with `make test NPM=`), the TypeScript SDK is not built and its tests are skipped.
NPM := $(shell command -v npm)
TYPESCRIPT_READY := $(if $(NPM),$(TYPESCRIPT)/dist/.ready)
# npm packages of model servers used by tests; without npm, those tests are skipped too.
LIVE := tests/live
# Judge scripts that import other people's libraries, the lock files of those, and their environments.
LIBRARIES := tests/live/libraries
LIVE_READY := $(if $(NPM),$(LIVE)/node_modules/.ready)

.PHONY: demo typescript test test-real test-libraries check lint types compiled-tests wording format english bench soak lock docs docs-site golden pictures clean

demo: $(RUNTIME_READY)  ## catch a regression between two versions of a retriever; offline, no API key
	@$(BIN)/python examples/retriever-regression/demo.py

test: $(READY) $(TYPESCRIPT_READY) $(LIVE_READY)  ## run the tests; those that fail once more, alone
	$(BIN)/python -m tests.twice

test-real: $(READY)  ## run the tests with a real model; does nothing if its packages cannot be installed
	@if $(MAKE) --no-print-directory $(REAL_READY) >$(VENV)/real.log 2>&1; then \
	  $(REAL)/bin/python -m tests.twice -n 0 -m real tests/real; \
	elif grep 'DO NOT MATCH THE HASHES' $(VENV)/real.log; then \
	  exit 1; \
	else \
	  echo "the tests with a real model were skipped: $$(grep -m 1 '^ERROR' $(VENV)/real.log || tail -n 1 $(VENV)/real.log)"; \
	fi

test-libraries: $(READY)  ## run metrics of other libraries as judge scripts, in environments of their own (1.2 GB); skipped without a package index
	$(BIN)/python -m tests.live.libraries.environments
	$(BIN)/python -m tests.twice -n 3 -m libraries tests/live/libraries

typescript: $(TYPESCRIPT_READY)  ## build the TypeScript SDK

check: lint  ## run what CI runs: format, lint, wording, types, the site, then the tests
	$(MAKE) test

lint: $(READY)  ## everything that `make check` runs before the tests
	$(MAKE) --jobs=2 types wording compiled-tests docs-site $(TYPESCRIPT_READY) $(LIVE_READY)

types: $(READY)
	$(BIN)/mypy
	$(BIN)/mypy tests

# What pytest compiles, once instead of in each of its workers.
compiled-tests: $(READY)
	@env -u PYTHONDONTWRITEBYTECODE $(BIN)/pytest --collect-only -qq -p no:xdist >$(VENV)/collected.log || { tail -n 50 $(VENV)/collected.log; exit 1; }

wording: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/python -m tests.english

format: $(READY)  ## format the code, sort imports and apply safe fixes
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

english: $(READY)  ## count phrases to avoid per directory; `python -m tests.english PATH` lists them
	$(BIN)/python -m tests.english

bench: $(READY)  ## run the benchmarks; writes benchmarks/results/
	$(BIN)/python -m benchmarks

soak: $(READY) $(RAY_READY)  ## run the long tests: 1,400 kill -9 / resume cycles, 300 killed runtimes, 350,000 fuzzed inputs, endurance, long attacks
	$(BIN)/python -m benchmarks.kill_resume --kills 1000
	$(BIN)/python -m benchmarks.kill_calls --kills 400
	$(BIN)/python -m benchmarks.kill_runtime --rounds 300
	$(BIN)/python -m benchmarks.fuzz_proxy --requests 200000
	$(BIN)/python -m benchmarks.fuzz_suites --examples 50000
	$(BIN)/python -m benchmarks.endurance
	$(BIN)/pytest -q -m soak tests --ignore tests/nodes/test_ray.py
	$(RAY)/bin/python -m pytest -q -m soak tests/nodes/test_ray.py

docs: $(READY)  ## regenerate the tables of the reference
	$(BIN)/python docs/generate_reference.py

docs-site: $(DOCS_READY)  ## build the documentation as a site and check its links; writes site/
	$(BIN)/python docs/site/build.py

golden: $(READY)  ## rewrite the golden files of the tests; review the diff
	AGENTV_REWRITE_GOLDEN=1 $(BIN)/pytest -q tests/golden

pictures: $(READY)  ## redraw the images of README and docs: terminal output (requires tmux) and the viewer (requires chromium)
	$(BIN)/python docs/images/make_screenshot.py
	$(BIN)/python docs/images/make_viewer_pictures.py

COMPILE := .lock-tools/bin/uv pip compile --universal --generate-hashes --quiet --no-header --no-emit-index-url --no-strip-extras
lock:  ## update the lock files: all dependencies, runtime only, the site, build only, the real model
	$(PYTHON) -m pip install --quiet --target .lock-tools uv
	$(COMPILE) pyproject.toml --extra dev --upgrade --output-file requirements.lock
	$(COMPILE) pyproject.toml --constraint requirements.lock --output-file requirements.runtime.lock
	$(COMPILE) pyproject.toml --extra docs --constraint requirements.lock --output-file requirements.docs.lock
	$(COMPILE) --group build --constraint requirements.lock --output-file requirements.build.lock
	$(COMPILE) --group real --no-deps --upgrade --output-file requirements.real.lock
	for name in installer current trulens; do $(COMPILE) --python-version 3.11 --upgrade $(LIBRARIES)/$$name.in --output-file $(LIBRARIES)/$$name.lock || exit 1; done
	rm -rf .lock-tools

# The interpreter that will be used: that of .venv, or the one .venv is created with.
INTERPRETER = $(if $(wildcard $(BIN)/python),$(BIN)/python,$(PYTHON))
# Empty if it is new enough.
OLD_PYTHON = $(shell $(INTERPRETER) -c 'import sys; v = sys.version_info; print("" if v >= (3, 11) else "%d.%d.%d" % v[:3])' 2>/dev/null || echo "none: cannot run $(INTERPRETER)")
$(RUNTIME_READY): requirements.runtime.lock requirements.build.lock pyproject.toml sdk/python/pyproject.toml
	$(if $(OLD_PYTHON),$(error agentv needs Python 3.11 or later, found $(OLD_PYTHON); $(if $(wildcard $(BIN)/python),delete $(VENV) and )set PYTHON, for example: make $(MAKECMDGOALS) PYTHON=python3.11))
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install --require-hashes --requirement requirements.runtime.lock --requirement requirements.build.lock
	$(PIP) install --no-build-isolation --no-deps --editable .
	touch $@

$(READY): $(RUNTIME_READY) requirements.lock
	$(PIP) install --require-hashes --requirement requirements.lock
	touch $@

$(DOCS_READY): $(READY) requirements.docs.lock
	$(PIP) install --require-hashes --requirement requirements.docs.lock
	touch $@

PACKAGES := -c 'import sysconfig; print(sysconfig.get_path("purelib"))'
RAY_EXTRA := -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["ray"])'
$(RAY_READY): $(READY) pyproject.toml
	test -x $(RAY)/bin/python || $(BIN)/python -m venv $(RAY)
	echo "import site; site.addsitedir('$$($(BIN)/python $(PACKAGES))')" > "$$($(RAY)/bin/python $(PACKAGES))/agentv-packages.pth"
	$(RAY)/bin/python -m pip --disable-pip-version-check --quiet install "$$($(BIN)/python $(RAY_EXTRA))"
	touch $@

$(REAL_READY): $(READY) requirements.real.lock
	test -x $(REAL)/bin/python || $(BIN)/python -m venv $(REAL)
	echo "import site; site.addsitedir('$$($(BIN)/python $(PACKAGES))')" > "$$($(REAL)/bin/python $(PACKAGES))/agentv-packages.pth"
	$(REAL)/bin/python -m pip --disable-pip-version-check --quiet --retries 1 install --no-deps --require-hashes --requirement requirements.real.lock
	touch $@

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
	rm -rf $(VENV) $(RAY) $(REAL) .venv-libraries $(LIBRARIES)/node_modules $(TYPESCRIPT)/dist $(TYPESCRIPT)/node_modules $(LIVE)/node_modules dist build site .mypy_cache .ruff_cache .pytest_cache
