"""The two stages that cost money: facts from sentences, questions from facts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from langchain_core.runnables import Runnable
from pydantic import BaseModel

from ...guard import InputError
from ..runner import CallProgress, open_store, run_calls_sync
from ._artefacts import CallRow, FactRow, Stage
from ._asking import ReplyFaultError, Request, SchemaAsker
from ._fact_requests import Stretch, fact_request
from ._folder import AnsweredCalls, BuildFolder
from ._question_requests import question_request
from ._schemas import FactsReply, QuestionReply
from ._settings import BuildSettings, CallLimits

# None of so many requests answered, and no other either: the rest would fare alike.
_HOPELESS_AFTER = 10

Progress = Callable[[Stage, CallProgress], object]


class PaidStages:
    """Asks the model whatever the folder has no answer to.

    Args:
        folder: of the build.
        model: who is asked.
        settings: what is asked.
        limits: how.
        retry_failed: ask again what failed the last time.
        on_progress: called after every finished request.
    """

    def __init__(
        self,
        folder: BuildFolder,
        model: Runnable[Any, Any],
        settings: BuildSettings,
        limits: CallLimits,
        *,
        retry_failed: bool,
        on_progress: Progress | None,
    ) -> None:
        self._folder, self._model = folder, model
        self._settings, self._limits = settings, limits
        self._retry_failed = retry_failed
        self._on_progress = on_progress
        self.spent: list[CallRow] = []

    def facts(self, asked: Sequence[Stretch]) -> dict[str, CallRow]:
        """The calls for all stretches, by key."""
        prompts = self._settings.prompts
        requests = {row.key: fact_request(row, prompts) for row in asked}
        return self._run(Stage.FACTS, FactsReply, requests)

    def questions(self, facts: Sequence[FactRow]) -> dict[str, CallRow]:
        """The calls for all facts, by key."""
        name, prompts = self._settings.model, self._settings.prompts
        made = (question_request(fact, model=name, prompts=prompts) for fact in facts)
        requests = {request.key: request for request in made}
        return self._run(Stage.QUESTIONS, QuestionReply, requests)

    def _run(
        self, stage: Stage, schema: type[BaseModel], requests: dict[str, Request]
    ) -> dict[str, CallRow]:
        asker = SchemaAsker(
            self._model,
            schema,
            self._settings.prompts,
            structured=self._settings.structured,
            max_mends=self._settings.max_mends,
        )
        limits = self._limits
        with open_store(self._folder.calls(stage), key="key") as store:
            before = self._folder.answered(stage)
            todo = _todo(requests, before, again=self._retry_failed)
            unanswered = _Unanswered(self._settings.model, todo)
            run_calls_sync(
                todo,
                asker,
                store,
                key=lambda request: request.key,
                failed=unanswered.row,
                max_concurrency=limits.max_concurrency,
                rate=limits.rate,
                timeout=limits.timeout,
                max_attempts=limits.max_attempts + self._settings.max_mends,
                first_wait=limits.first_wait,
                retry_on=(ReplyFaultError,),
                on_progress=None
                if self._on_progress is None
                else lambda progress: self._report(stage, progress),
            )
            after = self._folder.answered(stage)
        self.spent += after.all[len(before.all) :]
        return after.by_key

    def _report(self, stage: Stage, progress: CallProgress) -> None:
        if self._on_progress is not None:
            self._on_progress(stage, progress)


class _Unanswered:
    """Makes rows of requests that got no answer, as long as that is not all of them."""

    def __init__(self, model: str, requests: Sequence[Request]) -> None:
        self._model, self._requests = model, requests
        self._failed = 0

    def row(self, request: Request, error: Exception) -> dict[str, Any]:
        """The row that says why.

        Raises:
            InputError: the model answers nothing at all.
        """
        self._failed += 1
        if self._failed == _HOPELESS_AFTER and all(row.last is None for row in self._requests):
            raise InputError(
                f"none of the first {self._failed} requests was answered ({type(error).__name__})",
                where=self._model,
                mend="check name, key and network, and start again with --retry-failed",
            )
        return request.row(error)


def _todo(requests: dict[str, Request], before: AnsweredCalls, *, again: bool) -> list[Request]:
    found: list[Request] = []
    for key, request in requests.items():
        stored_as = before.key_to_ask(key, again_if_failed=again)
        if stored_as is not None:
            found.append(replace(request, key=stored_as))
    return found
