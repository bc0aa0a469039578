# Sourced by the scripts that make something once and keep it in runs/cache.

# make_once TARGET COMMAND...: runs the command with a folder of its own as its last argument, and moves that folder into place
# when it is complete; nothing is left of a command that fails or is interrupted. A subshell, so that the trap is its own.
make_once() (
    target=$1
    shift
    [[ ! -d $target ]] || exit 0
    mkdir -p "$(dirname "$target")"
    partial=$(mktemp -d "$target.XXXXXX")
    trap 'rm -rf "$partial"' EXIT
    chmod +rx "$partial" # mktemp keeps others out; what stays is as readable as any folder made here
    "$@" "$partial"
    mv -T "$partial" "$target" 2>/dev/null || [[ -d $target ]] # another run was faster
)
