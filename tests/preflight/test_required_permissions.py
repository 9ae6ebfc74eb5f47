"""The table of permissions: it knows everything that the real program registers, and asks about it in bounded requests."""

from __future__ import annotations

from typing import Any

import pytest

from infra.google.project import MOST_PERMISSIONS, lacking
from infra.ops.program import run_program
from infra.planning.planner import make_plan
from infra.planning.report.resources import ResourceRow
from infra.planning.settings.stackfile import read_stack, stack_names
from infra.preflight.required_permissions import PERMISSIONS, permissions_for, role_for, unlisted_types
from tests.fakes.google import FakeGoogle
from tests.fakes.google.client import session
from tests.projects import ROOT

SHIPPED = [
    name for name in stack_names(ROOT) if make_plan(name, read_stack(ROOT, name).settings).accelerator.deployable
]
FURTHER: list[tuple[str, dict[str, Any]]] = [
    ("l4", {"images": {"dockerHubUser": "me-too", "dockerHubSecret": "docker"}}),
    ("l4", {"weights": {"source": "existing", "bucket": "filled"}}),
    ("l4", {"weights": {"source": "huggingface"}, "hfTokenSecret": "hf"}),
    ("l4", {"hfToken": {"secure": "hf_x"}, "access": {"invokers": ["user:a@b.c"], "deployers": ["user:a@b.c"]}}),
    ("l4", {"serving": {"adapters": {"tone": "gs://tunes/tone"}}}),
    ("v6e4", {"tpu": {"slices": ["blue", "green"], "iapSsh": True}}),
    ("v6e4", {"weights": {"source": "huggingface"}, "hfTokenSecret": "hf"}),
]


def rows(stack: str, settings: dict[str, Any]) -> list[ResourceRow]:
    """What the program registers for a stack with these settings."""
    given = {**read_stack(ROOT, stack).settings, **settings}
    ran = run_program(ROOT, stack, {f"gemma4:{key}": value for key, value in given.items()})
    assert ran.exit_code == 0, ran.messages
    return [ResourceRow(one.type, one.name, "", one.inputs) for one in ran.resources]


@pytest.mark.parametrize(("stack", "settings"), [*((name, {}) for name in SHIPPED), *FURTHER])
def test_every_type_that_the_program_registers_is_in_the_table(stack: str, settings: dict[str, Any]) -> None:
    assert unlisted_types(rows(stack, settings)) == []


def test_a_type_that_is_not_in_the_table_is_named() -> None:
    assert unlisted_types([ResourceRow("gcp:pubsub/topic:Topic", "t", "")]) == ["gcp:pubsub/topic:Topic"]


def test_every_permission_has_a_role_that_is_less_than_owner() -> None:
    assert [one for ones in PERMISSIONS.values() for one in ones if role_for(one) == "roles/owner"] == []
    assert role_for("resourcemanager.projects.get") == "roles/browser"
    assert role_for("resourcemanager.projects.getIamPolicy") == "roles/resourcemanager.projectIamAdmin"
    assert role_for("compute.firewalls.create") == "roles/compute.securityAdmin"
    assert role_for("iam.serviceAccounts.actAs") == "roles/iam.serviceAccountUser"


def test_a_folder_that_is_only_checked_needs_no_job() -> None:
    kind = "pulumi-python:dynamic/gemma4:WeightsCopy"
    assert "run.jobs.run" in permissions_for([ResourceRow(kind, "copy", "", {"job": "stage"})])
    needs = permissions_for([ResourceRow(kind, "copy", "", {"job": ""})])
    assert "storage.objects.get" in needs
    assert not any(one.startswith("run.") for one in needs)


def test_a_request_asks_about_a_bounded_number_and_no_answer_is_lost() -> None:
    wanted = [f"run.thing{number}.get" for number in range(2 * MOST_PERMISSIONS + 5)]
    with FakeGoogle() as google:
        google.crm.deny(wanted[0], wanted[-1])
        google.crm.untestable.add(wanted[MOST_PERMISSIONS])
        found = lacking(session(google), wanted)
        asked = google.sent("POST", ":testIamPermissions")
    assert set(found.missing) == {wanted[0], wanted[-1]}
    assert found.untestable == (wanted[MOST_PERMISSIONS],)
    assert len(asked) == 4, "three requests, and one again without what cannot be tested"
