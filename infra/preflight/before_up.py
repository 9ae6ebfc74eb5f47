"""What `pulumi up` asks by itself before it creates anything: is the project there, paid for, and granted the machines?

A few small requests side by side, in one or two seconds. Only what is certain stops `up`: where a question gets no answer, `up`
goes on, and Google itself says what is wrong.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable

from infra.errors import Fault, GoogleError, RefusedError
from infra.google.session import GoogleSession
from infra.planning.plan import Plan
from infra.preflight.all_checks import FIRST
from infra.preflight.preflight_check import PreflightCheck
from infra.preflight.project_checks import check_billing, check_project
from infra.preflight.run_checks import run_checks
from infra.preflight.subject import Subject


def refuse_obstacles(plan: Plan, connect: Callable[[], GoogleSession]) -> None:
    """Raise RefusedError with every obstacle that was found. `connect` makes a session."""
    checks = [
        PreflightCheck(FIRST, "Credentials and project", check_project, key="gcp:project"),
        PreflightCheck("billing", "Billing", check_billing, key="gcp:project"),
        *(importlib.import_module(module).quick_checks(plan) if (module := plan.platform.preflight) else ()),
    ]
    try:
        results = run_checks(checks, Subject(plan, connect), first=FIRST)
    except GoogleError:
        return  # nobody answers: the first resource will say so
    faults = [
        Fault(check.key or check.id, f"{found.fact}.", found.consequence, f"Mend it: {found.fix}")
        for check in checks
        if (found := results[check.id]).state == "failed"
    ]
    if faults:
        raise RefusedError(faults)
