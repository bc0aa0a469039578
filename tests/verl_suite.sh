#!/usr/bin/env bash
# Runs verl's own CPU tests of losses, trainer, replay buffer and agent loop twice, without the plugin and with it, and
# compares the result of every single test. Not a part of tests/run.sh: it takes about half an hour.
#
#   bash tests/verl_suite.sh [FOLDER]    FOLDER holds verl's `tests`; default: those of the pinned source distribution
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
bash "$root/requirements/install.sh"
export PATH=$root/.venv/bin:$PATH HF_HUB_OFFLINE=1

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if (($#)); then
    cp -r "$1/tests" "$work/tests"
else
    version=$(python -c 'from importlib.metadata import version; print(version("verl"))')
    pip download --quiet --no-deps --no-binary verl --dest "$work" "verl==$version"
    tar -xzf "$work"/verl-*.tar.gz -C "$work" --strip-components=1 --wildcards '*/tests/*'
fi

cd "$work" # not the source distribution's root: its own verl must not come before the installed one
mapfile -t selected < <(find tests/trainer/ppo tests/trainer/test_*_on_cpu.py tests/experimental/agent_loop/test_*_on_cpu.py -name 'test_*.py' | sort)
# some tests start more actors than a small machine has cores
cat > conftest.py << 'PYTHON'
import pytest, ray

@pytest.fixture(scope="session", autouse=True)
def cluster():
    ray.init(address="local", num_cpus=16, include_dashboard=False)
    yield
    ray.shutdown()
PYTHON
for plugins in none auto; do
    echo "VERL_USE_EXTERNAL_PLUGINS=$plugins: ${#selected[@]} files"
    VERL_USE_EXTERNAL_PLUGINS=$plugins python -m pytest -c /dev/null --rootdir . -p no:cacheprovider -q -rA \
        --timeout "${TEST_TIMEOUT:-120}" --continue-on-collection-errors "${selected[@]}" > "$plugins.log" 2>&1 || true
    grep -E '^(PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS)' "$plugins.log" | sed 's/ - .*//; s/ in [0-9.]*s//' | sort > "$plugins.txt"
    tail -n 1 "$plugins.log"
done
grep -q '^PASSED' none.txt || { tail -n 40 none.log >&2; echo "verl's tests did not run" >&2; exit 1; }
diff none.txt auto.txt && echo "the same results for $(wc -l < none.txt) tests, $(grep -c '^PASSED' none.txt) of them passed"
