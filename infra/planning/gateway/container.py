"""The gateway's container: what it runs, and how it ends."""

from __future__ import annotations

_VARIABLES = tuple(f"HAPROXY_CFG_{number}" for number in range(1, 5))
"""Environment variables that carry the configuration, one part after the other."""
_MOST_VALUE_BYTES = 32_768
"""Of one variable (reference of the Cloud Run API, version 2, EnvVar)."""
STOP_AFTER_S = 9
"""What runs when the instance is told to end may take so long: Cloud Run kills it after 10 s."""


def environment(configuration: str) -> dict[str, str]:
    """Return the variables that carry a configuration, which is divided only between its sections.

    Raises:
        ValueError: it is larger than all of them together.
    """
    parts = [""]
    for section in configuration.split("\n\n"):
        longer = f"{parts[-1]}\n\n{section}" if parts[-1] else section
        parts[-1:] = [longer] if len(longer.encode()) <= _MOST_VALUE_BYTES else [parts[-1], section]
    if len(parts) > len(_VARIABLES):
        raise ValueError(f"the gateway's configuration has {len(configuration)} characters, for too many servers")
    return dict(zip(_VARIABLES, parts, strict=False))


def launch_script() -> str:
    """Return shell text that starts HAProxy on the configuration in the environment, and ends with its exit status.

    Cloud Run ends an instance with SIGTERM, which HAProxy takes as an order to cut every stream. So the shell stays to pass
    it on as SIGUSR1: nothing new, but what runs may finish. That signal ends `wait` with 143, and an idle HAProxy may be
    gone before the next look: its own status is then still to be asked for.

    SIGTSTP, which Cloud Run sends before the network moves under an instance, is ignored by the shell and by what it starts:
    a HAProxy that stops would hold every stream until SIGCONT.

    Each part of the configuration needs the end of its last line. No "$(" here: Cloud Run would read a reference to a variable
    into it.
    """
    configuration = " ".join(f'"${name}"' for name in _VARIABLES)
    return (
        "trap '' TSTP; trap 'kill -USR1 $!' TERM; "
        f"printf '%s\\n' {configuration} | haproxy -db -f /dev/stdin & "
        "s=143; while kill -0 $! 2>/dev/null; do wait $!; s=$?; done; "
        "[ $s -ne 143 ] && exit $s; wait $!"
    )
