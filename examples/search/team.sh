#!/usr/bin/env bash
# search/team, the paper's: each turn a router picks searchers (a set of 1 to 3) and a verifier judges the evidence (a set
# of 1); then an answerer (a set of 1). ROUTING=fixed asks SEARCHERS of them in every turn.
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh" search team

python -m verl.trainer.main_ppo --config-name srpo_trainer "${settings[@]}" \
    srpo.workflow=search/team \
    +srpo.workflow_kwargs.retriever="$RETRIEVER" \
    +srpo.workflow_kwargs.searchers="${SEARCHERS:-3}" \
    +srpo.workflow_kwargs.routing="${ROUTING:-adaptive}" \
    +srpo.workflow_kwargs.turns=3 \
    +srpo.agents.router.max_tokens="$short_response" \
    +srpo.agents.verifier.max_tokens="$short_response" \
    "$@"
