#!/usr/bin/env bash
# math/team, the paper's: solvers side by side (a set of 3), then verifier, reviser and aggregator (sets of 1).
# ROUTING=adaptive puts a router before the solvers: sets of 1 to 3.
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh" math team

python -m verl.trainer.main_ppo --config-name srpo_trainer "${settings[@]}" \
    srpo.workflow=math/team \
    +srpo.workflow_kwargs.solvers=3 \
    +srpo.workflow_kwargs.routing="${ROUTING:-fixed}" \
    +srpo.workflow_kwargs.rounds=1 \
    +srpo.agents.verifier.max_tokens="$short_response" \
    +srpo.agents.aggregator.max_tokens="$short_response" \
    "$@"
