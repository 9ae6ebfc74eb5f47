# Startup script of a machine with TPU chips (Ubuntu), after bootstrap_common.sh. Everything that changes is in the attributes
# gemma4-supervisor and gemma4-spec, so this file stays as it is. It uses neither gcloud, which does not work early in boot, nor apt.

main() {
    need python3 "The supervisor is a Python program."
    python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' || fail "python3 is older than 3.10." "$(python3 -V 2>&1)"
    need systemctl "systemd runs the supervisor."
    need docker "vLLM runs in a container."
    need curl "The metadata server is asked with it."
    mkdir -p -m 700 "$STATE" || fail "$STATE cannot be created." "The supervisor cannot be installed."
    fetch_supervisor "$STATE/bootstrap.pyz"
    python3 -I -S "$STATE/bootstrap.pyz" install || fail "The supervisor cannot be installed." "See the line above."
    rm -f "$STATE/bootstrap.pyz"
    say INFO "The supervisor is installed."
}

# Waits for a command: the first boot may still be installing it. Arguments: command, what it is needed for.
need() {
    local try
    for ((try = 1; try <= TRIES; try++)); do
        command -v "$1" >/dev/null && return
        sleep "$PAUSE_S"
    done
    fail "$1 is not on this machine's image." "$2 Choose a runtime version that has it."
}

main
