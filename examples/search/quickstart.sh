#!/usr/bin/env bash
# A team learns to search, on a machine without a GPU: a self-made world of facts, a real retrieval server, a small model, and
# search/parallel (two query writers side by side: a set of 2; an answerer: a set of 1) trained with SRPO by main_ppo.
#
#   bash examples/search/quickstart.sh [Hydra overrides]
#
# Environment: STEPS=20 training steps, SEED=0, RUN=folder of the run (default runs/search-<date>-<time>)
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
here=$root/examples/search tools=$root/examples/quickstart
steps=${STEPS:-20} seed=${SEED:-0}

bash "$root/requirements/install.sh"
export PATH=$root/.venv/bin:$PATH HF_HUB_OFFLINE=${HF_HUB_OFFLINE:-1} VERL_PLATFORM=cpu

run=${RUN:-$root/runs/search-$(date +%Y%m%d-%H%M%S)}
mkdir -p "$run"
run=$(cd "$run" && pwd)

# questions about single facts: what the team has to learn is to ask for the right one
echo "Making the world and its index:"
world=$run/world
python "$here/make_world.py" --out "$world" --level easy --kinds one_hop --seed "$seed"
verl-srpo index --corpus "$world/corpus.jsonl" --out "$run/index" --kind bm25 --quiet

# the model follows the workflow's prompts and the world, so another version of any of them makes another model
sources=("$here"/{searching_teacher,make_search_model}.py "$tools/make_model.py"
    "$root"/verl_srpo/{workflows/{search_parallel,evidence},retrieval/{world,world_facts}}.py)
version=$(cat "${sources[@]}" | sha256sum | cut -c1-12)
model=$root/runs/cache/search-model-$seed-$version
. "$tools/make_once.sh"
[[ -d $model ]] || echo "Making a small model and warming it up (once, two to three minutes):"
make_once "$model" env "PYTHONPATH=$tools" python "$here/make_search_model.py" --seed "$seed"

verl-srpo serve-retriever --index "$run/index" --port 0 > "$run/retriever.log" 2>&1 &
server=$!
trap 'kill $server 2>/dev/null; wait $server 2>/dev/null || true' EXIT
until address=$(grep -oE 'http://[^ ]+' "$run/retriever.log"); do
    kill -0 $server 2>/dev/null || { cat "$run/retriever.log" >&2; exit 1; }
    sleep 0.2
done
address=${address%/retrieve}
echo "Retrieval server: $address"

echo "Training search/parallel for $steps steps; run folder: $run"
export VERL_FILE_LOGGER_PATH=$run/metrics.jsonl
actor=actor_rollout_ref.actor rollout=actor_rollout_ref.rollout
python "$tools/watch.py" "$run" --steps "$steps" -- \
    python -W ignore -m verl.trainer.main_ppo --config-name srpo_trainer +backend=cpu \
    srpo.workflow=search/parallel +srpo.workflow_kwargs.n=2 +srpo.workflow_kwargs.topk=1 \
    "+srpo.workflow_kwargs.retriever=$address" \
    "actor_rollout_ref.model.path=$model" \
    "data.train_files=$world/train.parquet" "data.val_files=$world/test.parquet" "data.seed=$seed" \
    data.train_batch_size=16 data.val_max_samples=128 data.max_prompt_length=192 data.max_response_length=40 \
    $rollout.n=8 $rollout.max_model_len=232 "$rollout.seed=$seed" \
    $rollout.val_kwargs.do_sample=True $rollout.val_kwargs.temperature=1.0 \
    ++$rollout.engine_kwargs.vllm.kv_cache_memory_bytes=268435456 \
    $actor.optim.lr=3e-4 $actor.optim.lr_warmup_steps=5 $actor.ppo_mini_batch_size=8 "$actor.fsdp_config.seed=$seed" \
    reward.custom_reward_function.path=pkg://verl_srpo.rewards \
    "trainer.total_training_steps=$steps" trainer.total_epochs=1000 trainer.test_freq=5 "trainer.save_freq=$steps" \
    'trainer.logger=[console,file]' "trainer.default_local_dir=$run/checkpoints" "hydra.run.dir=$run/hydra" \
    "$@"

python "$tools/plot.py" "$run/metrics.jsonl" --title "search/parallel, $steps steps"
echo "exact match (validation accuracy): $(<"$run/summary.txt"); plot: $run/training.png"
