#!/usr/bin/env bash
# The training benchmarks, one after the other (about ten minutes on two cores): each prints a table of medians and ratios.
# Those of rollouts and retrieval are commands of their own: rollout_concurrency.py, retrieval.py.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
bash requirements/install.sh
export PATH=$PWD/.venv/bin:$PATH VERL_PLATFORM=${VERL_PLATFORM:-cpu} HF_HUB_OFFLINE=1

for benchmark in core_loss packing actor_update step_overhead; do
    python -W ignore "benchmarks/$benchmark.py"
done
