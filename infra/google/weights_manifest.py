"""The list of files in a checkpoint's folder of a bucket: whether the folder holds what a plan reads, and all of it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any

from infra.errors import GoogleError
from infra.google.storage import Bucket
from infra.planning.artifacts import MANIFEST


def check_manifest(bucket: Bucket, prefix: str, repository: str, revision: str) -> Mapping[str, Any]:
    """Return the folder's manifest. Raises GoogleError where a file that it lists is missing or too short, or where it is of
    another commit than `revision`; a branch or tag cannot be compared."""
    place = f"gs://{bucket.name}/{prefix}"
    manifest = bucket.read_json(f"{prefix}/{MANIFEST}")
    if not isinstance(manifest, Mapping) or "files" not in manifest:
        raise GoogleError(
            f"{place} has no {MANIFEST}, so whether the weights are complete is unknown; fill the folder with "
            "containers/weights/gemma4_stage, or write weights.source: bucket."
        )
    # A folder that is served where it lies has any origin.
    if manifest.get("repo") != repository and repository != place:
        raise GoogleError(
            f"{place} holds {manifest.get('repo')}, not {repository}: the server would load another model; "
            "write weights.bucket: another-bucket, or clear the folder."
        )
    if re.fullmatch(r"[0-9a-f]{40}", revision) and manifest.get("revision") != revision:
        raise GoogleError(
            f"{place} holds {repository} at {manifest.get('revision')}, not at {revision}: the server would load files whose "
            "size was not planned; run `gemma4 pin` for what is there now, or put the files of that commit back."
        )
    there = {stored.name.removeprefix(f"{prefix}/"): stored.size_bytes for stored in bucket.objects(f"{prefix}/")}
    wrong = [row["name"] for row in manifest["files"] if there.get(row["name"]) != row["size"]]
    if wrong:
        raise GoogleError(
            f"{place}: {len(wrong)} of {len(manifest['files'])} files are missing or cut short, the first is {wrong[0]}; "
            "the server would stop while loading. Run the staging job again."
        )
    return manifest


def check_adapter(manifest: Mapping[str, Any], place: str, arguments: Sequence[str]) -> None:
    """Raise GoogleError where `arguments` ask for a LoRA adapter and the folder holds none, or one of a larger rank.

    The staging job refuses such an adapter before it copies it; a folder that somebody else filled was never asked.
    """
    asked = dict(itertools.pairwise(arguments)).get("--adapter-rank")
    if asked is None:
        return
    adapter = manifest.get("adapter")
    if not isinstance(adapter, Mapping) or not isinstance(adapter.get("rank"), int):
        raise GoogleError(
            f"{place} was not filled as a LoRA adapter, so whether the server can take it is unknown; fill it with "
            f"containers/weights/gemma4_stage and --adapter-rank {asked}, or write weights.source: bucket."
        )
    if adapter["rank"] > int(asked):
        raise GoogleError(
            f"{place} holds an adapter of rank {adapter['rank']}, and the server has room for {asked}: it would stop while it "
            "loads. Raise serving.adapterRank."
        )
