"""Deciding many questions at once, with a failure kept to its own question."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ...guard import Decision, Guard, KnowgateError


def decide_all(
    guard: Guard, questions: Sequence[Any], passages: Sequence[Iterable[object] | None]
) -> Sequence[Decision | Exception]:
    """One decision per question; an error in its place only under `on_error="raise"`."""
    try:
        return guard.decide_batch(questions, passages)
    except KnowgateError:
        # Some question raised: one by one, to raise for that question alone.
        decided: list[Decision | Exception] = []
        for question, found in zip(questions, passages, strict=True):
            try:
                decided.append(guard.decide(question, found))
            except KnowgateError as error:
                decided.append(error)
        return decided


async def adecide_all(
    guard: Guard, questions: Sequence[Any], passages: Sequence[Iterable[object] | None]
) -> Sequence[Decision | Exception]:
    """As `decide_all`, without blocking the event loop."""
    try:
        return await guard.adecide_batch(questions, passages)
    except KnowgateError:
        decided: list[Decision | Exception] = []
        for question, found in zip(questions, passages, strict=True):
            try:
                decided.append(await guard.adecide(question, found))
            except KnowgateError as error:
                decided.append(error)
        return decided
