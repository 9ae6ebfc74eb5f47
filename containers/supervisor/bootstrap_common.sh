#!/bin/bash
# Beginning of both startup scripts: they put the supervisor into place, and do nothing else. They run at every boot and may run
# again at any time. Never `set -x`, which would write secrets into logs.
set -u
umask 022
METADATA="http://${GEMMA4_METADATA_HOST:-metadata.google.internal}/computeMetadata/v1/instance"
STATE="${GEMMA4_STATE_DIR:-/var/lib/gemma4}"
TRIES="${GEMMA4_BOOT_TRIES:-120}"
PAUSE_S="${GEMMA4_BOOT_PAUSE_S:-5}"

# Prints an attribute's value. Fails where there is none, and after all tries where the metadata server does not answer.
attribute() {
    local try code value
    for ((try = 1; try <= TRIES; try++)); do
        # An answer that breaks off has the status 200 too.
        value=$(curl -sS -m 10 -w '\n%{http_code}' -H 'Metadata-Flavor: Google' "$METADATA/attributes/$1" 2>/dev/null) || value=""
        code=${value##*$'\n'}
        [[ $code == 200 ]] && printf '%s' "${value%$'\n'*}" && return
        [[ $code == 404 ]] && return 1
        sleep "$PAUSE_S"
    done
    return 1
}

# Writes the supervisor's archive to a file.
fetch_supervisor() {
    attribute gemma4-supervisor | base64 -d >"$1" 2>/dev/null
    [[ -s $1 ]] || fail "The attribute gemma4-supervisor cannot be read from the metadata server." "Nothing can be served; reboot to try again."
}

# One entry in the form of the supervisor's log. Arguments: severity, text without quotes or backslashes.
say() { printf '{"severity":"%s","event":"bootstrap","message":"%s"}\n' "$1" "$2"; }

# Arguments: fact, consequence or remedy. The status goes where the supervisor's would be, if the machine has guest attributes.
fail() {
    say ERROR "$1 $2"
    command -v curl >/dev/null && curl -sS -m 10 -o /dev/null -X PUT -H 'Metadata-Flavor: Google' \
        --data "{\"schema\":1,\"stage\":\"bootstrap\",\"errors\":[{\"where\":\"bootstrap\",\"message\":\"$1 $2\"}]}" \
        "$METADATA/guest-attributes/gemma4/status"
    exit 1
}
