#!/usr/bin/env bash
# math/debate: two solvers side by side (a set of 2), then a judge who reads both (a set of 1).
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh" math debate

python -m verl.trainer.main_ppo --config-name srpo_trainer "${settings[@]}" \
    srpo.workflow=math/debate \
    +srpo.workflow_kwargs.n=2 \
    "$@"
