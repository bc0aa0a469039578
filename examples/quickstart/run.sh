#!/usr/bin/env bash
# Trains a team of agents with SRPO through verl's own main_ppo, on a machine without a GPU, in a few minutes.
#
#   bash examples/quickstart/run.sh [Hydra overrides]
#
# Environment:
#   STEPS=20              training steps
#   WORKFLOW=math/debate  a registered workflow (`verl-srpo workflows`) or path/to/file.py:Class
#   MODEL=/path           a Hugging Face folder of your own instead of the small model that is made here
#   PRESET=srpo           a preset of verl_srpo/config/srpo, to compare with
#   SEED=0                of the tasks, the model and the training
#   RUN=runs/NAME         folder of the run; default runs/quickstart-<date>-<time>
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
here=$root/examples/quickstart
steps=${STEPS:-20} workflow=${WORKFLOW:-math/debate} seed=${SEED:-0}

bash "$root/requirements/install.sh"
export PATH=$root/.venv/bin:$PATH

run=${RUN:-$root/runs/quickstart-$(date +%Y%m%d-%H%M%S)}
mkdir -p "$run"
run=$(cd "$run" && pwd)
cache=$root/runs/cache
export HF_HUB_OFFLINE=${HF_HUB_OFFLINE:-1} VERL_PLATFORM=cpu HYDRA_FULL_ERROR=1

. "$here/make_once.sh"

data=$cache/data-$seed
make_once "$data" python "$here/make_data.py" --seed "$seed"

if [[ -n ${MODEL:-} ]]; then
    [[ -f $MODEL/config.json ]] || { echo "MODEL=$MODEL is not a Hugging Face model folder: it has no config.json" >&2; exit 1; }
    model=$(cd "$MODEL" && pwd) response=256
else
    # the model follows the workflow's prompts, so another version of either makes another model
    version=$(cat "$here"/{problems,teacher,make_model}.py "$root"/verl_srpo/workflows/*.py | sha256sum | cut -c1-12)
    model=$cache/model-$(basename "${workflow//\//-}")-$seed-$version response=32
    [[ -d $model ]] || echo "Making a small model and warming it up (once, about a minute):"
    make_once "$model" python "$here/make_model.py" --workflow "$workflow" --seed "$seed"
fi

echo "Training $workflow for $steps steps; run folder: $run"
export VERL_FILE_LOGGER_PATH=$run/metrics.jsonl
actor=actor_rollout_ref.actor rollout=actor_rollout_ref.rollout
python "$here/watch.py" "$run" --steps "$steps" -- \
    python -W ignore -m verl.trainer.main_ppo +backend=cpu "+srpo=${PRESET:-srpo}" \
    algorithm.adv_estimator=srpo "srpo.workflow=$workflow" \
    "actor_rollout_ref.model.path=$model" \
    "data.train_files=$data/train.parquet" "data.val_files=$data/test.parquet" "data.seed=$seed" \
    data.train_batch_size=16 data.val_batch_size=100 data.max_prompt_length=384 "data.max_response_length=$response" \
    $rollout.n=8 "$rollout.max_model_len=$((384 + response))" "$rollout.seed=$seed" \
    $rollout.engine_kwargs.vllm.kv_cache_memory_bytes=268435456 \
    $rollout.val_kwargs.do_sample=True $rollout.val_kwargs.temperature=1.0 \
    $actor.optim.lr=2e-4 $actor.optim.lr_warmup_steps=5 $actor.ppo_mini_batch_size=8 "$actor.fsdp_config.seed=$seed" \
    reward.custom_reward_function.path=pkg://verl_srpo.rewards \
    "trainer.total_training_steps=$steps" trainer.total_epochs=1000 trainer.test_freq=5 "trainer.save_freq=$steps" \
    'trainer.logger=[console,file]' "trainer.validation_data_dir=$run/validation" \
    "trainer.default_local_dir=$run/checkpoints" "hydra.run.dir=$run/hydra" \
    "$@"

python "$here/plot.py" "$run/metrics.jsonl" --title "$workflow, $steps steps"
echo "$(<"$run/summary.txt"); plot: $run/training.png"
