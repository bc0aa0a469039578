#!/usr/bin/env bash
# search/parallel: query writers side by side (a set of SEARCHERS, 5 as in the paper's ablation), then an answerer (a set of 1).
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh" search parallel

python -m verl.trainer.main_ppo --config-name srpo_trainer "${settings[@]}" \
    srpo.workflow=search/parallel \
    +srpo.workflow_kwargs.retriever="$RETRIEVER" \
    +srpo.workflow_kwargs.n="${SEARCHERS:-5}" \
    "$@"
