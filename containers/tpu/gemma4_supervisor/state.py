"""What the supervisor has to remember over restarts and reboots: what runs, what was good, what was given up."""

from __future__ import annotations

import json
import threading
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from containers.shared.web import describe

from .desired_spec import Spec, SpecError, parse
from .docker import write_private
from .machine_status import MachineStatus

SCHEMA = 1


@dataclass
class Run:
    """A specification on this machine. `up`: it has generated. `failures`: failed starts in a row.

    `label`: the fingerprint that its container was started with, blank before. A later version of this program may
    compute another one for the same specification, and has to know the container all the same.
    """

    spec: Spec
    image_id: str
    address: str
    up: bool = False
    failures: int = 0
    label: str = ""


class SavedState:
    """`current` is what ought to be in the container, `good` what last proved itself, `rejected` a spec's digest.

    `images` are the ids of all images that were pulled and not yet taken away. All belongs to the main thread, but for
    `add_image` and `forget_images`, which are anybody's. A disk that takes nothing is trouble, and no reason to stop.
    """

    def __init__(self, file: Path, weights_root: Path, status: MachineStatus) -> None:
        self._file, self._root, self._status = file, weights_root, status
        self._lock = threading.RLock()
        self._is_saved = True
        self.current: Run | None = None
        self.good: Run | None = None
        self.rejected = ""
        self.images: list[str] = []
        try:
            kept = json.loads(file.read_text())
            self.current, self.good = self._run(kept["current"]), self._run(kept["good"])
            self.rejected, self.images = str(kept["rejected"]), [str(image) for image in kept["images"]]
        except FileNotFoundError:
            pass
        except (OSError, ValueError, KeyError, TypeError, SpecError):
            self.current = self.good = None  # unreadable: as on a fresh machine, the metadata say what is wanted

    def is_good(self, run: Run) -> bool:
        """Whether it is the last good one, by what its container depends on."""
        return self.good is not None and self.good.spec.fingerprint == run.spec.fingerprint

    def add_image(self, image_id: str) -> None:
        with self._lock:
            if image_id not in self.images:
                self.images.append(image_id)
                self.save()

    def forget_images(self, image_ids: Collection[str]) -> None:
        with self._lock:
            self.images = [image for image in self.images if image not in image_ids]
            self.save()

    def save(self) -> None:
        with self._lock:
            try:
                write_private(self._file, self._text())
            except OSError as error:
                self._is_saved = False
                text = (
                    f"{self._file} cannot be written ({describe(error)}). What runs goes on, but the next supervisor "
                )
                text += (
                    "would not know of the latest change. Make room on the boot disk; see `df -h`, `docker system df`."
                )
                self._status.trouble("disk", text)
                return
            self._is_saved = True
            self._status.clear("disk")

    def save_again(self) -> None:
        """Try once more what has failed."""
        if not self._is_saved:
            self.save()

    def _text(self) -> str:
        return json.dumps(
            {
                "schema": SCHEMA,
                "current": _kept(self.current),
                "good": _kept(self.good),
                "rejected": self.rejected,
                "images": self.images,
            }
        )

    def _run(self, kept: Any) -> Run | None:
        if kept is None:
            return None
        spec = parse(json.dumps(kept["spec"]), self._root)
        run = Run(spec, str(kept["imageId"]), str(kept["address"]), bool(kept["up"]), int(kept["failures"]))
        run.label = str(kept.get("label", spec.fingerprint))
        return run


def _kept(run: Run | None) -> dict[str, Any] | None:
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
