"""Everything that a specification needs, fetched beside whatever serves meanwhile: image, weights, token.

It never gives up by itself, since what is missing (a grant, a copy that still runs) tends to come; it ends when it has
everything, or when it is abandoned for a newer wish.
"""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from .bucket import WeightsError
from .containers import Abandoned, Docker, DockerError, write_private
from .journal import Journal
from .metadata import Metadata
from .record import Run
from .settings import Settings, backoff
from .spec import Spec
from .status import Status
from .web import Unreachable, call
from .weights import Stager, is_staged

ANSWER_S = 30.0
PLACES = ("image", "address", "weights", "token")
"""Where a preparation can be in trouble."""


class SecretError(Exception):
    """The Hugging Face token cannot be had."""


@dataclass(frozen=True)
class Tools:
    """What all of the supervisor's parts share."""

    settings: Settings
    journal: Journal
    status: Status
    metadata: Metadata
    docker: Docker

    @property
    def token_file(self) -> Path:
        """Where the Hugging Face token lies for the container: in memory, for root alone."""
        return self.settings.run_dir / "huggingface-token"


class Preparation(threading.Thread):
    """`done` gets a Run that can be started. `trouble` is called at each failed try, after the status knows.

    With `known`, what was once fetched for that Run is taken as it is, so that a restart needs nobody's help.
    """

    def __init__(
        self, tools: Tools, spec: Spec, done: Callable[[Preparation, Run], None],
        trouble: Callable[[Preparation], None], known: Run | None = None,
    ) -> None:  # fmt: skip
        super().__init__(name=f"prepare {spec.hash}", daemon=True)
        self.spec = spec
        self._tools, self._done, self._trouble, self._known = tools, done, trouble, known
        self._abandoned = threading.Event()

    def abandon(self) -> None:
        """Stop soon, and call nobody any more."""
        self._abandoned.set()

    def halt(self) -> None:
        """As `abandon`, and see to it that no command of ours outlives this process."""
        self.abandon()
        self.join(2)

    def run(self) -> None:
        with ThreadPoolExecutor(4, thread_name_prefix="prepare") as pool:
            image = pool.submit(self._try, "image", self._image)
            address = pool.submit(self._try, "address", self._address)
            others = [pool.submit(self._try, "weights", self._weights), pool.submit(self._try, "token", self._token)]
        try:
            for other in others:
                other.result()
            run = Run(self.spec, image.result(), address.result())
        except Abandoned:
            return
        if self._known:
            run.failures = self._known.failures
        if not self._abandoned.is_set():
            self._done(self, run)

    def _try(self, where: str, step: Callable[[], str]) -> str:
        failures = 0
        while not self._abandoned.is_set():
            try:
                result = step()
            except (DockerError, WeightsError, SecretError, Unreachable, OSError) as error:
                if self._abandoned.is_set():
                    break
                failures += 1
                wait_s = backoff(self._tools.settings.retry_s, self._tools.settings.retry_cap_s, failures)
                text = f"{self.spec.hash} cannot be started yet. {str(error).rstrip('.')}."
                self._tools.status.trouble(where, text)
                self._tools.journal.info("retry", f"{where}: try {failures + 1} in {wait_s:g} s.", where=where)
                self._trouble(self)
                self._abandoned.wait(wait_s)
                continue
            if failures:  # another preparation may be in trouble at the same place
                self._tools.status.clear(where)
            return result
        raise Abandoned

    def _image(self) -> str:
        docker, metadata = self._tools.docker, self._tools.metadata
        if self._known and self._known.image_id and docker.image_id(self._known.image_id):
            return self._known.image_id
        if "@sha256:" in self.spec.image and (here := docker.image_id(self.spec.image)):
            return here  # a digest cannot have come to mean something else
        self._tools.journal.info("image", f"Pulling {self.spec.image}.")
        token = metadata.token() if self.spec.registry else ""
        return docker.pull(self.spec.image, self.spec.registry, token, self._abandoned)

    def _address(self) -> str:
        return self._known.address if self._known else self._tools.metadata.address()

    def _weights(self) -> str:
        if not (self._known and is_staged(self.spec.weights)):
            stager = Stager(self._tools.settings, self._tools.metadata, self._progress)
            stager.stage(self.spec.weights, self._abandoned)
        self._tools.status.set(weightsPercent=None)
        return ""

    def _progress(self, done: int, total: int) -> None:
        percent = 100 * done // max(1, total)
        self._tools.status.set(weightsPercent=percent)
        self._tools.journal.info("weights", f"Weights: {percent} % of {total / 1024**3:.1f} GiB.", percent=percent)

    def _token(self) -> str:
        tools = self._tools
        if not self.spec.token_secret:
            return ""
        if self._known and tools.token_file.exists():
            tools.journal.hide(tools.token_file.read_text())
            return ""
        write_private(tools.token_file, tools.journal.hide(secret(tools, self.spec.token_secret)))
        return ""


def secret(tools: Tools, name: str) -> str:
    """The value of a secret, its newest version unless `name` has one. Raises SecretError, Unreachable."""
    version = name if "/versions/" in name else f"{name}/versions/latest"
    headers = {"Authorization": f"Bearer {tools.metadata.token()}"}
    reply = call("GET", f"{tools.settings.secrets_url}/v1/{version}:access", timeout_s=ANSWER_S, headers=headers)
    if reply.status == 200:
        try:
            return base64.b64decode(json.loads(reply.body)["payload"]["data"]).decode().strip()
        except (ValueError, KeyError, TypeError):
            raise SecretError(f"{version} holds no text.") from None
    if reply.status == 401:
        tools.metadata.forget_token()
    fix = {
        403: "Grant the slice's service account roles/secretmanager.secretAccessor on it.",
        404: "It does not exist, or has no version.",
    }.get(reply.status, "")
    raise SecretError(f"The secret {version} cannot be read (HTTP {reply.status}). {fix}")
