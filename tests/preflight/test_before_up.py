"""What `pulumi up` asks by itself: a few small questions, of which only a certain no stops it, before anything is created."""

from __future__ import annotations

import pytest

from infra.errors import RefusedError
from infra.google.session import Retry
from infra.ops.program import run_program
from infra.preflight.before_up import refuse_obstacles
from tests.components.test_program import known_outputs
from tests.fakes.google.client import session
from tests.fakes.google.wire import permission_denied, service_disabled
from tests.preflight.conftest import Made
from tests.preflight.ready_project import ReadyProject
from tests.projects import ROOT

MOST_REQUESTS = 5


def ask(project: ReadyProject) -> None:
    project.google.requests.clear()
    refuse_obstacles(project.planned().plan, lambda: session(project.google, retry=Retry(attempts=1)))


@pytest.mark.parametrize("stack", ["l4", "rtx6000", "v6e4", "v6e8"])
def test_nothing_is_said_where_nothing_is_in_the_way_and_little_is_asked(made: Made, stack: str) -> None:
    project = made(stack)
    ask(project)
    assert 0 < len(project.google.requests) <= MOST_REQUESTS
    assert project.changes() == []


def test_everything_that_is_in_the_way_is_said_at_once_by_its_setting(made: Made) -> None:
    project = made("v6e4")
    project.google.cloudbilling.account = ""
    quota = "TPUV6EPreemptiblePerProjectPerZoneForTPUAPI"
    project.google.cloudquotas.set_quota("tpu.googleapis.com", quota, "us-east5-a", 0)
    with pytest.raises(RefusedError) as caught:
        ask(project)
    assert [fault.key for fault in caught.value.faults] == ["gcp:project", "tpu.zone"]
    assert "gcloud billing projects link demo-project" in str(caught.value)
    assert "gemma4 zones v6e4" in str(caught.value)
    assert project.changes() == []


def test_more_instances_than_the_gpu_quota_holds_are_stopped(made: Made) -> None:
    project = made("l4")
    project.settings["scaling"] = {"maxInstances": 4}
    with pytest.raises(RefusedError, match=r"scaling.maxInstances: NvidiaL4.*: 4 GPU needed, 1 GPU in us-east4"):
        ask(project)


def test_refused_credentials_are_said_once_and_nothing_more_is_asked(made: Made) -> None:
    project = made("l4")
    project.google.expire("fake-access-token")
    with pytest.raises(RefusedError, match="gcloud auth application-default login") as caught:
        ask(project)
    assert len(caught.value.faults) == 1
    assert len(project.google.requests) == 1


def test_what_cannot_be_asked_stops_nothing(made: Made) -> None:
    project = made("l4")
    project.google.refuse("GET", "/cloudquotas/", service_disabled("cloudquotas.googleapis.com", "x"), times=99)
    project.google.refuse("GET", "/cloudbilling/", permission_denied("resourcemanager.projects.get", "x"), times=99)
    ask(project)
    project.google.fault("GET", "/crm/", drop="before", times=99)
    ask(project)


def test_slices_that_run_do_not_stand_in_their_own_way(made: Made) -> None:
    """The quota holds the stack exactly, and its slice holds all of it."""
    from tests.preflight.test_obstacles import queue

    project = made("v6e4")
    queue(project, "gemma4-v6e4-blue", "us-east5-a", "PROVISIONING", app="gemma4", stack="v6e4", slice="blue")
    ask(project)


def test_a_run_in_memory_asks_nothing_of_google(made: Made) -> None:
    """Neither the list of a plan's resources nor a test of the program may depend on the cloud."""
    project = made("l4")
    project.google.cloudbilling.account = ""
    config = {f"gcp:{key}": value for key, value in project.google.settings().items()}
    config |= {"gemma4:model": "gemma-4-12b-it-qat-w4a16", "gemma4:accelerator": "l4"}
    for preview in (True, False):
        ran = run_program(ROOT, "l4", config, preview=preview, outputs=None if preview else known_outputs)
        assert (ran.exit_code, len(ran.resources) > 20) == (0, True)
    assert project.google.requests == []
