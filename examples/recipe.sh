# Settings shared by the scripts of examples/math and examples/search, which source this file with their kind and name.
#
# Variables (defaults in brackets; whatever else is given to a script goes to main_ppo behind all of these):
#   MODEL    qwen3-0.6b qwen3-1.7b qwen3-4b qwen3-8b qwen2.5-1.5b qwen2.5-3b qwen2.5-7b  [qwen3-4b for math, qwen2.5-3b for search]
#   GPUS     GPUs of 80 GB on this machine                                               [8]
#   NODES    machines with that many GPUs                                                [1]
#   PRESET   what is compared: srpo, joint_sum, joint_mean, grpo, gspo, dr_mas, ...      [srpo]
#   MODE     train, or eval: 16 samples a question on the whole test file                [train]
#   DATA     folder written by data_preprocess                                           [data/math or data/search]
#   RUN      folder of checkpoints, metrics and generations                              [runs/KIND_NAME_MODEL_PRESET]
#   MODEL_PATH  folder or hub name of the weights, instead of the hub name of MODEL
#   DRY_RUN=1   one step of this very script on a CPU, with a tiny random model and data made on the spot, in a
#               temporary folder or in RUN
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
KIND=$1 NAME=$2

stop() { echo "error: $*" >&2; exit 2; }

case $KIND in
    math) MODEL=${MODEL:-qwen3-4b} ;;
    search) MODEL=${MODEL:-qwen2.5-3b} ;;
esac
GPUS=${GPUS:-8} NODES=${NODES:-1} PRESET=${PRESET:-srpo} MODE=${MODE:-train} DATA=${DATA:-data/$KIND}
DRY_RUN=${DRY_RUN:-0}
[[ $DRY_RUN == 1 ]] || RUN=${RUN:-runs/${KIND}_${NAME}_${MODEL}_${PRESET}}
[[ $GPUS =~ ^[1-9][0-9]*$ ]] || stop "GPUS=$GPUS: the number of GPUS on one machine, 1 or more"

# least: GPUs that hold weights, gradients and optimizer (16 bytes a parameter, sharded) beside activations.
# roomy: from here on they stay on the GPUs beside vLLM's cache; with fewer they move to the CPU during the rollout.
case $MODEL in
    qwen3-0.6b)   hub=Qwen/Qwen3-0.6B            least=1 roomy=1 ;;
    qwen3-1.7b)   hub=Qwen/Qwen3-1.7B            least=1 roomy=1 ;;
    qwen3-4b)     hub=Qwen/Qwen3-4B              least=1 roomy=2 ;;
    qwen3-8b)     hub=Qwen/Qwen3-8B              least=2 roomy=4 ;;
    qwen2.5-1.5b) hub=Qwen/Qwen2.5-1.5B-Instruct least=1 roomy=1 ;;
    qwen2.5-3b)   hub=Qwen/Qwen2.5-3B-Instruct   least=1 roomy=2 ;;
    qwen2.5-7b)   hub=Qwen/Qwen2.5-7B-Instruct   least=2 roomy=4 ;;
    *) stop "MODEL=$MODEL is none of qwen3-0.6b, qwen3-1.7b, qwen3-4b, qwen3-8b, qwen2.5-1.5b, qwen2.5-3b, qwen2.5-7b" ;;
esac
((GPUS * NODES >= least)) || stop "MODEL=$MODEL needs at least $least GPUs of 80 GB, GPUS=$GPUS; take a smaller MODEL"
offload=$( ((GPUS * NODES < roomy)) && echo True || echo False)

case $KIND in
    math)   tasks=32  mini_batch=32 rollouts=8 response=4096 prompt=20480 penalty=0.1 epochs=2 short_response=1024 ;;
    search) tasks=128 mini_batch=32 rollouts=5 response=800  prompt=7392  penalty=0.01 epochs=1 short_response=400 ;;
esac
context=$((prompt + response))
RETRIEVER=${RETRIEVER:-http://127.0.0.1:8000} # search: a retrieval server, an index folder, or a small corpus.jsonl

if [[ $DRY_RUN == 1 ]]; then
    source examples/dry_run.sh
elif [[ ! -f $DATA/train.parquet ]]; then
    stop "$DATA/train.parquet is missing; data_preprocess/prepare_$KIND.py --out $DATA makes it (docs/data.md)"
fi
mkdir -p "$RUN"
export VERL_FILE_LOGGER_PATH="$RUN/metrics.jsonl"

settings=(
    hydra.run.dir="$RUN/hydra"
    algorithm.adv_estimator=srpo srpo="$PRESET" srpo.invalid_penalty="$penalty"
    data.train_files="$DATA/train.parquet" data.val_files="$DATA/test_sample.parquet"
    data.train_batch_size="$tasks" data.max_prompt_length="$prompt" data.max_response_length="$response"
    reward.custom_reward_function.path=pkg://verl_srpo.rewards
    actor_rollout_ref.model.path="${MODEL_PATH:-$hub}"
    actor_rollout_ref.model.use_remove_padding=True actor_rollout_ref.model.enable_gradient_checkpointing=True
    actor_rollout_ref.actor.strategy=fsdp2
    actor_rollout_ref.actor.optim.lr=1e-6
    actor_rollout_ref.actor.ppo_mini_batch_size="$mini_batch"
    actor_rollout_ref.actor.use_dynamic_bsz=True actor_rollout_ref.actor.ppo_max_token_len_per_gpu="$context"
    actor_rollout_ref.actor.fsdp_config.param_offload="$offload"
    actor_rollout_ref.actor.fsdp_config.optimizer_offload="$offload"
    actor_rollout_ref.rollout.name=vllm actor_rollout_ref.rollout.n="$rollouts"
    actor_rollout_ref.rollout.temperature=1.0 actor_rollout_ref.rollout.calculate_log_probs=True
    actor_rollout_ref.rollout.tensor_model_parallel_size=1 actor_rollout_ref.rollout.gpu_memory_utilization=0.6
    actor_rollout_ref.rollout.max_model_len="$context"
    actor_rollout_ref.rollout.val_kwargs.do_sample=True actor_rollout_ref.rollout.val_kwargs.temperature=0.6
    actor_rollout_ref.rollout.val_kwargs.top_p=0.95 actor_rollout_ref.rollout.val_kwargs.n=1
    trainer.n_gpus_per_node="$GPUS" trainer.nnodes="$NODES"
    trainer.total_epochs="$epochs" trainer.test_freq=10 trainer.save_freq=50
    trainer.project_name="srpo_$KIND" trainer.experiment_name="$(basename "$RUN")" trainer.logger='[console,file]'
    trainer.default_local_dir="$RUN/checkpoints" trainer.validation_data_dir="$RUN/validation"
)
# the paper's math models answer without a thinking block of their own; their chat template has a switch for it
[[ $MODEL != qwen3-* ]] || settings+=(+data.apply_chat_template_kwargs.enable_thinking=False)

case $MODE in
    train) ;;
    eval) # the newest checkpoint of RUN, or the untrained model; then: verl-srpo eval $RUN/eval/*.jsonl
        settings+=(
            data.val_files="$DATA/test.parquet" actor_rollout_ref.rollout.val_kwargs.n=16
            trainer.val_only=True trainer.val_before_train=True trainer.validation_data_dir="$RUN/eval"
        ) ;;
    *) stop "MODE=$MODE is neither train nor eval" ;;
esac
[[ $DRY_RUN == 0 ]] || settings+=("${dry_run_settings[@]}")
