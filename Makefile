# Every target sets up its own .venv: only python3 >= 3.11 is needed beforehand.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
ARGS   ?=
BENCH  ?= optimum fast2003 sparse
# Small matrices in several processes at once: one BLAS thread each is the fastest and repeatable.
export OMP_NUM_THREADS ?= 1
# Byte code of what is imported is kept, and made when it is: pip would compile every module there is.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test kernels lint format typecheck bench docs clean

help:  ## this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 18

demo: $(VENV)/.ready-plot  ## fit a regression on built-in data, print a summary, write a picture
	$(BIN)/sparsebayes demo --output sparsebayes-demo.png

test: $(VENV)/.ready-test  ## run the test suite and the docstring examples (ARGS="-k name")
	$(BIN)/python -m pytest -n auto --dist worksteal $(ARGS)

kernels: $(VENV)/.ready-test  ## run the numerical tests as other processors compute (other BLAS kernels)
	$(BIN)/python tests/kernels.py $(ARGS)

lint: $(VENV)/.ready-dev  ## check style and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(VENV)/.ready-dev  ## format the code and mend what ruff can mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

typecheck: $(VENV)/.ready-dev  ## mypy, strict
	$(BIN)/mypy

bench: $(VENV)/.ready-bench  ## run the benchmarks (BENCH="optimum fast2003 sparse")
	@set -e; for name in $(BENCH); do echo "== $$name"; $(BIN)/python -m benchmarks.$$name; done

docs: $(VENV)/.ready-docs  ## build the documentation site and check its links (build/docs/index.html)
	rm -rf build/docs
	$(BIN)/python -m sphinx -q -n -W --keep-going -j auto docs build/docs
	$(BIN)/python docs/check_links.py build/docs

clean:  ## remove the environment and everything that can be made again
	rm -rf .venv build dist htmlcov .coverage .hypothesis .mypy_cache .pytest_cache .ruff_cache
	rm -rf docs/api/examples docs/api/generated docs/gallery docs/project
	rm -f sparsebayes-demo.png
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# One stamp for each set of extras; set-up runs again only when pyproject.toml changes.
$(VENV)/.ready-%: pyproject.toml | $(VENV)/.created
	@echo "Setting up $(VENV) (extras: $*), once ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --editable ".[$*]"
	@touch $@ $(if $(filter dev,$*),$(addprefix $(VENV)/.ready-,docs plot test))  # dev holds them all

$(VENV)/.created:
	@command -v "$(PYTHON)" >/dev/null || { \
	  echo "error: no '$(PYTHON)' found; install Python 3.11 or newer, or name it: make PYTHON=/path/to/python3" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "error: $$("$(PYTHON)" --version 2>&1) is too old, 3.11 or newer is needed; name another one: make PYTHON=python3.12" >&2; exit 1; }
	@"$(PYTHON)" -c 'import venv, ensurepip' 2>/dev/null || { \
	  echo "error: this Python lacks the venv module; on Debian or Ubuntu: apt install python3-venv" >&2; exit 1; }
	@"$(PYTHON)" -m venv "$(VENV)"
	@touch $@
