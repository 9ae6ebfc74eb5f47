"""Asks a server all questions, a few at a time, and judges each answer. What was asked is kept when somebody interrupts."""

from __future__ import annotations

import hashlib
import math
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from infra.serving.chat_answer import ChatAnswer
from infra.serving.client import ChatRequest, ServingClient
from infra.serving.evaluation.answer_judges import is_right
from infra.serving.evaluation.evaluation_record import STOPPED, AskedItem
from infra.serving.evaluation.haystack import context_lengths, context_tasks, sample_text
from infra.serving.evaluation.questions import digest, request_of
from infra.serving.evaluation.soundness import sign_of
from infra.serving.evaluation.task_set import KINDS, Kind, Task, TaskSet
from infra.serving.server_errors import AnswerError, FailureKind, cleaned

CONCURRENCY = 4
"""Requests at once unless told otherwise: a slow server is kept busy, and its other users hardly notice."""
_AGAIN_EVERY = 5
"""Every fifth question is asked twice, to see how far the server repeats itself."""
_AGAIN_UP_TO_TOKENS = 9000
"""A longer text is not read twice."""
_GIVE_UP_AFTER = 4
"""Requests in a row without any answer, after which no more are sent."""
_TRIES = 3
_PAUSE_S = 5.0
_SAMPLE_WORDS = 200
_NO_USAGE = 2.0
"""Tokens a word where a server does not count the prompt's tokens: more than English takes."""
_PASSING = frozenset({FailureKind.BUSY, FailureKind.UNAVAILABLE, FailureKind.UNREACHABLE, FailureKind.CUT})


@dataclass(frozen=True)
class EvaluationScope:
    """What is asked of which server. `without` says by kind why none of it is asked.

    `may_refuse` holds the kinds of which nobody knows whether the server was started for them: a request that it refuses
    counts as not asked. `longest_context` bounds the long texts, in tokens; 0 leaves them out.
    """

    model: str
    longest_context: int
    kinds: tuple[Kind, ...] = KINDS
    without: dict[Kind, str] = field(default_factory=dict)
    may_refuse: frozenset[Kind] = frozenset()
    concurrency: int = CONCURRENCY
    repeats: bool = True
    """Whether some questions are asked twice."""


@dataclass(frozen=True)
class _Job:
    task: Task
    again: bool = False


Progress = Callable[[int, int, AskedItem], None]
"""Gets how many are done, of how many, and the last one."""


class Evaluator:
    """Asks the questions of a scope, once. `interrupted` says that somebody stopped it before all were answered."""

    def __init__(
        self,
        client: ServingClient,
        questions: TaskSet,
        scope: EvaluationScope,
        *,
        progress: Progress = lambda *_: None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._client, self._questions, self._scope = client, questions, scope
        self._progress, self._clock, self._sleep = progress, clock, sleep
        self._stopped = threading.Event()
        self._silent_in_a_row = 0
        self.interrupted = False
        self.tokens_per_word = 0.0

    def run(self) -> tuple[AskedItem, ...]:
        """Ask everything and return one item a question, in the order of the set, also those that were not asked.

        Raises AnswerError where the server does not even take the sample text that the long texts are measured by.
        """
        tasks = self._tasks()
        wanted = [task for task in tasks if task.kind not in self._scope.without]
        jobs = [_Job(task) for task in wanted]
        if self._scope.repeats:
            jobs += [_Job(task, again=True) for task in wanted[::_AGAIN_EVERY] if not self._is_long(task)]
        first, again = self._answers(jobs)
        items = []
        for task in tasks:
            item = first.get(task.id) or self._unasked(task)
            if task.id in again and item.answer_digest and again[task.id].answer_digest:
                same = item.answer_digest == again[task.id].answer_digest
                item = item.model_copy(update={"same_again": same})
            items.append(item)
        return tuple(items)

    def _tasks(self) -> list[Task]:
        """Return the tasks of the kinds in scope, long texts included, kind by kind."""
        tasks = {kind: [one for one in self._questions.tasks if one.kind == kind] for kind in self._scope.kinds}
        if "context" in tasks and "context" not in self._scope.without:
            tasks["context"] = self._context_tasks()
        elif "context" in tasks:  # one stands for those that nobody made
            tasks["context"] = list(context_tasks(self._questions.context, min(self._questions.context.lengths), 2.0))
        return [task for kind in KINDS for task in tasks.get(kind, [])]

    def _context_tasks(self) -> list[Task]:
        context = self._questions.context
        lengths = context_lengths(context, self._scope.longest_context)
        if not lengths:
            return []
        message = [{"role": "user", "content": sample_text(_SAMPLE_WORDS)}]
        counted = self._patiently(self._client, ChatRequest(self._scope.model, message, 1, temperature=0)).prompt_tokens
        # Rounded, so that the text is the same for every server with this tokenizer.
        self.tokens_per_word = math.ceil(counted / _SAMPLE_WORDS * 50) / 50 or _NO_USAGE
        return [task for length in lengths for task in context_tasks(context, length, self.tokens_per_word)]

    def _is_long(self, task: Task) -> bool:
        return len(task.prompt.split()) * max(self.tokens_per_word, 1.0) > _AGAIN_UP_TO_TOKENS

    def _answers(self, jobs: Sequence[_Job]) -> tuple[dict[str, AskedItem], dict[str, AskedItem]]:
        """Return the items by task, of the first and of the second asking; fewer than all after an interruption."""
        waiting: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        done: queue.SimpleQueue[tuple[_Job, AskedItem] | Exception] = queue.SimpleQueue()
        for job in jobs:
            waiting.put(job)
        count = min(self._scope.concurrency, len(jobs))
        for _ in range(count):
            waiting.put(None)
            # Daemons: a request that is under way when somebody interrupts must not keep the program from ending.
            threading.Thread(target=self._work, args=(self._client.twin(), waiting, done), daemon=True).start()
        first: dict[str, AskedItem] = {}
        again: dict[str, AskedItem] = {}
        try:
            for number in range(1, len(jobs) + 1):
                found = done.get()
                if isinstance(found, Exception):
                    raise found
                job, item = found
                (again if job.again else first)[job.task.id] = item
                self._progress(number, len(jobs), item)
        except KeyboardInterrupt:
            self.interrupted = True
        finally:
            self._stopped.set()
        return first, again

    def _work(
        self,
        client: ServingClient,
        waiting: queue.SimpleQueue[_Job | None],
        done: queue.SimpleQueue[tuple[_Job, AskedItem] | Exception],
    ) -> None:
        while (job := waiting.get()) is not None:
            try:
                item = self._unasked(job.task) if self._stopped.is_set() else self._asked(client, job.task)
            except Exception as error:  # whoever waits for the answers must not wait for a thread that has ended
                done.put(error)
                return
            done.put((job, item))

    def _asked(self, client: ServingClient, task: Task) -> AskedItem:
        request = request_of(task, self._questions, self._scope.model)
        item = _blank(task).model_copy(update={"digest": digest(request)})
        started = self._clock()
        try:
            answer = self._patiently(client, request)
        except AnswerError as error:
            if error.kind is FailureKind.REJECTED and task.kind in self._scope.may_refuse:
                return item.model_copy(update={"why": f"the server takes none: {error.words}"})
            self._count_silence(error)
            return item.model_copy(update={"outcome": "error", "why": cleaned(str(error))})
        self._silent_in_a_row = 0
        written = _written(answer)
        return item.model_copy(
            update={
                "outcome": "passed" if is_right(task, answer) else "failed",
                "answer": cleaned(written),
                "answer_digest": hashlib.sha256(written.encode()).hexdigest()[:12],
                "sign": sign_of(answer),
                "prompt_tokens": answer.prompt_tokens,
                "completion_tokens": answer.completion_tokens,
                "seconds": round(self._clock() - started, 3),
            }
        )

    def _patiently(self, client: ServingClient, request: ChatRequest) -> ChatAnswer:
        for _ in range(_TRIES - 1):
            try:
                return client.chat(request)
            except AnswerError as error:
                if error.kind not in _PASSING or self._stopped.is_set():
                    raise
            self._sleep(_PAUSE_S)
        return client.chat(request)

    def _count_silence(self, error: AnswerError) -> None:
        """Stop sending after some requests in a row that no server answered: it is gone."""
        if error.kind in _PASSING | {FailureKind.ENGINE_DEAD, FailureKind.SILENT}:
            self._silent_in_a_row += 1
            if self._silent_in_a_row >= _GIVE_UP_AFTER:
                self._stopped.set()

    def _unasked(self, task: Task) -> AskedItem:
        why = self._scope.without.get(task.kind)
        if why is None:
            why = STOPPED if self._stopped.is_set() and not self.interrupted else "interrupted"
        return _blank(task).model_copy(update={"why": why})


def _blank(task: Task) -> AskedItem:
    """Return the item of a task that was not asked."""
    return AskedItem(
        id=task.id,
        kind=task.kind,
        digest="",
        outcome="not asked",
        why="",
        answer="",
        answer_digest="",
        sign="",
        prompt_tokens=0,
        completion_tokens=0,
        seconds=0.0,
        same_again=None,
    )


def _written(answer: ChatAnswer) -> str:
    """Return all that the model wrote: thoughts where there are any, text, calls."""
    calls = [f"{call.name}({call.arguments})" for call in answer.tool_calls]
    return "\n".join(part for part in (answer.reasoning, answer.content, *calls) if part)
