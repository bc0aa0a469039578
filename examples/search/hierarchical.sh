#!/usr/bin/env bash
# search/hierarchical: verifier and searcher take turns, then an answerer (all sets of 1).
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh" search hierarchical

python -m verl.trainer.main_ppo --config-name srpo_trainer "${settings[@]}" \
    srpo.workflow=search/hierarchical \
    +srpo.workflow_kwargs.retriever="$RETRIEVER" \
    +srpo.workflow_kwargs.turns=4 \
    +srpo.agents.verifier.max_tokens="$short_response" \
    "$@"
