# Startup script of a machine with GPUs on Container-Optimized OS, after bootstrap_common.sh: lets the gateway in, installs the
# GPUs' driver, and has systemd run the supervisor, in a container, since nobody says which Python the machine has. Nothing below
# /etc and /run outlives a boot.
RUN="${GEMMA4_RUN_DIR:-/run/gemma4}"
UNITS="${GEMMA4_UNIT_DIR:-/run/systemd/system}"
DRIVER="${GEMMA4_DRIVER_DIR:-/var/lib/nvidia}"
UNIT=gemma4-supervisor.service

main() {
    local name
    for name in docker systemctl iptables cos-extensions curl base64; do
        command -v "$name" >/dev/null || fail "$name is not on this machine's image." "This script is for Container-Optimized OS."
    done
    mkdir -p -m 700 "$STATE" "$RUN" || fail "$STATE or $RUN cannot be created." "The supervisor cannot be installed."
    rm -f "$RUN/going-down"
    local image program=""
    image=$(attribute gemma4-supervisor-image) || fail "The attribute gemma4-supervisor-image cannot be read." "It names the image that the supervisor runs in; reboot to try again."
    [[ $image =~ ^[A-Za-z0-9._:/@-]+$ ]] || fail "The attribute gemma4-supervisor-image is not the name of an image." "Nothing can be served."
    let_in
    program=$(mktemp "$RUN/program.XXXXXX") || fail "$RUN cannot be written." "The supervisor cannot be installed."
    fetch_supervisor "$program"
    pull "$image" & # minutes, as the driver
    install_driver
    wait $! || exit 1
    local way
    way=$(way_to_run "$image") || exit 1
    if ! same "$program" "$STATE/supervisor.pyz"; then
        cp "$program" "$STATE/.supervisor.new" && mv "$STATE/.supervisor.new" "$STATE/supervisor.pyz" \
            || fail "$STATE/supervisor.pyz cannot be written." "Make room on the boot disk."
        rm -f "$RUN/unit"
    fi
    rm -f "$program"
    start "$image" "$way"
    say INFO "The supervisor is installed."
}

# Opens the machine's own firewall, which lets nothing in but SSH, for each RANGE=PORT or RANGE=FIRST:LAST of gemma4-reach.
let_in() {
    local reach entry
    reach=$(attribute gemma4-reach) || { say WARNING "There is no attribute gemma4-reach: nobody reaches the servers of this machine."; return; }
    for entry in $reach; do
        [[ $entry =~ ^([0-9]{1,3}(\.[0-9]{1,3}){3}/[0-9]{1,2})=([0-9]{1,5}(:[0-9]{1,5})?)$ ]] \
            || fail "gemma4-reach has an entry that is not RANGE=PORT or RANGE=FIRST:LAST." "Nobody would reach the servers of this machine."
        set -- INPUT -p tcp -s "${BASH_REMATCH[1]}" --dport "${BASH_REMATCH[3]}" -j ACCEPT
        iptables -w 5 -C "$@" 2>/dev/null || iptables -w 5 -I "$@" \
            || fail "iptables refuses the rule for ${BASH_REMATCH[1]}." "Nobody would reach the servers of this machine."
    done
}

# The driver comes from Cloud Storage and is on the disk after the first boot. Its folder is not executable by default.
install_driver() {
    "$DRIVER/bin/nvidia-smi" >/dev/null 2>&1 && return
    local version try
    version=$(attribute gemma4-driver) || version=default
    [[ $version =~ ^[A-Za-z0-9.]+$ ]] || fail "The attribute gemma4-driver is not a version." "Write default, latest, or one that cos-extensions list shows."
    for ((try = 1; try <= TRIES; try++)); do
        cos-extensions install gpu -- "-version=$version" && break
        sleep "$PAUSE_S"
    done
    mount --bind "$DRIVER" "$DRIVER" && mount -o remount,exec "$DRIVER" || fail "$DRIVER cannot be made executable." "No server can use the GPUs."
    "$DRIVER/bin/nvidia-smi" -L || fail "The driver $version of the GPUs does not work on this machine." "See the lines above; gemma4-driver names another one."
    "$DRIVER/bin/nvidia-smi" topo -m
}

# Pulls the supervisor's image, logged in with the machine's token, which is only ever in a pipe and in memory.
pull() {
    docker image inspect "$1" >/dev/null 2>&1 && [[ $1 == *@sha256:* ]] && return
    local try
    for ((try = 1; try <= TRIES; try++)); do
        (
            DOCKER_CONFIG=$(mktemp -d "$RUN/docker-XXXXXX") || exit 1
            export DOCKER_CONFIG
            trap 'rm -rf "$DOCKER_CONFIG"' EXIT
            if [[ ${1%%/*} == *.pkg.dev ]]; then
                curl -sS -f -m 10 -H 'Metadata-Flavor: Google' "$METADATA/service-accounts/default/token" \
                    | sed 's/.*"access_token" *: *"\([^"]*\)".*/\1/' \
                    | docker login --username oauth2accesstoken --password-stdin "https://${1%%/*}" >/dev/null 2>&1
            fi
            docker pull --quiet "$1"
        ) && return
        docker image inspect "$1" >/dev/null 2>&1 && return # the registry does not answer, and the image is here
        sleep "$PAUSE_S"
    done
    fail "The image $1 cannot be pulled." "See the lines above; the machine's account needs roles/artifactregistry.reader, and its subnet Private Google Access."
}

# Prints how the supervisor is to be run: `image` in a container of an image that has python3 and docker, `mounted` in one
# that gets the machine's docker, or `machine` without a container.
way_to_run() {
    local python="import sys; sys.exit(sys.version_info < (3, 10))" cli
    cli=$(command -v docker)
    if docker run --rm --network none --entrypoint python3 "$1" -I -S -c "$python" >/dev/null; then
        docker run --rm --network none --entrypoint docker "$1" --version >/dev/null 2>&1 && printf image && return
        docker run --rm --network none --volume "$cli:/usr/local/bin/docker:ro" --entrypoint docker "$1" --version >/dev/null \
            && printf mounted && return
    fi
    python3 -I -S -c "$python" 2>/dev/null && printf machine && return
    fail "Neither a container of $1 nor this machine can run the supervisor: python3 of 3.10 or later and docker are needed." \
        "Name another image in gemma4-supervisor-image." >&2
}

# Writes the unit and has systemd run it. A supervisor of the same program and unit is not disturbed.
# Arguments: image, the way to run.
start() {
    local docker fresh="$RUN/unit.new" run mount=""
    docker=$(command -v docker)
    # A container cannot ask systemd whether the machine goes down, so it is told.
    local going="systemctl is-system-running | grep -q stopping && touch $RUN/going-down"
    if [[ $2 == machine ]]; then
        run="ExecStart=$(command -v python3) -I -S $STATE/supervisor.pyz run
ExecStop=/bin/bash -c '$going; true'"
    else
        [[ $2 == mounted ]] && mount="--volume $docker:/usr/local/bin/docker:ro "
        run="ExecStartPre=-$docker rm --force gemma4-supervisor
ExecStart=$docker run --rm --pull never --name gemma4-supervisor --network host --log-opt max-size=10m --volume /var/run/docker.sock:/var/run/docker.sock --volume $STATE:$STATE --volume $RUN:$RUN --volume /dev:/dev:ro --volume /dev/shm:/dev/shm ${mount}--env GEMMA4_STARTED_BY=container --entrypoint python3 $1 -I -S $STATE/supervisor.pyz run
ExecStop=/bin/bash -c '$going; exec $docker stop -t 20 gemma4-supervisor'"
    fi
    cat >"$fresh" <<EOF
[Unit]
Description=gemma4: keeps vLLM running on this machine as its metadata describe it
After=network-online.target docker.service
Wants=network-online.target docker.service
StartLimitIntervalSec=0

[Service]
Environment=GEMMA4_STARTED_BY=container
$run
Restart=always
RestartSec=5
KillMode=mixed
TimeoutStopSec=40
SyslogIdentifier=gemma4
StandardOutput=journal+console
StandardError=journal+console
EOF
    local verb=start
    if ! same "$fresh" "$RUN/unit"; then
        mkdir -p "$UNITS" && cp "$fresh" "$UNITS/$UNIT" && mv "$fresh" "$RUN/unit" || fail "$UNITS/$UNIT cannot be written." "Nothing can be served."
        systemctl daemon-reload || fail "systemd does not read its units." "Nothing can be served."
        verb=restart
    fi
    systemctl --no-block "$verb" "$UNIT" || fail "systemd does not start $UNIT." "Nothing can be served."
}

same() { [[ -e $2 && $(sha256sum <"$1") == $(sha256sum <"$2") ]]; }

main
