"""What `pulumi up` asks before it creates anything, on the real engine: one error, nothing created, no word in a preview."""

from __future__ import annotations

from pathlib import Path

from tests.engine.harness import Engine
from tests.fakes.google import FakeGoogle
from tests.fakes.google.wire import permission_denied


def test_an_obstacle_stops_up_with_one_error_before_anything_is_created(tmp_path: Path, google: FakeGoogle) -> None:
    google.cloudbilling.account = ""
    stack = Engine(tmp_path, google, "l4", {})
    assert stack.preview().summary["to create"] > 0
    assert google.sent("GET", "/cloudbilling/") == []

    refused = stack.up(check=False)
    diagnostics = refused.output.partition("Diagnostics:")[2]
    said = [line for line in diagnostics.splitlines() if "error:" in line]
    assert refused.code != 0
    assert len(said) == 1, refused.output
    assert "no active billing account" in said[0]
    assert "gcloud billing projects link demo-project" in said[0]
    assert "Traceback" not in refused.output
    assert google.leftovers() == []
    assert [one for one in google.requests if one.method != "GET"] == []

    stack.configure({"gemma4:preflight": False})
    google.clear()
    google.refuse(
        "POST", "/serviceusage/", permission_denied("serviceusage.services.enable", "demo-project"), times=999
    )
    refused = stack.up(check=False)
    assert google.sent("GET", "/cloudbilling/") == []
    assert google.sent("POST", "/serviceusage/") != [], refused.output
