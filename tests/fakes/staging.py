"""Does the staging job's work inside the fake Google Cloud: whole small checkpoints with their manifests."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from infra.planning.artifacts import MANIFEST, AdapterSet, WeightSet
from tests.fakes.google import FakeGoogle
from tests.fakes.google.jobs import Outcome

FILES = {"config.json": "{}", "model.safetensors": "weights"}


def stage_into(
    google: FakeGoogle, weights: Iterable[WeightSet], adapters: Iterable[AdapterSet] = ()
) -> Callable[[dict[str, Any], dict[str, Any]], Outcome]:
    """An executor for `google.run.executor` that fills the folder which the job's arguments name."""
    known = {checkpoint.hub_id for checkpoint in weights} | {adapter.source for adapter in adapters}

    def execute(_job: dict[str, Any], overrides: dict[str, Any]) -> Outcome:
        words = overrides["containerOverrides"][0]["args"]
        given = dict(zip(words[::2], words[1::2], strict=True))
        if given["--repo"] not in known:
            return Outcome(succeeds=False, message=f"no {given['--repo']}", exit_code=6)
        bucket, _, prefix = given["--destination"].removeprefix("gs://").partition("/")
        for name, text in FILES.items():
            google.storage.put_text(bucket, f"{prefix}/{name}", text)
        rows = [{"name": name, "size": len(text)} for name, text in FILES.items()]
        asked = given.get("--revision", "main")
        commit = asked if len(asked) == 40 else "0" * 40
        manifest = {"schema": 1, "repo": given["--repo"], "revision": commit, "bytes": sum(map(len, FILES.values()))}
        rank = given.get("--adapter-rank")
        adapter = {"adapter": {"rank": int(rank)}} if rank else {}
        google.storage.put_text(bucket, f"{prefix}/{MANIFEST}", json.dumps({**manifest, **adapter, "files": rows}))
        return Outcome(polls=2, log=[f"copied {given['--repo']}"])

    return execute
