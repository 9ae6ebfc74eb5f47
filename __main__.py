"""The Pulumi program: read the configuration, decide, refuse or deploy. Everything else lives in `infra`."""

import signal
import sys

import pulumi

from infra.config import load, refuse_obstacles_before_up
from infra.errors import Gemma4Error
from infra.planning.report.text import text
from infra.stack import deploy

# A failed resource makes Pulumi interrupt this process; Python would answer with a traceback under the real error.
signal.signal(signal.SIGINT, signal.SIG_DFL)

try:
    plan, secrets = load()
    refuse_obstacles_before_up(plan)
except Gemma4Error as error:
    pulumi.log.error(str(error))
    sys.exit(32)  # Pulumi's own code for a program that has said what is wrong

if pulumi.runtime.is_dry_run():
    pulumi.log.info(text(plan))
for name, value in deploy(plan, secrets).items():
    pulumi.export(name, value)
