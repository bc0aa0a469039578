# Sourced by the scripts that make something once and keep it in runs/cache.

# make_once TARGET COMMAND...: runs the command with a folder of its own as its last argument, and moves that folder into place
# when it is complete; nothing is left of a command that fails or is interrupted. Sets the trap for EXIT; run it before others.
make_once() {
    local target=$1
    shift
    [[ -d $target ]] && return
    mkdir -p "$(dirname "$target")"
    partial=$(mktemp -d "$target.XXXXXX")
    trap 'rm -rf "$partial"' EXIT
    "$@" "$partial"
    mv -T "$partial" "$target" 2>/dev/null || rm -rf "$partial" # another run was faster
    trap - EXIT
}
