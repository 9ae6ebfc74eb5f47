"""The gateway's container: what it runs, and how it ends."""

from __future__ import annotations

ENV_NAME = "HAPROXY_CFG"
"""Environment variable that carries the configuration."""
STOP_AFTER_S = 9
"""What runs when the instance is told to end may take so long: Cloud Run kills it after 10 s."""


def launch_script() -> str:
    """Return shell text that starts HAProxy on the configuration in the environment, and ends with its exit status.

    Cloud Run ends an instance with SIGTERM, which HAProxy takes as an order to cut every stream. So the shell stays to pass
    it on as SIGUSR1: nothing new, but what runs may finish. That signal ends `wait` with 143, and an idle HAProxy may be
    gone before the next look: its own status is then still to be asked for.

    SIGTSTP, which Cloud Run sends before the network moves under an instance, is ignored by the shell and by what it starts:
    a HAProxy that stops would hold every stream until SIGCONT.

    The last line of the configuration needs its end of line. No "$(" here: Cloud Run would read a reference to a variable
    into it.
    """
    return (
        "trap '' TSTP; trap 'kill -USR1 $!' TERM; "
        f"printf '%s\\n' \"${ENV_NAME}\" | haproxy -db -f /dev/stdin & "
        "s=143; while kill -0 $! 2>/dev/null; do wait $!; s=$?; done; "
        "[ $s -ne 143 ] && exit $s; wait $!"
    )
