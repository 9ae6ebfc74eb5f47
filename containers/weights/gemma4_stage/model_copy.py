"""One run: brings a prefix to a revision of a model, or checks a prefix that is filled already."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

from containers.shared.manifest import MANIFEST, SHA256

from .adapter_files import (
    CONFIG,
    MOST_HEADER_BYTES,
    WEIGHTS,
    AdapterFacts,
    AdapterRules,
    adapter_facts,
    adapter_files,
    faults_of,
    from_manifest,
)
from .bucket import DestinationBucket, ExistingObject
from .connections import USER_AGENT
from .exit_codes import CopyFailure, ExitCode
from .file_copy import copy_files
from .hub import GIT_SHA1, MD5, Hub, ListedFile
from .job_log import log, readable_size
from .request import CopyRequest

NEWER = "newer commit"
"""The words by which the deployment finds in the log that a branch has moved."""


def copy_model(request: CopyRequest) -> None:
    """Bring the prefix to exactly the wanted revision; changes nothing where its manifest already says so."""
    bucket, hub = request.bucket(), request.hub()
    objects = bucket.objects()
    manifest = bucket.manifest(objects)
    revision = request.revision
    if manifest:
        # A prefix that was filled by the same branch or tag stays at its commit, wherever the branch is by now.
        asked_before = (manifest["repo"], manifest.get("requested"))
        keeps_commit = not request.is_pinned and asked_before == (request.repo, request.revision)
        if not request.is_pinned:
            revision = manifest["revision"] if keeps_commit else hub.listing(revision)[0]
        _refuse_other_model(manifest, request, revision)
        known = from_manifest(manifest.get("adapter"))
        if request.adapter and known:
            _refuse_adapter(request, request.adapter, known)
        if not _differences(manifest, objects) and (known or not request.adapter):
            whole = f"Nothing to do: {request.place} holds {request.repo} at {revision}, whole."
            note = _newer_commit(request, hub, revision) if keeps_commit else ""
            log("INFO", whole + note, event="complete", revision=revision)
            return
    revision, files = hub.listing(revision)
    facts = None
    if request.adapter:
        files = adapter_files(request.repo, files)
        facts = _adapter_at(request, hub, revision, files)
        _refuse_adapter(request, request.adapter, facts)
    right = [file.name for file in files if file.name in objects and objects[file.name].holds(file)]
    sums = {name: objects[name].metadata[SHA256] for name in right}
    missing = sorted((file for file in files if file.name not in sums), key=lambda file: -file.size)
    size, total = sum(file.size for file in missing), sum(file.size for file in files)
    log(
        "INFO",
        f"{request.repo} at {revision}: {len(files)} files, {readable_size(total)}; "
        f"{len(sums)} already in {request.place}, {readable_size(size)} to copy.",
        event="start", repo=request.repo, revision=revision, files=len(files), filesToCopy=len(missing), bytesToCopy=size,
    )  # fmt: skip
    if missing:
        hub.check_access(revision, missing[0])
        bucket.check_writable()
    if manifest:
        bucket.delete(MANIFEST)  # until the end the prefix is incomplete, and must not claim otherwise
    if missing:
        sums.update(copy_files(request, revision, missing, objects))
    _write_manifest(request, bucket, revision, files, sums, facts)


def verify_prefix(request: CopyRequest) -> None:
    """Check a filled prefix against its manifest; changes nothing. Raises CopyFailure where they differ."""
    bucket = request.bucket()
    objects = bucket.objects()
    manifest = bucket.manifest(objects)
    if manifest is None:
        raise CopyFailure(
            ExitCode.MANIFEST,
            f"{request.place} has no {MANIFEST}: it was never filled completely by this tool. "
            "Fill it with --repo (right files are kept), or point the destination at the right prefix.",
        )
    if request.repo:
        # A branch or tag cannot be compared without asking the Hub; only copying does that.
        _refuse_other_model(manifest, request, request.revision if request.is_pinned else manifest["revision"])
    differences = _differences(manifest, objects)
    for difference in differences:
        log("ERROR", difference, event="fault", file=difference.partition(":")[0])
    if differences:
        fact = f"{request.place}: {len(differences)} files differ from {MANIFEST}."
        raise CopyFailure(ExitCode.MANIFEST, f"{fact} Copy again to repair.")
    _warn_of_foreign_objects(request, manifest, objects)
    repo, revision = manifest["repo"], manifest["revision"]
    message = f"{request.place} holds {repo} at {revision}: {len(manifest['files'])} files, whole."
    log("INFO", message, event="verified", repo=repo, revision=revision)


def _adapter_at(request: CopyRequest, hub: Hub, revision: str, files: Sequence[ListedFile]) -> AdapterFacts:
    """Return what an adapter says of itself: its configuration, and the list of tensors at the start of its weights."""
    config, weights = (next(file for file in files if file.name == name) for name in (CONFIG, WEIGHTS))
    length = int.from_bytes(hub.start_of(revision, weights, 8), "little")
    if length > MOST_HEADER_BYTES or config.size > MOST_HEADER_BYTES:
        fact = (
            f"{request.repo}: {WEIGHTS} or {CONFIG} is not of its kind: it begins with more than 16 MiB of description."
        )
        raise CopyFailure(ExitCode.ADAPTER, f"{fact} Is it a PEFT adapter?")
    header = hub.start_of(revision, weights, 8 + length)[8:]
    return adapter_facts(request.repo, hub.start_of(revision, config, config.size), header)


def _refuse_adapter(request: CopyRequest, rules: AdapterRules, facts: AdapterFacts) -> None:
    """Raise CopyFailure where the adapter cannot be served as planned; warn of what the server leaves out of it."""
    faults = list(faults_of(facts, rules))
    if faults:
        raise CopyFailure(ExitCode.ADAPTER, f"{request.repo} cannot be served: {' Besides, '.join(faults)}")
    if facts.ignored:
        fact = f"{request.repo} also changes {', '.join(facts.ignored)}, which the server leaves as they are."
        log(
            "WARNING", f"{fact} Its answers about pictures or sound may differ from those in training.", event="adapter"
        )


def _newer_commit(request: CopyRequest, hub: Hub, revision: str) -> str:
    """Return a sentence about the newer commit that the branch names by now; empty where there is none, or no answer."""
    try:
        now, _ = hub.listing(request.revision)
    except CopyFailure as failure:  # what is there is whole and will be served: not worth a failed job
        log("WARNING", f"It is not known whether {request.revision} has moved: {failure}", event="retry")
        return ""
    if now == revision:
        return ""
    if request.repo.startswith("gs://"):
        return (
            f" {request.repo} holds a {NEWER}, which is left alone. To serve it, put it into a folder of another name."
        )
    return (
        f" {request.revision} has a {NEWER} {now}, which is left alone. To serve it, name it as the revision "
        "(gemma4 pin): it gets a prefix of its own."
    )


def _write_manifest(
    request: CopyRequest, bucket: DestinationBucket, revision: str, files: Sequence[ListedFile], sums: Mapping[str, str],
    adapter: AdapterFacts | None,
) -> None:  # fmt: skip
    """Look at the bucket once more, then write the manifest that vouches for it."""
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    total = sum(file.size for file in files)
    rows = []
    for file in sorted(files):
        row: dict[str, object] = {"name": file.name, "size": file.size, SHA256: sums[file.name]}
        rows.append({**row, file.algorithm: file.digest})
    manifest = {"schema": 1, "tool": USER_AGENT, "repo": request.repo, "revision": revision}
    manifest.update(requested=request.revision, completed=stamp, bytes=total, files=rows)
    if adapter:
        manifest["adapter"] = adapter._asdict()
    objects = bucket.objects()
    differences = _differences(manifest, objects)
    if differences:
        fact = f"{request.place} changed during the copy: {differences[0]}."
        raise CopyFailure(ExitCode.MANIFEST, f"{fact} Is another run writing to it?")
    _warn_of_foreign_objects(request, manifest, objects)
    bucket.write(MANIFEST, json.dumps(manifest, indent=1).encode())
    written = f"Complete: {len(files)} files, {readable_size(total)} in {request.place}; {MANIFEST} written."
    log("INFO", written, event="complete")


def _differences(manifest: Mapping[str, Any], objects: Mapping[str, ExistingObject]) -> list[str]:
    """Return what differs between a manifest and the objects beside it, one line a file."""
    found = []
    for row in manifest["files"]:
        name, stored = row["name"], objects.get(row["name"])
        if stored is None:
            found.append(f"{name}: missing")
        elif stored.size != row["size"]:
            found.append(f"{name}: size expected {row['size']}, got {stored.size}")
        elif not any(row.get(kind) and stored.metadata.get(kind) == row[kind] for kind in (SHA256, GIT_SHA1, MD5)):
            got = stored.metadata.get(SHA256) or "none: not written by this tool"
            found.append(f"{name}: sha256 expected {row[SHA256]}, got {got}")
    return found


def _refuse_other_model(manifest: Mapping[str, Any], request: CopyRequest, revision: str) -> None:
    if (manifest.get("repo"), manifest.get("revision")) != (request.repo, revision):
        raise CopyFailure(
            ExitCode.MANIFEST,
            f"{request.place} holds {manifest.get('repo')} at {manifest.get('revision')}, "
            f"not {request.repo} at {revision}. "
            "Mixing two would break whatever reads it: choose another prefix, or that revision.",
        )


def _warn_of_foreign_objects(
    request: CopyRequest, manifest: Mapping[str, Any], objects: Mapping[str, ExistingObject]
) -> None:
    foreign = sorted(set(objects) - {row["name"] for row in manifest["files"]} - {MANIFEST})
    if foreign:
        shown = ", ".join(foreign[:5])
        fact = f"{request.place} also has {len(foreign)} objects that belong to no file of the model: {shown}"
        log("WARNING", fact, event="foreign")
