"""The part of one file that is in memory, between the thread that downloads it and the one that uploads it."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from .connections import PIECE


class Window:
    """A ring of memory that a reader fills and an uploader follows and releases.

    Nothing is overwritten before the bucket has confirmed it, so an upload resumes from memory: the bytes that were
    hashed are the bytes that are sent, however often they are sent.
    """

    def __init__(self, memory: memoryview, size: int) -> None:
        self._memory, self._size = memory, size
        self._written = self._released = 0
        self._error: BaseException | None = None
        self._changed = threading.Condition()

    def room(self) -> memoryview:
        """Return free memory for the next bytes, at most a piece; waits until there is some."""
        capacity = len(self._memory)
        with self._changed:
            while self._written - self._released == capacity:
                self._wait()
            at = self._written % capacity
            free = min(capacity - at, capacity - (self._written - self._released))
            return self._memory[at : at + min(PIECE, free, self._size - self._written)]

    def wrote(self, count: int) -> None:
        """Count bytes that the reader has put into `room`."""
        with self._changed:
            self._raise_error()
            self._written += count
            self._changed.notify_all()

    def views(self, start: int, end: int) -> Iterator[memoryview]:
        """Yield the bytes from `start` to `end` of the file, as they arrive."""
        while start < end:
            self.wait_for(start + 1)
            at = start % len(self._memory)
            upto = min(end, self._written, start + len(self._memory) - at)
            yield self._memory[at : at + upto - start]
            start = upto

    def wait_for(self, written: int) -> None:
        """Wait until so many bytes of the file have been read. Raises the error of the other thread."""
        with self._changed:
            while self._written < written:
                self._wait()

    def release(self, upto: int) -> None:
        """Free the bytes before `upto`: the bucket has them."""
        with self._changed:
            self._released = upto
            self._changed.notify_all()

    def fail(self, error: BaseException) -> None:
        """Have this error raised in the other thread."""
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
