#!/usr/bin/env bash
# Trains the same tiny model under several presets and seeds through verl's own main_ppo, on a CPU; then reports.
#
#   bash examples/study/run.sh [Hydra overrides for every run]
#
# Environment:
#   WORKFLOWS="demo/joint math/debate"
#   PRESETS="srpo joint_mean gspo grpo"   the first is the one that the others are compared with
#   SEEDS="0 1 2"
#   STEPS=20
#   OUT=runs/study      folder of the runs; a run that is finished is not repeated
#   LAUNCH=             a command that each run is started by, such as `nice -n 10` or that of a queue
#   PAGE=               a page (docs/evidence.md) whose section on the real stack gets the tables
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
quickstart=$root/examples/quickstart
export STEPS=${STEPS:-20}
read -ra workflows <<<"${WORKFLOWS:-demo/joint math/debate}"
read -ra presets <<<"${PRESETS:-srpo joint_mean gspo grpo}"
read -ra seeds <<<"${SEEDS:-0 1 2}"
read -ra launch <<<"${LAUNCH:-}"

bash "$root/requirements/install.sh"
export PATH=$root/.venv/bin:$PATH
mkdir -p "${OUT:=$root/runs/study}"
out=$(cd "$OUT" && pwd)

# What demo/joint needs beside the quickstart's settings. Two tokens a player: with one, gspo and grpo are the same.
joint=(
    +srpo.workflow_kwargs.length=2 data.max_response_length=32 actor_rollout_ref.rollout.max_model_len=416
    actor_rollout_ref.actor.optim.lr=1e-3
)

failed=()
for workflow in "${workflows[@]}"; do
    own=()
    for seed in "${seeds[@]}"; do
        if [[ $workflow == demo/joint ]]; then
            own=("${joint[@]}")
            export MODEL=$out/demo-joint/model-$seed
            [[ -f $MODEL/config.json ]] ||
                PYTHONPATH=$quickstart python "$here/untrained_model.py" "$MODEL" --seed "$seed"
        else
            unset MODEL
        fi
        for preset in "${presets[@]}"; do
            run=$out/${workflow//\//-}/$preset-seed$seed
            grep -qs "\"step\": *$STEPS," "$run/metrics.jsonl" && continue
            WORKFLOW=$workflow PRESET=$preset SEED=$seed RUN=$run \
                "${launch[@]}" bash "$quickstart/run.sh" trainer.save_freq=-1 trainer.resume_mode=disable trainer.test_freq=10 \
                "${own[@]}" "$@" || failed+=("$run")
        done
    done
done

tables=()
for workflow in "${workflows[@]}"; do
    folder=$out/${workflow//\//-}
    runs=() validations=()
    for preset in "${presets[@]}"; do
        runs+=("$preset=$folder/$preset-seed*")
        validations+=("$preset=$folder/$preset-seed*/validation")
    done
    verl-srpo report "${runs[@]}" --out "$folder/report" || true # says what it could not read
    verl-srpo eval "${validations[@]}" --markdown >"$folder/eval.md" || true
    tables+=("$workflow=$folder")
done
PYTHONPATH=$quickstart python "$here/table.py" "${tables[@]}" --presets "${presets[@]}" --steps "$STEPS" \
    ${PAGE:+--page "$PAGE"}

if ((${#failed[@]})); then
    printf 'failed, see its train.log: %s\n' "${failed[@]}" >&2
    exit 1
fi
