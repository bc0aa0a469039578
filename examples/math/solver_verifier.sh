#!/usr/bin/env bash
# math/solver_verifier: a solver and a verifier take turns, at most two revisions (all sets of 1).
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh" math solver_verifier

python -m verl.trainer.main_ppo --config-name srpo_trainer "${settings[@]}" \
    srpo.workflow=math/solver_verifier \
    +srpo.workflow_kwargs.rounds=2 \
    +srpo.agents.verifier.max_tokens="$short_response" \
    "$@"
