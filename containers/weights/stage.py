#!/usr/bin/env python3
"""Copy one Hugging Face model into a Cloud Storage prefix, file by file, without ever holding a file.

The promise: an object stands under its final name only if it is whole and its checksum is the one that the Hub lists.
Bytes go from a Range-resumable download through a fixed window of memory into a resumable upload; the chunk that would
complete the object is held back until the checksum of all bytes is right. The manifest is written last, so its presence
says that everything is there. Whatever is already there is not copied again: after a kill, run it again.

One file, standard library only, Python 3.9 or later, because it runs unbuilt on a stock cloud-CLI image. README.md
has the manifest's schema, the log format and the reasons.
"""

from __future__ import annotations

import argparse
import email.utils
import enum
import hashlib
import http.client
import json
import os
import queue
import random
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn, TypeVar
from urllib.parse import quote, urljoin, urlsplit

TOOL = "gemma4-stage/1"
MANIFEST = "gemma4-manifest.json"
NEWER = "newer commit"  # the words by which a reader of the log finds that note
SHA256, GIT_SHA1 = "sha256", "git-sha1"  # checksum names, and the keys of the custom metadata on our objects

MIB = 1024 * 1024
QUANTUM = 256 * 1024  # resumable uploads take chunks in multiples of this
PIECE = 2 * MIB  # read and hashed at once, with few turns of the interpreter for each mebibyte
MEMORY_MIB = 192  # all windows together; the interpreter needs about 30 MiB beside them
FILE_STARTS = 3
MAX_REDIRECTS = 5
REDIRECTS = (301, 302, 303, 307, 308)
MAX_ANSWER = 16 * MIB  # the longest answer that is not a file's content; a list of 10,000 files has 3 MiB
MAX_WAIT_S = 300.0

# What vLLM never reads. Weights in another format are dropped only where the same repository has safetensors.
SKIPPED_FOLDERS = ("original/", "onnx/", "gguf/", "litert/", ".")
SKIPPED_ENDINGS = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".svg", ".mp4", ".pdf")
OTHER_WEIGHTS = (".bin", ".pt", ".pth", ".ckpt", ".h5", ".msgpack", ".gguf", ".onnx", ".tflite", ".task", ".litertlm")

EPILOG = f"""\
Copies only what is missing or different, so a run that was killed is simply started again.

environment:
  HF_TOKEN                     Hugging Face token, where the model is gated; sent to HF_ENDPOINT and nowhere else
  HF_ENDPOINT                  default https://huggingface.co
  STORAGE_ENDPOINT             default https://storage.googleapis.com (STORAGE_EMULATOR_HOST works as well)
  GOOGLE_OAUTH_ACCESS_TOKEN    Google access token to use instead of asking the metadata server
  GCE_METADATA_HOST            default metadata.google.internal

exit codes:
  0    everything is there, and the manifest says so
  1    gave up after retries, or an unexpected fault: run again, what is there stays
  2    wrong command line
  3    a file did not have the size or checksum that the Hub lists; it was not stored
  4    Hugging Face does not accept the token
  5    the model is gated: no token, or its account has no access (licence not accepted)
  6    repository, revision or file not found on the Hub
  7    the bucket cannot be read or written
  8    the bucket's manifest is missing, differs from the objects, or belongs to another model or revision
  9    an answer that no Hub gives: a list from elsewhere, a redirect to plain http, an unclean file name, too long
  143  told to stop (SIGTERM): run again, what is there stays

example:
  HF_TOKEN=... stage.py --repo google/gemma-4-31B-it --revision 0123abc --destination gs://my-bucket/gemma-4-31b-it
  stage.py --verify --destination gs://my-bucket/gemma-4-31b-it      (checks {MANIFEST}, changes nothing)
"""


class Exit(enum.IntEnum):
    OK = 0
    GAVE_UP = 1
    USAGE = 2
    MISMATCH = 3
    TOKEN = 4
    GATED = 5
    NOT_FOUND = 6
    BUCKET = 7
    MANIFEST = 8
    DISTRUST = 9
    STOPPED = 143


class Failure(Exception):
    """Ends the run: one line for its reader, and the exit code of that kind of trouble."""

    def __init__(self, code: Exit, message: str) -> None:
        super().__init__(message)
        self.code = code


class Stopped(BaseException):
    """SIGTERM or SIGINT arrived."""


class Busy(Exception):
    """The other side cannot answer now; worth another try after `retry_after` seconds."""

    def __init__(self, fact: str, retry_after: float = 0.0) -> None:
        super().__init__(fact)
        self.retry_after = retry_after


class SessionLost(Exception):
    """The bucket has forgotten an unfinished upload: that file has to start again."""


TRANSIENT = (Busy, OSError, http.client.HTTPException)
T = TypeVar("T")


class File(NamedTuple):
    """One file as the Hub lists it. `algorithm` is SHA256 for LFS files, GIT_SHA1 (blob id) for all others."""

    name: str
    size: int
    algorithm: str
    digest: str


class Stored(NamedTuple):
    """One object of the bucket; its name is relative to the prefix."""

    name: str
    size: int
    generation: str
    metadata: Mapping[str, str]

    def holds(self, file: File) -> bool:
        right = self.size == file.size and self.metadata.get(file.algorithm) == file.digest
        return right and SHA256 in self.metadata


def main(argv: Sequence[str] | None = None, environ: Mapping[str, str] = os.environ) -> int:
    options = parse(argv)
    try:
        job = Job(options, environ)
        if options.verify:
            verify(job)
        else:
            copy(job)
    except Failure as failure:
        say("ERROR", str(failure), event="failed", exitCode=int(failure.code))
        return failure.code
    except Stopped:
        say("WARNING", "Told to stop. Run it again: whole files stay and are not copied twice.", event="stopped")
        return Exit.STOPPED
    except Exception as error:  # the job's log is all that anybody will see of a fault of ours
        import traceback

        text = f"Unexpected {type(error).__name__}: {error}. This is a fault of stage.py; a re-run may pass it."
        say("ERROR", text, event="failed", exitCode=int(Exit.GAVE_UP), stack=traceback.format_exc())
        return Exit.GAVE_UP
    return Exit.OK


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="stage.py",
        description="Copy a Hugging Face model into a Cloud Storage prefix, verified, resumable, in bounded memory.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--destination", required=True, metavar="gs://BUCKET/PREFIX", help="where the files go; one model a prefix")
    add("--repo", metavar="OWNER/NAME", help="model repository on the Hub; with --verify, what the manifest must name")
    add("--revision", metavar="REV", help="commit (40 hex digits), tag or branch; default main")
    add("--verify", action="store_true", help="copy nothing: check the manifest against the objects in the bucket")
    add("--parallel", type=count, default=3, metavar="N", help="files copied at once (3)")
    add("--chunk-mib", type=count, default=16, metavar="MIB", help="upload chunk; each file in flight holds two (16)")
    add("--retries", type=int, default=8, metavar="N", help="tries without progress before giving up (8)")
    add("--backoff-seconds", type=float, default=1.0, metavar="S", help="first wait, doubled up to a minute (1)")
    add("--timeout-seconds", type=float, default=60.0, metavar="S", help="silence after which a connection is cut (60)")
    add("--progress-seconds", type=float, default=10.0, metavar="S", help="time between progress lines (10)")
    options = parser.parse_args(argv)
    if not options.verify and not options.repo:
        parser.error("--repo says what to copy; give it, or --verify to check a bucket that is already filled")
    if options.parallel * options.chunk_mib * 2 > MEMORY_MIB:
        parser.error(f"--parallel x --chunk-mib x 2 must stay within {MEMORY_MIB} MiB; lower one of them")
    return options


def count(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 up")
    return int(text)


def copy(job: Job) -> None:
    """Bring the prefix to exactly the wanted revision; a no-op where its manifest already says so."""
    bucket, hub = job.bucket(), job.hub()
    objects = bucket.objects()
    manifest = bucket.manifest(objects)
    revision = job.revision
    if manifest:
        kept = is_same_branch(manifest, job)  # then it stays at its commit, wherever the branch is by now
        if not job.is_pinned:
            revision = manifest["revision"] if kept else hub.listing(revision)[0]
        refuse_other_model(manifest, job, revision)
        if not faults(manifest, objects):
            whole = f"Nothing to do: {job.place} holds {job.repo} at {revision}, whole."
            say("INFO", whole + (newer(job, hub, revision) if kept else ""), event="complete", revision=revision)
            return
    revision, files = hub.listing(revision)
    sums = {file.name: objects[file.name].metadata[SHA256] for file in files if is_there(file, objects)}
    todo = sorted((file for file in files if file.name not in sums), key=lambda file: -file.size)
    size, total = sum(file.size for file in todo), sum(file.size for file in files)
    say(
        "INFO",
        f"{job.repo} at {revision}: {len(files)} files, {gib(total)}; "
        f"{len(sums)} already in {job.place}, {gib(size)} to copy.",
        event="start", repo=job.repo, revision=revision, files=len(files), filesToCopy=len(todo), bytesToCopy=size,
    )  # fmt: skip
    if todo:
        hub.check_access(revision, todo[0])
        bucket.check_writable()
    if manifest:
        bucket.delete(MANIFEST)  # until the end the prefix is incomplete, and must not claim otherwise
    if todo:
        sums.update(copy_files(job, revision, todo, objects))
    finish(job, bucket, revision, files, sums)


def is_same_branch(manifest: Mapping[str, Any], job: Job) -> bool:
    """Whether the prefix was filled with the same model by the same name of a branch or tag, which may have moved."""
    return not job.is_pinned and (manifest["repo"], manifest.get("requested")) == (job.repo, job.revision)


def newer(job: Job, hub: Hub, revision: str) -> str:
    """A sentence about the newer commit that a branch names by now; empty where it names `revision`, or nobody can say."""
    try:
        now, _ = hub.listing(job.revision)
    except Failure as failure:  # what is there is whole and will be served: not worth a failed job
        say("WARNING", f"Whether {job.revision} has moved is not known: {failure}", event="retry")
        return ""
    if now == revision:
        return ""
    return (
        f" {job.revision} has a {NEWER} {now}, which is left alone. To serve it, name it as the revision (gemma4 pin): "
        "it gets a prefix of its own."
    )


def is_there(file: File, objects: Mapping[str, Stored]) -> bool:
    return file.name in objects and objects[file.name].holds(file)


def finish(job: Job, bucket: Bucket, revision: str, files: Sequence[File], sums: Mapping[str, str]) -> None:
    """Look at the bucket once more, then write the manifest that vouches for it."""
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    total = sum(file.size for file in files)
    rows = [manifest_row(file, sums[file.name]) for file in sorted(files)]
    manifest = {"schema": 1, "tool": TOOL, "repo": job.repo, "revision": revision, "requested": job.revision}
    manifest.update(completed=stamp, bytes=total, files=rows)
    objects = bucket.objects()
    wrong = faults(manifest, objects)
    if wrong:
        raise Failure(Exit.MANIFEST, f"{job.place} changed during the copy: {wrong[0]}. Is another run writing to it?")
    warn_of_strangers(job, manifest, objects)
    bucket.write(MANIFEST, json.dumps(manifest, indent=1).encode())
    say("INFO", f"Complete: {len(files)} files, {gib(total)} in {job.place}; {MANIFEST} written.", event="complete")


def manifest_row(file: File, sha256: str) -> dict[str, object]:
    row: dict[str, object] = {"name": file.name, "size": file.size, SHA256: sha256}
    return row if file.algorithm == SHA256 else {**row, file.algorithm: file.digest}


def verify(job: Job) -> None:
    """Check a filled prefix against its manifest. Changes nothing."""
    bucket = job.bucket()
    objects = bucket.objects()
    manifest = bucket.manifest(objects)
    if manifest is None:
        raise Failure(
            Exit.MANIFEST,
            f"{job.place} has no {MANIFEST}: it was never filled completely by this tool. "
            "Fill it with --repo (right files are kept), or point the destination at the right prefix.",
        )
    if job.repo:
        # A branch or tag cannot be compared without asking the Hub; only copying does that.
        refuse_other_model(manifest, job, job.revision if job.is_pinned else manifest["revision"])
    wrong = faults(manifest, objects)
    for fault in wrong:
        say("ERROR", fault, event="fault", file=fault.partition(":")[0])
    if wrong:
        raise Failure(Exit.MANIFEST, f"{job.place}: {len(wrong)} files differ from {MANIFEST}. Copy again to repair.")
    warn_of_strangers(job, manifest, objects)
    message = f"{job.place} holds {manifest['repo']} at {manifest['revision']}: {len(manifest['files'])} files, whole."
    say("INFO", message, event="verified", repo=manifest["repo"], revision=manifest["revision"])


def faults(manifest: Mapping[str, Any], objects: Mapping[str, Stored]) -> list[str]:
    """What differs between a manifest and the objects beside it, one line a file."""
    found = []
    for row in manifest["files"]:
        name, stored = row["name"], objects.get(row["name"])
        if stored is None:
            found.append(f"{name}: missing")
        elif stored.size != row["size"]:
            found.append(f"{name}: size expected {row['size']}, got {stored.size}")
        elif not any(row.get(kind) and stored.metadata.get(kind) == row[kind] for kind in (SHA256, GIT_SHA1)):
            got = stored.metadata.get(SHA256) or "none: not written by this tool"
            found.append(f"{name}: sha256 expected {row[SHA256]}, got {got}")
    return found


def refuse_other_model(manifest: Mapping[str, Any], job: Job, revision: str) -> None:
    if (manifest.get("repo"), manifest.get("revision")) != (job.repo, revision):
        raise Failure(
            Exit.MANIFEST,
            f"{job.place} holds {manifest.get('repo')} at {manifest.get('revision')}, not {job.repo} at {revision}. "
            "Mixing two would break whatever reads it: choose another prefix, or that revision.",
        )


def warn_of_strangers(job: Job, manifest: Mapping[str, Any], objects: Mapping[str, Stored]) -> None:
    strangers = sorted(set(objects) - {row["name"] for row in manifest["files"]} - {MANIFEST})
    if strangers:
        shown = ", ".join(strangers[:5])
        fact = f"{job.place} also has {len(strangers)} objects that belong to no file of the model: {shown}"
        say("WARNING", fact, event="stranger")


def copy_files(job: Job, revision: str, todo: Sequence[File], objects: Mapping[str, Stored]) -> dict[str, str]:
    """Copy `todo`, a few at once, largest first; the first failure ends it. Returns SHA-256 by name."""
    work: queue.SimpleQueue[File] = queue.SimpleQueue()
    done: queue.SimpleQueue[tuple[File, str] | BaseException] = queue.SimpleQueue()
    for file in todo:
        work.put(file)
    progress = Progress(todo)
    for _ in range(min(job.options.parallel, len(todo))):
        lane = Lane(job, revision, objects, progress, largest=todo[0].size)
        # Daemons: a run that ends early must not wait for a silent connection.
        threading.Thread(target=lane.run, args=(work, done), daemon=True).start()
    sums: dict[str, str] = {}
    next_line = time.monotonic() + job.options.progress_seconds
    while len(sums) < len(todo):
        try:
            result = done.get(timeout=max(0.001, next_line - time.monotonic()))
        except queue.Empty:
            next_line += job.options.progress_seconds
            progress.tell()
            continue
        if isinstance(result, BaseException):
            raise result
        file, sums[result[0].name] = result
        say("INFO", f"{file.name}: {gib(file.size)} stored, checksum right.", event="copied", file=file.name)
    return sums


class Lane:
    """Copies one file after another: this thread uploads, a second one downloads and hashes, a window between them."""

    def __init__(
        self, job: Job, revision: str, objects: Mapping[str, Stored], progress: Progress, largest: int
    ) -> None:
        self._bucket, self._hub = job.bucket(), job.hub()
        self._revision, self._objects, self._progress = revision, objects, progress
        self._chunk = job.options.chunk_mib * MIB
        # Allocated once and reused; the pages of a small file's lane are never touched.
        self._memory = memoryview(bytearray(max(QUANTUM, min(2 * self._chunk, largest))))

    def run(self, work: queue.SimpleQueue[File], done: queue.SimpleQueue[tuple[File, str] | BaseException]) -> None:
        try:
            while True:
                file = work.get_nowait()
                done.put((file, self._copy(file)))
        except queue.Empty:
            return
        except BaseException as error:
            done.put(error)

    def _copy(self, file: File) -> str:
        for _ in range(FILE_STARTS):
            try:
                return self._copy_once(file)
            except SessionLost:
                say(
                    "WARNING",
                    f"{file.name}: the bucket lost the unfinished upload; this file starts again.",
                    event="retry",
                )
        raise Failure(Exit.GAVE_UP, f"{file.name}: {FILE_STARTS} uploads were lost by the bucket. Run again.")

    def _copy_once(self, file: File) -> str:
        window, digests = Window(self._memory, file.size), Digests(file)
        reader = threading.Thread(target=self._read, args=(file, window, digests), daemon=True)
        reader.start()
        try:
            self._upload(file, window, digests)
        except BaseException as error:
            window.fail(error)
            if isinstance(error, SessionLost):
                reader.join()  # it writes into memory that the next attempt will use
            raise
        reader.join()
        return digests.sha256()

    def _read(self, file: File, window: Window, digests: Digests) -> None:
        def wrote(view: memoryview) -> None:
            digests.update(view)
            window.wrote(len(view))

        try:
            self._hub.read(self._revision, file, window.room, wrote)
        except BaseException as error:
            window.fail(error)

    def _upload(self, file: File, window: Window, digests: Digests) -> None:
        metadata = {file.algorithm: file.digest}
        if file.algorithm != SHA256 and file.size <= self._chunk:
            # The Hub lists no SHA-256 for files outside LFS. They are small: learn it before the session takes it.
            window.wait_for(file.size)
            digests.check()
            metadata[SHA256] = digests.sha256()
        stored = self._objects.get(file.name)
        session = self._bucket.start(file.name, file.size, metadata, stored.generation if stored else "0")
        try:
            at = 0
            while not session.finished:
                end = min(at + self._chunk, file.size)
                if end == file.size:
                    # These bytes would complete the object: hold them back until all of it is known to be right.
                    window.wait_for(file.size)
                    digests.check()
                else:
                    end -= end % QUANTUM
                at = session.put(at, end, window.views(at, end))
                window.release(at)
                self._progress.at(file, at)
        except Failure:
            session.cancel()
            raise


class Window:
    """The part of one file that is in memory: a ring that a reader fills and an uploader follows and releases.

    Nothing is overwritten before the bucket has confirmed it, so an upload resumes from memory: the bytes that were
    hashed are the bytes that are sent, however often they are sent.
    """

    def __init__(self, memory: memoryview, size: int) -> None:
        self._memory, self._size = memory, size
        self._written = self._released = 0
        self._error: BaseException | None = None
        self._changed = threading.Condition()

    def room(self) -> memoryview:
        """Free memory for the next bytes, at most a piece; waits until there is some."""
        capacity = len(self._memory)
        with self._changed:
            while self._written - self._released == capacity:
                self._wait()
            at = self._written % capacity
            free = min(capacity - at, capacity - (self._written - self._released))
            return self._memory[at : at + min(PIECE, free, self._size - self._written)]

    def wrote(self, count: int) -> None:
        with self._changed:
            self._raise_error()
            self._written += count
            self._changed.notify_all()

    def views(self, start: int, end: int) -> Iterator[memoryview]:
        """The bytes from `start` to `end` of the file, as they arrive."""
        while start < end:
            self.wait_for(start + 1)
            at = start % len(self._memory)
            upto = min(end, self._written, start + len(self._memory) - at)
            yield self._memory[at : at + upto - start]
            start = upto

    def wait_for(self, written: int) -> None:
        with self._changed:
            while self._written < written:
                self._wait()

    def release(self, upto: int) -> None:
        with self._changed:
            self._released = upto
            self._changed.notify_all()

    def fail(self, error: BaseException) -> None:
        with self._changed:
            self._error = self._error or error
            self._changed.notify_all()

    def _wait(self) -> None:
        self._raise_error()
        self._changed.wait()
        self._raise_error()

    def _raise_error(self) -> None:
        if self._error:
            raise self._error


class Digests:
    """Checksums of one file, kept up while it is read."""

    def __init__(self, file: File) -> None:
        self._file = file
        self._sums = {SHA256: hashlib.sha256()}
        if file.algorithm == GIT_SHA1:
            self._sums[GIT_SHA1] = hashlib.sha1(b"blob %d\0" % file.size, usedforsecurity=False)

    def update(self, data: memoryview) -> None:
        for digest in self._sums.values():
            digest.update(data)

    def check(self) -> None:
        """Raise Failure unless the bytes are those that the Hub lists."""
        name, _, algorithm, expected = self._file
        got = self._sums[algorithm].hexdigest()
        if got != expected:
            raise Failure(
                Exit.MISMATCH,
                f"{name}: {algorithm} expected {expected}, got {got}. Nothing was stored under this name. "
                "Run again; if it repeats, the file on the Hub is damaged.",
            )

    def sha256(self) -> str:
        return self._sums[SHA256].hexdigest()


class Progress:
    """How much the bucket has confirmed, and how fast."""

    def __init__(self, files: Iterable[File]) -> None:
        self._began = time.monotonic()
        self._total = sum(file.size for file in files)
        self._stored: dict[str, int] = {}
        self._active: dict[str, float] = {}

    def at(self, file: File, stored: int) -> None:
        self._stored[file.name] = stored
        self._active[file.name] = 100.0 * stored / max(1, file.size)

    def tell(self) -> None:
        stored = sum(list(self._stored.values()))
        rate = stored / max(1e-3, time.monotonic() - self._began)
        eta = round((self._total - stored) / rate) if rate else None
        percent = 100.0 * stored / max(1, self._total)
        active = {name: round(share, 1) for name, share in list(self._active.items()) if share < 100}
        say(
            "INFO",
            f"{percent:.1f} % of {gib(self._total)} at {rate / MIB:.0f} MiB/s, "
            + (f"{eta // 60} min {eta % 60} s left" if eta is not None else "time left unknown")
            + "".join(f"; {name} {share} %" for name, share in active.items()),
            event="progress", percent=round(percent, 1), bytes=stored, totalBytes=self._total,
            mibPerSecond=round(rate / MIB, 1), etaSeconds=eta, files=active,
        )  # fmt: skip


class Hub:
    """The Hugging Face side. One a thread."""

    def __init__(self, job: Job) -> None:
        self._web, self._endpoint, self._repo = Web(job.options.timeout_seconds), job.hub_endpoint, job.repo
        self._token, self._patience = job.hub_token, job.patience

    def listing(self, revision: str) -> tuple[str, list[File]]:
        """The commit that `revision` stands for, and those of its files that serving needs."""
        url = f"{self._endpoint}/api/models/{quote(self._repo)}/revision/{quote(revision, safe='')}?blobs=true"

        def ask() -> Any:
            # Its checksums are what everything else is judged by: nobody but the Hub itself may give them.
            response, _ = self._web.get(url, self._headers(), leaves=False)
            self._raise_refusal(response, f"revision {revision}")
            try:
                return json.loads(self._web.read(response))
            except (ValueError, RecursionError):
                raise Busy("an answer that is no JSON") from None

        answer = retrying(self._patience("file list from Hugging Face"), ask)
        try:
            files = [file_of(row) for row in wanted(clean_rows(answer["siblings"]))]
            commit = str(answer.get("sha") or revision)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            fact = f"{self._repo}: the Hub's file list has another form than expected ({type(error).__name__})."
            raise Failure(Exit.DISTRUST, f"{fact} Nothing was copied; is HF_ENDPOINT a Hugging Face Hub?") from None
        if not files:
            raise Failure(Exit.NOT_FOUND, f"{self._repo} at {revision} has no files that could be served.")
        return commit, files

    def check_access(self, revision: str, file: File) -> None:
        """Ask for one byte of `file`, without going where it redirects to: is it ours to read?"""

        def ask() -> None:
            response = self._web.send("GET", self._url(revision, file), {**self._headers(), "Range": "bytes=0-0"})
            self._web.close()  # unread: whoever ignores Range would send the whole file
            if response.status not in REDIRECTS:
                self._raise_refusal(response, file.name)

        retrying(self._patience("access check at Hugging Face"), ask)

    def read(
        self, revision: str, file: File, room: Callable[[], memoryview], wrote: Callable[[memoryview], None]
    ) -> None:
        """Read a whole file into the memory that `room` gives, going on where a connection broke off."""
        patience, offset = self._patience(f"{file.name}: download"), 0
        while offset < file.size:
            try:
                response = self._open(revision, file, offset)
                while offset < file.size:
                    view = room()
                    count = response.readinto(view)
                    if not count:
                        raise Busy("the connection ended early")
                    wrote(view[:count])
                    offset += count
                    patience.progressed()
            except TRANSIENT as error:
                self._web.close()
                patience.wait(f"{describe(error)} at byte {offset}", getattr(error, "retry_after", 0.0))

    def _open(self, revision: str, file: File, offset: int) -> http.client.HTTPResponse:
        """The content of `file` from `offset` on."""
        headers = {**self._headers(), **({"Range": f"bytes={offset}-"} if offset else {})}
        # Always from the Hub's own address: what it redirects to is signed and expires.
        response, final = self._web.get(self._url(revision, file), headers)
        if response.status == 416:
            fact = f"{file.name}: size expected {file.size}, got {offset}: the source ends there. It was not stored."
            raise Failure(Exit.MISMATCH, fact)
        if origin(final) == origin(self._endpoint):
            self._raise_refusal(response, file.name)
        raise_unless_found(response)
        return positioned(response, offset)

    def _url(self, revision: str, file: File) -> str:
        return f"{self._endpoint}/{quote(self._repo)}/resolve/{quote(revision, safe='')}/{quote(file.name)}"

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._token}"} if self._token else {}

    def _raise_refusal(self, response: http.client.HTTPResponse, what: str) -> None:
        """Tell a wrong token, a missing licence and a missing repository apart, as far as the Hub does."""
        status, why = response.status, response.getheader("X-Error-Code", "")
        if status in (200, 206):
            return
        self._web.close()
        page = f"https://huggingface.co/{self._repo}"
        if status == 401 and self._token:
            code = Exit.TOKEN
            text = "Hugging Face does not accept the token: wrong, expired or revoked. Make one with read access."
        elif status == 403 and self._token:
            code = Exit.GATED
            text = "the model is gated, and the account of this token (which is valid) has no access to it. Accept the "
            text += f"licence at {page} with that account; a fine-grained token must also allow gated repositories."
        elif status == 403 or (status == 401 and why == "GatedRepo"):
            code = Exit.GATED
            text = f"the model is gated, and no token was given. Accept the licence at {page} and set HF_TOKEN."
        elif status in (401, 404):
            code = Exit.NOT_FOUND
            text = f"{what} not found on the Hub. Check the spelling of repository and revision."
            text += "" if self._token else " If it is private or gated, set HF_TOKEN."
        else:
            raise_unless_found(response)
            return
        raise Failure(code, f"{self._repo}: {text} (HTTP {status}{why and f', {why}'})")


def clean_rows(rows: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """The listed files, if every name can be an object's name below our prefix, once. Raises Failure otherwise."""
    seen = set()
    for row in rows:
        name = row["rfilename"]
        clean = isinstance(name, str) and name.isprintable() and not {"", ".", ".."} & set(name.split("/"))
        if not clean or name == MANIFEST or name in seen:
            why = "is ours" if name == MANIFEST else "is listed twice" if clean else "no repository can have"
            fact = f"The Hub lists a file named {str(name)[:200]!r}, a name that {why}."
            raise Failure(Exit.DISTRUST, f"{fact} Nothing was copied; is this the repository that you mean?")
        seen.add(name)
    return rows


def wanted(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The files that serving needs: all but pictures, dot files, other tools' folders and doubles of safetensors."""
    safetensors = any(row["rfilename"].endswith(".safetensors") for row in rows)
    endings = (*SKIPPED_ENDINGS, *(OTHER_WEIGHTS if safetensors else ()))
    return [r for r in rows if not r["rfilename"].startswith(SKIPPED_FOLDERS) and not r["rfilename"].endswith(endings)]


def file_of(row: Mapping[str, Any]) -> File:
    name, lfs = row["rfilename"], row.get("lfs") or {}
    size, digest = lfs.get("size", row.get("size")), lfs.get("sha256") if lfs else row.get("blobId")
    if size is None or not digest:
        raise Failure(Exit.NOT_FOUND, f"{name}: the Hub lists no size or checksum, so no copy of it can be proved.")
    algorithm, digits = (SHA256, 64) if lfs else (GIT_SHA1, 40)
    if not isinstance(size, int) or size < 0 or not re.fullmatch(f"[0-9a-f]{{{digits}}}", str(digest).lower()):
        raise Failure(Exit.DISTRUST, f"{name}: the Hub lists a size or checksum that is none. Nothing was copied.")
    return File(name, size, algorithm, str(digest).lower())


class Bucket:
    """The Cloud Storage side, below one prefix. One a thread."""

    def __init__(self, job: Job) -> None:
        self.web = Web(job.options.timeout_seconds)
        self.token, self.patience, self.place = job.google_token, job.patience, job.place
        self._bucket, self._prefix, self._endpoint = job.bucket_name, job.prefix, job.storage_endpoint
        self.origin = origin(job.storage_endpoint)
        self._objects = f"{job.storage_endpoint}/storage/v1/b/{job.bucket_name}/o"

    def objects(self) -> dict[str, Stored]:
        """Everything below the prefix, by name relative to it."""
        found: dict[str, Stored] = {}
        page = ""
        while True:
            reply = self._call("GET", f"{self._objects}?prefix={quote(self._prefix, safe='')}{page}")
            listing = json.loads(reply.body)
            for item in listing.get("items", ()):
                name = item["name"][len(self._prefix) :]
                metadata = item.get("metadata") or {}
                found[name] = Stored(name, int(item["size"]), str(item.get("generation", "")), metadata)
            if not listing.get("nextPageToken"):
                return found
            page = f"&pageToken={quote(listing['nextPageToken'], safe='')}"

    def manifest(self, objects: Mapping[str, Stored]) -> dict[str, Any] | None:
        if MANIFEST not in objects:
            return None
        try:
            manifest = json.loads(self._call("GET", self._url(MANIFEST) + "?alt=media").body)
            if all(isinstance(row["size"], int) and row["name"] and row[SHA256] for row in manifest["files"]):
                return {"repo": "", "revision": "", **manifest}
        except (ValueError, KeyError, TypeError):
            pass
        raise Failure(Exit.MANIFEST, f"{self.place}/{MANIFEST} cannot be read as a manifest. Delete it and copy again.")

    def check_writable(self) -> None:
        """Begin an upload and drop it: the one question that IAM, retention and soft limits all answer."""
        self.start(MANIFEST, QUANTUM, {}, "").cancel()

    def start(self, name: str, size: int, metadata: Mapping[str, str], generation: str) -> Session:
        """A resumable upload that will only ever replace `generation` of the object ("0": no object at all)."""
        url = f"{self._endpoint}/upload/storage/v1/b/{self._bucket}/o?uploadType=resumable"
        url += f"&name={quote(self._prefix + name, safe='')}"
        if generation:
            url += f"&ifGenerationMatch={generation}"
        kind = "application/json" if name.endswith(".json") else "application/octet-stream"
        body = json.dumps({"name": self._prefix + name, "contentType": kind, "metadata": dict(metadata)}).encode()
        headers = {"Content-Type": "application/json; charset=UTF-8", "X-Upload-Content-Type": kind}
        reply = self._call("POST", url, body, {**headers, "X-Upload-Content-Length": str(size)})
        session = reply.headers.get("Location", "")
        if not session:
            raise Failure(Exit.BUCKET, f"{self.place}: the storage endpoint began an upload without saying where.")
        return Session(self, name, size, urljoin(url, session))

    def write(self, name: str, data: bytes) -> None:
        """Store a small object that must not exist yet."""
        session = self.start(name, len(data), {SHA256: hashlib.sha256(data).hexdigest()}, "0")
        at = 0
        while not session.finished:
            at = session.put(at, len(data), [memoryview(data)[at:]])

    def delete(self, name: str) -> None:
        self._call("DELETE", self._url(name), gone_is_fine=True)

    def _url(self, name: str) -> str:
        return f"{self._objects}/{quote(self._prefix + name, safe='')}"

    def _call(
        self, method: str, url: str, body: bytes = b"", headers: Mapping[str, str] | None = None,
        gone_is_fine: bool = False,
    ) -> Reply:  # fmt: skip
        def ask() -> Reply:
            return self.web.call(method, url, {**(headers or {}), **self.token.headers()}, body)

        patience = self.patience(f"{self.place}: {method}")
        reply = retrying(patience, ask)
        if reply.status == 401 and self.token.renew():
            reply = retrying(patience, ask)
        if reply.status in (200, 204) or (reply.status == 404 and gone_is_fine):
            return reply
        raise self.refusal(reply)

    def refusal(self, reply: Reply) -> Failure:
        need = {
            401: "Google does not accept the access token; is the job's service account enabled?",
            403: "grant the job's service account roles/storage.objectUser on the bucket.",
            404: "there is no such bucket, or this account may not see it; check the name.",
            412: "an object changed during the copy. Is another run writing there? Let one finish, then run again.",
        }.get(reply.status, reply.body[:200].decode(errors="replace"))
        return Failure(Exit.BUCKET, f"{self.place} cannot be used (HTTP {reply.status}): {need}")


class Session:
    """One resumable upload. Nothing appears in the bucket before its last byte has arrived."""

    def __init__(self, bucket: Bucket, name: str, size: int, url: str) -> None:
        self._bucket, self._name, self._size, self._url = bucket, name, size, url
        self._patience = bucket.patience(f"{name}: upload")
        self._stored = 0
        self.finished = False

    def put(self, start: int, end: int, body: Iterable[memoryview]) -> int:
        """Send bytes `start` to `end`, and return how many of the whole are stored now: fewer after a fault."""
        span = f"bytes {start}-{end - 1}/{self._size}" if end > start else f"bytes */{self._size}"
        asking = False
        while True:
            try:
                return self._settle(self._send(span, end - start, body), asking)
            except TRANSIENT as error:
                self._bucket.web.close()
                self._patience.wait(describe(error), getattr(error, "retry_after", 0.0))
            # From now on: ask how much has arrived.
            asking, span, end, start, body = True, f"bytes */{self._size}", 0, 0, ()

    def cancel(self) -> None:
        """Abandon it. If that fails too, the session ends by itself; it never becomes an object."""
        try:
            self._bucket.web.close()
            self._bucket.web.call("DELETE", self._url, self._headers())
        except (Failure, *TRANSIENT):
            pass

    def _send(self, span: str, length: int, body: Iterable[memoryview]) -> Reply:
        headers = {**self._headers(), "Content-Range": span, "Content-Length": str(length)}
        return self._bucket.web.call("PUT", self._url, headers, body)

    def _settle(self, reply: Reply, asking: bool) -> int:
        if reply.status in (200, 201):
            self.finished = True
            return self._size
        if reply.status == 308:
            held = reply.headers.get("Range", "")
            stored = int(held.rpartition("-")[2]) + 1 if held else 0
            if stored < self._stored:
                raise SessionLost
            if stored > self._stored:
                self._patience.progressed()
            elif not asking:
                raise Busy("the bucket took none of it")
            self._stored = stored
            return stored
        if reply.status in (404, 410, 499):
            raise SessionLost
        if reply.status == 401 and self._bucket.token.renew():
            raise Busy("the access token had expired")
        raise self._bucket.refusal(reply)

    def _headers(self) -> dict[str, str]:
        # The session's address is a credential by itself; the token only goes along to the endpoint that it is for.
        return self._bucket.token.headers() if origin(self._url) == self._bucket.origin else {}


class Reply(NamedTuple):
    status: int
    headers: http.client.HTTPMessage
    body: bytes


class Web:
    """HTTP with kept-alive connections, one an origin. Not for more than one thread."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._connections: dict[tuple[str, str], http.client.HTTPConnection] = {}

    def send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | Iterable[memoryview] | None = None
    ) -> http.client.HTTPResponse:
        """One request; whatever goes wrong, the connection is not used again."""
        scheme, host, path, query, _ = urlsplit(url)
        connection = self._connections.get((scheme, host))
        if connection is None:
            kind = http.client.HTTPSConnection if scheme == "https" else http.client.HTTPConnection
            connection = self._connections[scheme, host] = kind(host, timeout=self._timeout_s)
        try:
            target = path + (f"?{query}" if query else "")
            connection.request(method, target, body, {"User-Agent": TOOL, **headers})
            return connection.getresponse()
        except BaseException:
            connection.close()
            raise

    def call(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | Iterable[memoryview] | None = None
    ) -> Reply:
        """One request with a small answer. Raises Busy where the status says: later."""
        response = self.send(method, url, headers, body)
        data = self.read(response)
        if response.status >= 400:
            self.close()  # it may have answered without reading what was sent
        if response.status in (408, 429) or response.status >= 500:
            raise_unless_found(response)
        return Reply(response.status, response.headers, data)

    def read(self, response: http.client.HTTPResponse) -> bytes:
        """A whole answer that is no file. Raises Failure where it is longer than any answer should be, Busy where it was
        cut short."""
        data = response.read(MAX_ANSWER + 1)
        if len(data) > MAX_ANSWER:
            self.close()
            fact = f"An answer is longer than {MAX_ANSWER // MIB} MiB and was not read to its end."
            raise Failure(Exit.DISTRUST, f"{fact} Does an endpoint point at the right place?")
        if response.length:  # `read` with a limit says nothing of bytes that never came
            self.close()
            raise Busy("the connection ended early")
        return data

    def get(self, url: str, headers: Mapping[str, str], leaves: bool = True) -> tuple[http.client.HTTPResponse, str]:
        """GET through redirects; returns where it ended too. Authorization never leaves the origin of `url`.

        No redirect may give up encryption; unless it `leaves`, none may lead to another origin. Both raise Failure.
        """
        first = origin(url)
        for _ in range(MAX_REDIRECTS):
            response = self.send("GET", url, headers)
            if response.status not in REDIRECTS:
                return response, url
            self.read(response)
            before, url = url, urljoin(url, response.getheader("Location", ""))
            refuse_redirect(before, url, leaves)
            if origin(url) != first:
                headers = {name: value for name, value in headers.items() if name != "Authorization"}
        raise Busy(f"more than {MAX_REDIRECTS} redirects")

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()


def origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc.lower()


def refuse_redirect(source: str, target: str, leaves: bool) -> None:
    """Raise Failure for a redirect that cannot be trusted. The target's path is not shown: it may be signed."""
    (was, host), (scheme, other) = origin(source), origin(target)
    safe = scheme == "https" or scheme == was == "http"
    if safe and (leaves or (scheme, other) == (was, host)):
        return
    fact = f"{was}://{host} sends us to {scheme}://{other}"
    why = "which could be anybody's answer" if safe else "which is not https"
    raise Failure(Exit.DISTRUST, f"{fact}, {why}. Nothing was read there; is HF_ENDPOINT right?")


def raise_unless_found(response: http.client.HTTPResponse) -> None:
    """Take anything but content for weather: overload, or a CDN address whose signature has just expired."""
    if response.status not in (200, 206):
        raise Busy(f"HTTP {response.status}", seconds(response.getheader("Retry-After", "")))


def positioned(response: http.client.HTTPResponse, offset: int) -> http.client.HTTPResponse:
    """The answer to a Range request, standing at `offset` even where the server ignored the range."""
    if response.status == 206:
        begin = re.match(r"bytes (\d+)-", response.getheader("Content-Range", ""))
        if begin and int(begin[1]) != offset:
            raise Busy("the server answered another range than the one asked for")
        return response
    while offset:
        skipped = len(response.read(min(PIECE, offset)))
        if not skipped:
            raise Busy("the connection ended early")
        offset -= skipped
    return response


class Patience:
    """Bounded tries with growing waits; progress starts the count anew."""

    def __init__(self, what: str, tries: int, first_wait_s: float) -> None:
        self._what, self._tries, self._first_wait_s, self._failures = what, tries, first_wait_s, 0

    def progressed(self) -> None:
        self._failures = 0

    def wait(self, problem: str, at_least_s: float = 0.0) -> None:
        self._failures += 1
        if self._failures > self._tries:
            fact = f"{self._what}: {problem}; gave up after {self._tries} retries. Run again: what is there stays."
            raise Failure(Exit.GAVE_UP, fact)
        grown = min(60.0, self._first_wait_s * 2 ** (self._failures - 1)) * random.uniform(0.5, 1.0)  # noqa: S311
        wait_s = min(MAX_WAIT_S, max(at_least_s, grown))
        say("WARNING", f"{self._what}: {problem}; trying again in {wait_s:.1f} s.", event="retry")
        time.sleep(wait_s)


def retrying(patience: Patience, attempt: Callable[[], T]) -> T:
    while True:
        try:
            return attempt()
        except TRANSIENT as error:
            patience.wait(describe(error), getattr(error, "retry_after", 0.0))


def describe(error: BaseException) -> str:
    """What happened, without any address: those of a CDN are signed."""
    if isinstance(error, Busy):
        return str(error)
    return (error.strerror if isinstance(error, OSError) else None) or type(error).__name__


def seconds(retry_after: str) -> float:
    """A Retry-After header, which is a number of seconds or a date."""
    if retry_after.strip().isdigit():
        return float(retry_after)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(retry_after).timestamp() - time.time())
    except (TypeError, ValueError):
        return 0.0


class GoogleToken:
    """An access token of the job's service account, renewed before it ends. Shared by all threads."""

    def __init__(self, fixed: str, host: str, patience: Patience) -> None:
        self._token, self._fixed = fixed, bool(fixed)
        self._url = f"{endpoint(host, 'http')}/computeMetadata/v1/instance/service-accounts/default/token"
        self._ends = float("inf") if fixed else 0.0
        self._patience, self._lock, self._web = patience, threading.Lock(), Web(10.0)

    def headers(self) -> dict[str, str]:
        with self._lock:
            if time.monotonic() > self._ends - 300:
                self._fetch()
            return {"Authorization": f"Bearer {self._token}"}

    def renew(self) -> bool:
        """Forget a token that was refused; false where there can be no other."""
        with self._lock:
            self._ends = self._ends if self._fixed else 0.0
        return not self._fixed

    def _fetch(self) -> None:
        try:
            reply = retrying(self._patience, lambda: self._web.call("GET", self._url, {"Metadata-Flavor": "Google"}))
            answer = json.loads(reply.body)
            self._token, self._ends = clean(answer["access_token"]), time.monotonic() + answer["expires_in"]
        except (Failure, ValueError, KeyError, TypeError) as error:
            fact = "The metadata server gives no Google access token. Does the job have a service account? "
            fix = "Outside Google Cloud, set GOOGLE_OAUTH_ACCESS_TOKEN."
            raise Failure(Exit.BUCKET, fact + fix) from error


class Job:
    """What the command line and the environment ask for, and the clients for it."""

    def __init__(self, options: argparse.Namespace, environ: Mapping[str, str]) -> None:
        place = re.fullmatch(r"(?:gs://)?([a-z0-9][a-z0-9._-]+)(?:/(.*?))?/*", options.destination)
        if not place:
            raise Failure(Exit.USAGE, f"--destination {options.destination!r} is not of the form gs://BUCKET/PREFIX.")
        self.options = options
        self.repo, self.revision = (options.repo or "").strip("/"), options.revision or "main"
        self.is_pinned = re.fullmatch(r"[0-9a-f]{40}", self.revision) is not None
        self.bucket_name, self.prefix = place[1], f"{place[2]}/" if place[2] else ""
        self.place = f"gs://{self.bucket_name}/{self.prefix}".rstrip("/")
        storage = environ.get("STORAGE_ENDPOINT") or environ.get("STORAGE_EMULATOR_HOST") or "storage.googleapis.com"
        self.storage_endpoint = endpoint(storage).removesuffix("/storage/v1")
        self.hub_endpoint = endpoint(environ.get("HF_ENDPOINT") or "huggingface.co")
        self.hub_token = clean(environ.get("HF_TOKEN", ""))
        self.google_token = GoogleToken(
            clean(environ.get("GOOGLE_OAUTH_ACCESS_TOKEN", "")),
            environ.get("GCE_METADATA_HOST") or "metadata.google.internal",
            Patience("metadata server", 4, options.backoff_seconds),
        )

    def hub(self) -> Hub:
        return Hub(self)

    def bucket(self) -> Bucket:
        return Bucket(self)

    def patience(self, what: str) -> Patience:
        return Patience(what, self.options.retries, self.options.backoff_seconds)


def endpoint(text: str, scheme: str = "https") -> str:
    """An address without its last slash; where it names no scheme, `scheme`, or http on this machine."""
    scheme = "http" if text.startswith(("127.", "localhost")) else scheme
    return (text if "://" in text else f"{scheme}://{text}").rstrip("/")


def clean(token: str) -> str:
    """A token without the line end that secrets tend to have; it must never appear in what we print."""
    token = token.strip()
    if not re.fullmatch(r"[!-~]*", token):
        raise Failure(Exit.TOKEN, "A token holds blanks or other characters that no token has. Paste it once more.")
    if len(token) >= 8:
        _secrets.add(token)
    return token


def gib(size: int) -> str:
    return f"{size / MIB / 1024:.2f} GiB" if size >= 100 * MIB else f"{size / MIB:.2f} MiB"


_secrets: set[str] = set()
_printing = threading.Lock()


def say(severity: str, message: str, **fields: object) -> None:
    """One line that Cloud Logging reads as a structured entry."""
    line = json.dumps({"severity": severity, "message": message, **fields})
    for secret in _secrets:
        line = line.replace(secret, "[token]")
    with _printing:
        print(line, flush=True)


def _stop(*_: object) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise Stopped


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _stop)
    signal.signal(signal.SIGINT, _stop)
    status = main()
    sys.stdout.flush()
    os._exit(status)  # threads may still wait for the network; nothing of theirs needs an orderly end
