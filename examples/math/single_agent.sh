#!/usr/bin/env bash
# The baseline without a team: verl's own GRPO and agent loop, the same rewards. Prompts need an instruction:
#   python data_preprocess/prepare_math.py ... --instruction 'Think step by step. Final answer in \boxed{}.' --out data/math_single
DATA=${DATA:-data/math_single}
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh" math single_agent

python -m verl.trainer.main_ppo --config-name srpo_trainer "${settings[@]}" \
    algorithm.adv_estimator=grpo \
    "$@"
