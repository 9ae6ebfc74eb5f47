"""What the supervisor has to remember over restarts and reboots: what runs, what was good, what was given up."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .containers import write_private
from .spec import Spec, SpecError, parse

SCHEMA = 1


@dataclass
class Run:
    """A specification on this machine. `up`: it has generated. `failures`: failed starts in a row."""

    spec: Spec
    image_id: str
    address: str
    up: bool = False
    failures: int = 0


class Record:
    """`current` is what ought to be in the container, `good` what last generated, `rejected` a spec's digest.

    `images` are the ids of all images that were pulled and not yet taken away.
    """

    def __init__(self, file: Path, weights_root: Path) -> None:
        self._file, self._root = file, weights_root
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

    def save(self) -> None:
        kept = {
            "schema": SCHEMA,
            "current": _kept(self.current),
            "good": _kept(self.good),
            "rejected": self.rejected,
            "images": self.images,
        }
        write_private(self._file, json.dumps(kept))

    def _run(self, kept: Any) -> Run | None:
        if kept is None:
            return None
        spec = parse(json.dumps(kept["spec"]), self._root)
        return Run(spec, str(kept["imageId"]), str(kept["address"]), bool(kept["up"]), int(kept["failures"]))


def _kept(run: Run | None) -> dict[str, Any] | None:
    if run is None:
        return None
    return {
        "spec": dict(run.spec.document),
        "imageId": run.image_id,
        "address": run.address,
        "up": run.up,
        "failures": run.failures,
    }
