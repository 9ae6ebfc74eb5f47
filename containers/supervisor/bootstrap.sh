#!/bin/bash
# Startup script of a slice: installs the supervisor, and does nothing else. Everything that changes is in the attributes
# gemma4-supervisor and gemma4-spec, so this file stays as it is. It runs at every boot and may run again at any time. It
# uses neither gcloud, which does not work early in boot, nor apt, and never `set -x`, which would write secrets into logs.
set -u
umask 022
METADATA="http://${GEMMA4_METADATA_HOST:-metadata.google.internal}/computeMetadata/v1/instance"
STATE="${GEMMA4_STATE_DIR:-/var/lib/gemma4}"
TRIES="${GEMMA4_BOOT_TRIES:-120}"
PAUSE_S="${GEMMA4_BOOT_PAUSE_S:-5}"

main() {
    need python3 "The supervisor is a Python program."
    python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' || fail "python3 is older than 3.10." "$(python3 -V 2>&1)"
    need systemctl "systemd runs the supervisor."
    need docker "vLLM runs in a container."
    mkdir -p -m 700 "$STATE" || fail "$STATE cannot be created." "The supervisor cannot be installed."
    local try
    for ((try = 1; try <= TRIES; try++)); do
        if fetch "$STATE/bootstrap.pyz"; then
            python3 -I -S "$STATE/bootstrap.pyz" install || fail "The supervisor cannot be installed." "See the line above."
            rm -f "$STATE/bootstrap.pyz"
            say INFO "The supervisor is installed."
            exit 0
        fi
        sleep "$PAUSE_S"
    done
    fail "The attribute gemma4-supervisor cannot be read from the metadata server." "Nothing can be served; reboot to try again."
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

fetch() {
    python3 -I -S - "$METADATA/attributes/gemma4-supervisor" "$1" <<'PYTHON'
import base64, sys, urllib.request

try:
    request = urllib.request.Request(sys.argv[1], headers={"Metadata-Flavor": "Google"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        data = base64.b64decode(answer.read(), validate=True)
except (OSError, ValueError) as error:
    sys.exit(f"gemma4-supervisor: {error}")
with open(sys.argv[2], "wb") as file:
    file.write(data)
PYTHON
}

# One entry in the form of the supervisor's log. Arguments: severity, text without quotes or backslashes.
say() { printf '{"severity":"%s","event":"bootstrap","message":"%s"}\n' "$1" "$2"; }

# Arguments: fact, consequence or remedy. The status goes where the supervisor's would be, if the node has guest attributes.
fail() {
    say ERROR "$1 $2"
    command -v curl >/dev/null && curl -sS -m 10 -o /dev/null -X PUT -H 'Metadata-Flavor: Google' \
        --data "{\"schema\":1,\"stage\":\"bootstrap\",\"errors\":[{\"where\":\"bootstrap\",\"message\":\"$1 $2\"}]}" \
        "$METADATA/guest-attributes/gemma4/status"
    exit 1
}

main
