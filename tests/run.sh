#!/usr/bin/env bash
# Sets up .venv where needed, then runs every check and every test. With arguments: pytest alone, with these arguments,
# e.g. `bash tests/run.sh -m "not e2e"` or `bash tests/run.sh tests/core -k loss`.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
bash requirements/install.sh
export PATH=$PWD/.venv/bin:$PATH
export HF_HUB_OFFLINE=1                    # no test needs a hub
export PYRIGHT_PYTHON_IGNORE_WARNINGS=1    # else it asks the registry for its newest version

check() { printf '\n== %s\n' "$*"; "$@"; }

if (($# == 0)); then
    check ruff check
    check ruff format --check
    check pyright
    check lint-imports
fi
# The e2e tests start whole training jobs: one process, so that they run one after the other.
printf '\n== pytest %s\n' "$*"
exec python -m pytest "$@"
