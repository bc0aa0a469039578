# DRY_RUN=1: replaces the machine, the model and the data of a script; sourced by recipe.sh.
if [[ -z ${RUN:-} ]]; then
    RUN=$(mktemp -d "${TMPDIR:-/tmp}/srpo_dry_run.XXXXXX")
    trap 'rm -rf "$RUN"' EXIT
fi
export VERL_PLATFORM=cpu HF_HUB_OFFLINE=1
python examples/dry_run.py "$KIND" "$RUN"
DATA=$RUN/data MODEL_PATH=$RUN/model RETRIEVER=$RUN/data/corpus.jsonl
GPUS=1 NODES=1 offload=False tasks=4 mini_batch=2 rollouts=2 prompt=2000 response=12 context=2048 short_response=8
dry_run_settings=(
    +backend=cpu srpo.poll_interval=0.1
    actor_rollout_ref.model.use_remove_padding=False actor_rollout_ref.model.enable_gradient_checkpointing=False
    actor_rollout_ref.rollout.val_kwargs.n=1
    trainer.total_training_steps=1 trainer.test_freq=1 trainer.save_freq=-1
)
[[ $MODE == eval ]] || dry_run_settings+=(trainer.val_before_train=False)
