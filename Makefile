PYTHON ?= python3
# pyenv puts a python3.12 on the path that only works where it is chosen, so its own folder is looked at too.
PYENV_ROOT ?= $(HOME)/.pyenv
INTERPRETER = $(or $(shell $(PYTHON) -c 'import sys; print(sys.executable)' 2>/dev/null),$(lastword \
	$(wildcard $(PYENV_ROOT)/versions/*/bin/$(notdir $(PYTHON)))),$(PYTHON))
UV_VERSION := 0.13.7
CDK := npx --yes aws-cdk@2.1147.0
COMPILE = $(BIN)/uv pip compile -q --universal --python-version 3.11 --no-annotate --no-header
PINS := requirements.txt functions/requirements.txt
BIN := .venv/bin
READY := .venv/.ready
NODE := .build/node
# `make unit PYTHON=python3.12` must not touch the environment of everything else.
VERSION = $(shell $(INTERPRETER) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
UNIT_VENV := $(if $(filter file,$(origin PYTHON)),.venv,.build/venv-$(VERSION))

# Whatever is made stays in this folder.
export UV_CACHE_DIR ?= $(CURDIR)/.build/uv
export JSII_RUNTIME_PACKAGE_CACHE_ROOT ?= $(CURDIR)/.build/jsii
# Node.js 22 is what the CDK wants; what it says about 20 at every start would hide what matters.
export JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION ?= 20
export JSII_SILENCE_WARNING_DEPRECATED_NODE_VERSION ?= 1
export AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED ?= true
# Or each of the many processes that the tests start would compile everything again.
unexport PYTHONDONTWRITEBYTECODE

# More workers than processors, as half of the tests wait; tests/conftest.py says who runs what.
PYTEST = $(BIN)/pytest -n 4 --dist loadscope --no-loadscope-reorder

# Which deployment the commands below are about: PROFILE= and REGION= of an AWS account, STAGE= of its own.
TARGET = $(addprefix --profile ,$(PROFILE)) $(addprefix --region ,$(REGION)) $(addprefix --stage ,$(STAGE))

.DEFAULT_GOAL := help
.PHONY: help run test unit matrix lint check soak synth bootstrap deploy smoke keys restore teardown bench lock \
	readme screens screenshots clean

help: ## what there is
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1	\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 18

run: $(READY) ## the whole service on this machine, on http://127.0.0.1:8080 (FRESH=1: without what it knew)
	@exec $(BIN)/python -m local.run --stop-with-parent

test: $(READY) $(NODE)/.ready ## every test but those of `make soak` (ARGS="-k name" for some)
	@$(PYTEST) $(ARGS)

unit: $(UNIT_VENV)/.ready ## the unit tests alone (PYTHON=python3.12: on another Python)
	@$(UNIT_VENV)/bin/python -m pytest -p no:cacheprovider tests/unit $(ARGS)

matrix: $(READY) ## the unit tests on every supported Python that is found
	@for version in 3.11 3.12 3.13; do \
		python=$$($(BIN)/python -c "from infra.interpreter import find_python; print(find_python('$$version') or '')" 2>/dev/null); \
		if [ -z "$$python" ]; then echo "Python $$version: not found"; continue; fi; \
		echo "Python $$version: $$python"; \
		$(MAKE) --no-print-directory unit PYTHON="$$python" ARGS="-q $(ARGS)" || exit 1; \
	done

lint: $(READY) $(NODE)/.ready ## lint, format, types: what .pre-commit-config.yaml runs before each commit
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(NODE)/node_modules/.bin/tsc -p functions/api/page/jsconfig.json

check: lint ## lint, format, types, tests
	$(PYTEST) $(ARGS)

soak: $(READY) ## what takes long: full forms of tests, every history of one instance, then all faults over 1,000 (SEED=, INSTANCES=: only that)
	@$(if $(SEED)$(INSTANCES),:,$(PYTEST) -m soak $(ARGS))
	@$(if $(SEED)$(INSTANCES),:,OSTLER_OVER_HTTP=1 $(PYTEST) tests/integration)
	@$(if $(SEED)$(INSTANCES),:,OSTLER_EVERY_SIDE=1 $(PYTEST) tests/integration/test_kill_points.py \
		tests/integration/test_kill_points_requests.py tests/integration/test_kill_points_telling.py)
	@$(if $(SEED)$(INSTANCES),:,$(BIN)/python -m tests.explorer.soak --seconds 600)
	@$(BIN)/python -m tests.integration.chaos $(addprefix --seed ,$(SEED)) $(addprefix --instances ,$(INSTANCES))

synth: $(READY) ## the CloudFormation templates, in cdk.out, linted
	CDK_OUTDIR=cdk.out $(BIN)/python app.py
	$(BIN)/cfn-lint --template cdk.out/*.template.json --ignore-checks W3005

bootstrap: $(READY) ## prepare an AWS account and region for the CDK, once (PROFILE=, REGION=)
	@$(BIN)/python -m ops.cdk $(TARGET) -- $(CDK) bootstrap $(ARGS)

deploy: $(READY) ## to an AWS account, as cdk.json chooses (PROFILE=, REGION=, STAGE=; ARGS="-c auth=iam" to try)
	@$(BIN)/python -m ops.deploy $(TARGET) -- $(CDK) deploy --all $(ARGS)

smoke: $(READY) ## does a deployed service work? (PROFILE=, REGION=, STAGE=; SMOKE_BUY=1: also buy a machine)
	@$(BIN)/python -m ops.smoke $(TARGET)

keys: $(READY) ## API keys (PROFILE=, REGION=, STAGE=; ARGS="create --name me --scopes read,write", list, revoke)
	@$(BIN)/python -m ops.keys $(TARGET) $(ARGS)

restore: $(READY) ## put a restored table's items back (PROFILE=, REGION=, STAGE=; ARGS="--from table")
	@$(BIN)/python -m ops.restore $(TARGET) $(ARGS)

teardown: $(READY) ## remove the stacks, unless machines of ours live (PROFILE=, REGION=, STAGE=; TEARDOWN=force)
	@$(BIN)/python -m ops.teardown $(TARGET) -- $(CDK) destroy --all $(ARGS)

bench: $(READY) ## measure what is claimed, into bench/RESULTS.md (ARGS="cold warm" for some groups)
	@$(BIN)/python -m bench $(ARGS)

lock: $(READY) ## pin the dependencies of pyproject.toml anew
	$(COMPILE) pyproject.toml -o functions/requirements.txt
	$(COMPILE) --group pyproject.toml:dev -c functions/requirements.txt -o requirements.txt

readme: $(READY) ## write the parts of the documents that are made from the code
	@$(BIN)/python -m docs.generate

screens: $(READY) ## what `ostler` shows, kept for the documents anew
	@OSTLER_RECORD=1 $(BIN)/pytest -q tests/e2e/test_command_line_in_use.py
	@$(BIN)/python -m docs.generate

screenshots: $(READY) $(NODE)/.ready ## the pictures in docs/images, from the running page
	@$(BIN)/python -m tests.browser.screenshots

clean: ## remove what was built; what `make run` keeps in .local stays
	rm -rf .venv .build cdk.out .mypy_cache .pytest_cache .ruff_cache .hypothesis

# The page's type checker, a browser and axe-core, as package-lock.json pins them; nothing of it ships.
$(NODE)/.ready: tests/browser/package.json tests/browser/package-lock.json
	@mkdir -p $(NODE) && cp $^ $(NODE)/
	@cd $(NODE) && npm ci --silent --ignore-scripts --no-audit --no-fund
	@touch $@

%/.ready: $(PINS)
	@$(INTERPRETER) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "Python 3.11 or newer is needed, and $(PYTHON) is not: try make PYTHON=python3.13" >&2; exit 2; }
	@echo "setting up $* with $$($(INTERPRETER) --version)"
	@test -x $*/bin/python || $(INTERPRETER) -m venv $*
	@$*/bin/uv --version 2>/dev/null | grep -qF "uv $(UV_VERSION)" || \
		$*/bin/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	@$*/bin/uv pip sync --quiet --python $*/bin/python $(PINS)
	@touch $@
