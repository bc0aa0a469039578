#!/usr/bin/env bash
# Makes the environment .venv at the root of the repository: requirements/cpu.lock and this package, editable.
# Run it as often as you like: it does nothing while the lock file is unchanged, and runs started together wait for the
# first one. PYTHON=/path/to/python3.11 chooses the interpreter.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
venv=$root/.venv
lock=$root/requirements/cpu.lock
stamp=$venv/.installed-from
log=$venv/install.log
torch_index=https://download.pytorch.org/whl/cpu

wanted=$(cat "$lock" "$root/setup.py" "$root/verl_srpo/__init__.py" | sha256sum | cut -d' ' -f1)
up_to_date() { [[ -x $venv/bin/python && $(cat "$stamp" 2>/dev/null) == "$wanted" ]]; }
fail() { printf 'install.sh: %s\n' "$*" >&2; exit 1; }

up_to_date && exit 0

exec 9<"$lock"
flock --nonblock 9 || { echo "Another run is installing into $venv; waiting for it."; flock 9; }
up_to_date && exit 0

is_python_311() { [[ $("$1" -c 'import sys; print(*sys.version_info[:2])' 2>/dev/null) == "3 11" ]]; }

find_python() {
    local candidate
    for candidate in ${PYTHON:-python3.11 python3 python}; do
        is_python_311 "$candidate" && { command -v "$candidate"; return; }
    done
    fail "Python 3.11 is needed and was not found (tried: ${PYTHON:-python3.11, python3, python}). The versions in" \
        "requirements/cpu.lock are for 3.11. Install it (Debian, Ubuntu: apt install python3.11 python3.11-venv) or name" \
        "it: PYTHON=/path/to/python3.11"
}

if [[ ! -x $venv/bin/python ]] || ! is_python_311 "$venv/bin/python"; then
    python=$(find_python)
    echo "Creating $venv with $python"
    "$python" -m venv --clear "$venv" ||
        fail "$python cannot make virtual environments (Debian, Ubuntu: apt install python3.11-venv)"
fi
rm -f "$stamp"

installed() { find "$venv/lib/python3.11/site-packages" -maxdepth 1 -name '*.dist-info' | wc -l; }

# Runs pip with its output in the log, and says how far it is: on one line of a terminal, else every 15 seconds.
pip_install() {
    local start=$SECONDS total line
    total=$(grep -cE '^[^#[:space:]]' "$lock")
    "$venv/bin/python" -m pip install --disable-pip-version-check --no-input "$@" >>"$log" 2>&1 9<&- &
    local pip=$!
    while kill -0 "$pip" 2>/dev/null; do
        sleep 1
        line="Installing $total packages: $(grep -cE '^(Collecting|Processing|Requirement already)' "$log" || true) fetched,"
        line+=" $(installed) installed, $((SECONDS - start)) s"
        if [[ -t 1 ]]; then
            printf '\r%s ' "$line"
        elif (((SECONDS - start) % 15 == 0)); then
            echo "$line"
        fi
    done
    [[ -t 1 ]] && echo
    wait "$pip" || { tail -n 25 "$log" >&2; fail "pip failed; its whole output is in $log"; }
}

: >"$log"
torch=$(grep '^torch==' "$lock")
if ! "$venv/bin/python" -m pip install --disable-pip-version-check --quiet --dry-run --no-deps "$torch" >>"$log" 2>&1; then
    echo "Fetching $torch from $torch_index"
    pip_install --no-deps --index-url "$torch_index" "$torch"
fi
# The lock file names every package, so nothing is left to resolve; resolving would also bring torchvision and its kin,
# whose ordinary wheels cannot be imported beside a CPU build of torch.
pip_install --no-deps --requirement "$lock"
pip_install --no-deps --no-build-isolation --config-settings editable_mode=compat --editable "$root"

echo "$wanted" >"$stamp"
echo "Installed into $venv"
