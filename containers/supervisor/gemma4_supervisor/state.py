"""What the supervisor remembers over restarts and reboots: which run is current, which was good, what was rejected."""

from __future__ import annotations

import json
import threading
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from containers.shared.web import reason_of

from .desired_spec import Spec, SpecError, parse_spec
from .docker import write_private
from .machine_status import MachineStatus

SCHEMA = 1


@dataclass
class ServingRun:
    """A specification on this machine. `up`: it has generated a token. `failures`: failed starts in a row.

    `label` is the fingerprint that its container was started with, blank before. A later version of this program may
    compute another fingerprint for the same specification, and recognises the container by this one.
    """

    spec: Spec
    image_id: str
    address: str
    up: bool = False
    failures: int = 0
    label: str = ""


class SavedState:
    """`current` is the run that the container is to have, `good` the last proven one, `rejected` the digest of a spec.

    `images` are the ids of all images that were pulled and not yet removed. Only the main thread may use this object, but
    any thread may call `add_image` and `forget_images`. A full disk is reported and stops nothing.
    """

    def __init__(self, file: Path, weights_root: Path, status: MachineStatus) -> None:
        self._file, self._root, self._status = file, weights_root, status
        self._lock = threading.RLock()
        self._is_saved = True
        self.current: ServingRun | None = None
        self.good: ServingRun | None = None
        self.rejected = ""
        self.images: list[str] = []
        try:
            kept = json.loads(file.read_text())
            self.current, self.good = self._run(kept["current"]), self._run(kept["good"])
            self.rejected, self.images = str(kept["rejected"]), [str(image) for image in kept["images"]]
        except FileNotFoundError:
            pass
        except (OSError, ValueError, KeyError, TypeError, SpecError):
            self.current = self.good = None  # unreadable: go on as on a new machine, from the metadata alone

    def is_good(self, run: ServingRun) -> bool:
        """Return True if `run` needs the same container as the last good run."""
        return self.good is not None and self.good.spec.fingerprint == run.spec.fingerprint

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
                "schema": SCHEMA,
                "current": _kept(self.current),
                "good": _kept(self.good),
                "rejected": self.rejected,
                "images": self.images,
            }
            try:
                write_private(self._file, json.dumps(document))
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

    def _run(self, kept: Any) -> ServingRun | None:
        if kept is None:
            return None
        spec = parse_spec(json.dumps(kept["spec"]), self._root)
        run = ServingRun(spec, str(kept["imageId"]), str(kept["address"]), bool(kept["up"]), int(kept["failures"]))
        run.label = str(kept.get("label", spec.fingerprint))
        return run


def _kept(run: ServingRun | None) -> dict[str, Any] | None:
    if run is None:
        return None
    return {
        "spec": dict(run.spec.document),
        "imageId": run.image_id,
        "address": run.address,
        "up": run.up,
        "failures": run.failures,
        "label": run.label,
    }
