"""What the supervisor remembers over restarts and reboots: each server's run, which one was good, what was rejected."""

from __future__ import annotations

import json
import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from containers.shared.web import reason_of

from .desired_spec import ServerPlace, Spec, SpecError, parse_spec
from .machine_status import MachineStatus
from .whole_file import write_whole


@dataclass
class ServingRun:
    """A specification on this machine, at one of its servers. `up`: it has generated a token. `failures`: failed starts in a
    row.

    `is_evidence`: its failures speak against the specification; False where the same server failed before the change while
    others of the machine served. `label` is the fingerprint that its container was started with, blank before. A later version
    of this program may compute another fingerprint for the same specification, and recognises the container by this one.
    """

    spec: Spec
    image_id: str
    address: str
    suffix: str = ""
    up: bool = False
    failures: int = 0
    is_evidence: bool = True
    label: str = ""

    @property
    def place(self) -> ServerPlace:
        """Where it runs. Raises LookupError where the specification has no such server."""
        place = self.spec.place(self.suffix)
        if place is None:
            raise LookupError(f"{self.spec.hash} has no server {self.suffix!r}")
        return place

    def at(self, suffix: str) -> ServingRun:
        """Return the same specification at a server where it has not been started."""
        return replace(self, suffix=suffix, up=False, failures=0, is_evidence=True, label="")


class SavedState:
    """`servers` are the runs that the containers are to have, by suffix; `good` is the last run that has proven itself,
    `rejected` the digest of a spec.

    `images` are the ids of all images that were pulled and not yet removed. Only the main thread may change this object, but
    any thread may call `add_image` and `forget_images`. A full disk is reported and stops nothing.
    """

    def __init__(self, file: Path, weights_root: Path, status: MachineStatus) -> None:
        self._file, self._root, self._status = file, weights_root, status
        self._lock = threading.RLock()
        self._is_saved = True
        self.servers: dict[str, ServingRun] = {}
        self.good: ServingRun | None = None
        self.rejected = ""
        self.images: list[str] = []
        try:
            kept = json.loads(file.read_text())
            runs = [self._run(run) for run in kept["servers"]]
            good = self._run(kept["good"]) if kept["good"] else None
            self.rejected, self.images = str(kept["rejected"]), [str(image) for image in kept["images"]]
            self.servers, self.good = {run.suffix: run for run in runs}, good
        except (OSError, ValueError, LookupError, TypeError, SpecError):
            pass  # none, or unreadable: go on as on a new machine, from the metadata alone

    def is_good(self, run: ServingRun) -> bool:
        """Return True if `run` needs the same containers as the last good run."""
        return self.good is not None and self.good.spec.servers == run.spec.servers

    def add_image(self, image_id: str) -> None:
        """Remember an image, so that it is removed once nothing needs it."""
        with self._lock:
            if image_id not in self.images:
                self.images.append(image_id)
                self.save()

    def forget_images(self, image_ids: Collection[str]) -> None:
        """Forget images that were removed."""
        with self._lock:
            self.images = [image for image in self.images if image not in image_ids]
            self.save()

    def save(self) -> None:
        """Write the file. A failure is reported, and `save_again` tries once more."""
        with self._lock:
            document = {
                "servers": [_kept(run) for run in self.servers.values()],
                "good": _kept(self.good) if self.good else None,
                "rejected": self.rejected,
                "images": self.images,
            }
            try:
                write_whole(self._file, json.dumps(document))
            except OSError as error:
                self._is_saved = False
                self._status.trouble(
                    "disk",
                    f"{self._file} cannot be written ({reason_of(error)}). The server that runs goes on, but the next "
                    "supervisor would not know the latest change. Make room on the boot disk; see `df -h`, "
                    "`docker system df`.",
                )
                return
            self._is_saved = True
            self._status.clear("disk")

    def save_again(self) -> None:
        """Write the file if the last try has failed."""
        if not self._is_saved:
            self.save()

    def _run(self, kept: Mapping[str, Any]) -> ServingRun:
        run = ServingRun(**{**kept, "spec": parse_spec(json.dumps(kept["spec"]), self._root)})
        run.place  # noqa: B018  raises where there is none
        return run


def _kept(run: ServingRun) -> dict[str, Any]:
    return {**vars(run), "spec": dict(run.spec.document)}
