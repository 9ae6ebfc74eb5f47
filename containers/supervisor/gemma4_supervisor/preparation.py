"""Fetches what a specification needs (image, weights, token) while the server of another one goes on.

A preparation never gives up by itself, since what is missing (a grant, a copy that still runs) tends to come. It ends
when it has everything, or when it is abandoned for a newer specification.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace

from containers.shared.web import TransientError, backoff

from .bucket_reader import WeightsError
from .cleanup import remove_all_but
from .context import Context
from .desired_spec import Spec
from .docker import Abandoned, DockerError
from .huggingface import SecretError, secret, token_file
from .state import ServingRun
from .weight_staging import GIB, Stager, is_staged
from .whole_file import write_whole

PLACES = ("image", "address", "weights", "token")
"""What a preparation reports as `where` when a step of it fails."""


class Preparation(threading.Thread):
    """Has `done` called with a run that can be started, and `trouble` after each failed try, once the status has it.

    Both on the main thread, and neither once it is abandoned there. With `known`, this is a restart: what was fetched for
    that run before is used again, so that it works without network.
    """

    def __init__(
        self, context: Context, spec: Spec, done: Callable[[ServingRun], None],
        trouble: Callable[[], None] = lambda: None, known: ServingRun | None = None,
    ) -> None:  # fmt: skip
        super().__init__(name=f"prepare {spec.hash}", daemon=True)
        self.spec = spec
        self._context, self._done, self._trouble, self._known = context, done, trouble, known
        self._abandoned = threading.Event()

    @property
    def needs_weights(self) -> bool:
        """True if some of them are still to be fetched."""
        return not is_staged(self.spec.weights)

    def abandon(self) -> None:
        """Stop soon, and call neither `done` nor `trouble` any more."""
        self._abandoned.set()

    def halt(self) -> None:
        """Abandon, and wait for running commands, so that none of them outlives this process."""
        self.abandon()
        self.join(2)

    def run(self) -> None:
        """Take all steps at once and try each until it succeeds."""
        with ThreadPoolExecutor(4, thread_name_prefix="prepare") as pool:
            image = pool.submit(self._try, "image", self._image)
            address = pool.submit(self._try, "address", self._address)
            others = [pool.submit(self._try, "weights", self._weights), pool.submit(self._try, "token", self._token)]
            try:
                for step in as_completed([image, address, *others]):
                    step.result()
            except Abandoned:
                return
            except BaseException:  # a bug: without this the other steps would go on, and it would stay unseen
                self.abandon()
                raise
        run = ServingRun(self.spec, image.result(), address.result())
        if self._known:
            run = replace(self._known, image_id=run.image_id, address=run.address, up=False)
        self._tell(lambda: self._done(run))

    def _tell(self, act: Callable[[], None]) -> None:
        self._context.on_main_thread(lambda: None if self._abandoned.is_set() else act())

    def _try(self, where: str, step: Callable[[], str]) -> str:
        failures = 0
        while not self._abandoned.is_set():
            try:
                result = step()
            except (DockerError, WeightsError, SecretError, TransientError, OSError) as error:
                if self._abandoned.is_set():
                    break
                failures += 1
                wait_s = backoff(self._context.settings.retry_s, self._context.settings.retry_cap_s, failures)
                text = f"{self.spec.hash} cannot be started yet. {str(error).rstrip('.')}."
                self._context.status.trouble(where, text)
                self._context.log.info("retry", f"{where}: try {failures + 1} in {wait_s:g} s.", where=where)
                self._tell(self._trouble)
                self._abandoned.wait(wait_s)
                continue
            if failures:  # not always: another preparation may have reported the same step
                self._context.status.clear(where)
            return result
        raise Abandoned

    def _image(self) -> str:
        """Return the id of the image, pulling it unless it is here. A tag is always pulled: it may have been moved."""
        docker, spec, image_id = self._context.docker, self.spec, ""
        if self._known and self._known.image_id and docker.image_id(self._known.image_id):
            image_id = self._known.image_id
        elif "@sha256:" in spec.image:
            image_id = docker.image_id(spec.image)
        if not image_id:
            self._make_room_on_disk()
            self._context.log.info("image", f"Pulling {spec.image}.")
            token = self._context.metadata.token() if spec.registry else ""
            image_id = docker.pull(spec.image, spec.registry, token, self._abandoned)
        self._context.state.add_image(image_id)  # now, so that it is removed later even if it is never started
        return image_id

    def _make_room_on_disk(self) -> None:
        """Remove images that do not run, where the disk may not hold the pull: on a full disk every try would fail."""
        settings, state, docker = self._context.settings, self._context.state, self._context.docker
        free = shutil.disk_usage(settings.state_dir).free
        if free >= settings.image_gib * GIB:
            return
        in_use = {run.image_id for run in [*state.servers.values()]}
        gone = [image for image in state.images if image not in in_use and docker.remove_image(image)]
        state.forget_images(gone)
        if gone:
            text = f"The boot disk has {free / GIB:.0f} GiB free, and pulling {self.spec.image} may take {settings.image_gib:g}"
            text += ": images that do not run are removed. To go back to one of them it has to be pulled again."
            self._context.log.warning("image-removed", text, images=gone)

    def _address(self) -> str:
        """Return the machine's address, which a reboot may change. A restart uses the last one where none can be read."""
        try:
            return self._context.metadata.address()
        except TransientError:
            if self._known is None:
                raise
            return self._known.address

    def _weights(self) -> str:
        if self._known is None or self.needs_weights:
            stager = Stager(self._context.settings, self._context.metadata, self._progress)
            stager.stage(self.spec.weights, self._abandoned, self._make_room_in_memory)
        self._context.status.set(weightsPercent=None)
        return ""

    def _make_room_in_memory(self) -> None:
        """Remove weights of other specifications than this one, those that run, and the last good one."""
        if self._known:
            return  # a restart: another preparation may be fetching the weights of the desired specification
        state = self._context.state
        specs = [self.spec, *(run.spec for run in (*state.servers.values(), state.good) if run)]
        gone = remove_all_but(
            self._context.settings.weights_root, [weights for spec in specs for weights in spec.weights]
        )
        if gone:
            self._context.log.info("cleaned", f"Made room for the weights of {self.spec.hash}.", weights=gone)

    def _progress(self, done: int, total: int) -> None:
        percent = 100 * done // max(1, total)
        self._context.status.set(weightsPercent=percent)
        self._context.log.info("weights", f"Weights: {percent} % of {total / 1024**3:.1f} GiB.", percent=percent)

    def _token(self) -> str:
        """Read the secret into its file, at each start, as it may have changed. A restart keeps the file where that fails."""
        if not self.spec.token_secret:
            return ""
        file = token_file(self._context.settings.run_dir, self.spec.token_secret)
        try:
            token = self._context.log.hide(secret(self._context, self.spec.token_secret))
        except (SecretError, TransientError) as error:
            if self._known is None or not file.exists():
                raise
            self._context.log.warning(
                "token-kept", f"{self.spec.hash} starts with the token that was read before: {error}"
            )
            return ""
        if self._abandoned.is_set():
            raise Abandoned
        write_whole(file, token)
        return ""
