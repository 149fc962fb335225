# make lab    the notebooks in JupyterLab          make test   every test and every notebook
# make soak   every test in every case, with long random searches: kernels and adjoints against their oracles
# Both set up .venv first. Choose the interpreter with PYTHON=python3.12.
PYTHON ?= python3
VENV   := .venv
PY     := $(VENV)/bin/python
STAMP  := $(VENV)/.installed
# In a container one is often root, which JupyterLab refuses unless told otherwise.
LABFLAGS ?= $(shell [ "$$(id -u)" != 0 ] || echo --allow-root)

test soak: export OPENBLAS_NUM_THREADS = 1
# What is compiled once at the first import is needed by each of the hundreds of processes that the tests start.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help lab test soak notebooks venv gpu cuda clean

help:
	@sed -n 's/^# //p' Makefile | head -3

# JUPYTER_CONFIG_PATH: JupyterLab asks nothing about news. Records stay out of the list of files.
lab: gpu
	JUPYTER_CONFIG_PATH="$(CURDIR)/minigrad/lab/jupyter" $(PY) -m jupyter lab $(LABFLAGS) --ServerApp.root_dir=. \
	  --ContentsManager.hide_globs=records --ContentsManager.hide_globs=__pycache__ notebooks/00_start_here.ipynb

# A file, or a notebook, is run by one process from its first test to its last: cells and README examples follow on.
# Each process keeps to one thread of NumPy's matrix products: they are small here, and several threads take longer.
# A process that is brought down is not started anew, which would begin its file again and again.
test: gpu
	$(PY) -m pytest --nbval --numprocesses logical --maxprocesses 8 --dist loadfile --max-worker-restart 0

# All that `make test` leaves out, and what it takes, too: some tests look at what the others of their file have run.
soak: $(STAMP)
	$(PY) -m pytest -m "" --numprocesses logical --maxprocesses 8 --dist loadfile --max-worker-restart 0

# Runs the notebooks again and stores what they and the README show of records. Some: make notebooks ONLY="07 08"
notebooks: $(STAMP)
	$(PY) tests/tools/notebooks.py $(ONLY)
	$(PY) tests/tools/readme.py

venv: $(STAMP)

# Adds PyCUDA where there is an NVIDIA driver, and says so. Where the build failed, `make cuda` tries it again.
gpu: $(STAMP)
	@$(PY) -m minigrad.lab.install_cuda --once

cuda: $(STAMP)
	@$(PY) -m minigrad.lab.install_cuda

# The pip that comes with Python 3.11 takes more than twice as long as today's to find and install a hundred packages.
# rfc3987-syntax is optional: JupyterLab brings it, and each process that reads a notebook would take 1.5 s to load its
# grammars, for the one format of a JSON schema that nothing here uses.
# --no-compile: Python compiles what it imports at its first import; compiling all of it now takes half a minute.
$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo 'minigrad needs Python 3.11 or newer. Name one: make lab PYTHON=python3.12'; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	  { echo 'This Python has no venv. On Debian and Ubuntu: sudo apt install python3-venv'; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --no-compile --upgrade pip
	$(PY) -m pip install --quiet --no-compile --editable '.[lab,test]'
	$(PY) -m pip uninstall --quiet --yes rfc3987-syntax
	@touch $(STAMP)

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache
