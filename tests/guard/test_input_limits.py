"""Questions and passages are read once, within limits, and not on the event loop."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.documents import Document
from prometheus_client import CollectorRegistry

from knowgate.guard import Decision, InputError, InputLimits, QuestionError, Reason
from knowgate.guard.errors import InputTooLargeError, PassageError
from knowgate.guard.testing import FakeScorer
from knowgate.guard.text import read_requests
from tests.support.guards import FORMS, all_decided, guard_with
from tests.support.hostile import Changing

LIMITS = InputLimits(question_bytes=20, passages=3, passage_bytes=12, total_bytes=20, questions=4)


async def decided(form: str, question: Any, passages: Any, **changes: Any) -> Decision:
    guard = guard_with(**({"limits": LIMITS} | changes))
    return (await all_decided(form, guard, (question, passages), ("q", ["p"])))[0]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("question", "passages", "is_read"),
    [
        ("q" * 20, ["p" * 12, "p" * 8, ""], True),
        ("q" * 21, ["p"], False),
        ("é" * 11, ["p"], False),
        (b"q" * 21, ["p"], False),
        ("q", ["p" * 13], False),
        ("q", ["图书馆在哪"], False),
        ("q", ["p" * 11, "p" * 11], False),
        ("q", ["", "", "", ""], False),
        ("q", [Document("p" * 13)], False),
        ("q", "p" * 13, False),
    ],
    ids=range(10),
)
async def test_what_exceeds_a_limit_is_abstained_from_for_a_reason_of_its_own(
    form: str, question: Any, passages: Any, is_read: bool
) -> None:
    decision = await decided(form, question, passages)

    assert (decision.reason is Reason.INPUT_TOO_LARGE) is not is_read
    assert bool(decision.scores) is is_read


@pytest.mark.parametrize("form", FORMS)
async def test_passages_without_an_end_are_read_as_far_as_the_limit(form: str) -> None:
    read: list[int] = []

    def endless() -> Iterator[str]:
        for index in itertools.count():
            read.append(index)
            yield ""

    decision = await decided(form, "q", endless())

    assert decision.reason is Reason.INPUT_TOO_LARGE
    assert len(read) == 4


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "passages",
    [[None], [["nested"]], [Document("nine"), None], [("nine", 0.9)], [7], {"documents": []},
     [{"text": None}], [Document("nine"), [Document("nine")]], bytearray(b"nine"), 7, [object()]],
    ids=range(11),
)  # fmt: skip
async def test_what_are_no_passages_is_not_taken_for_nothing_retrieved(
    form: str, passages: Any
) -> None:
    decision = await decided(form, "q", passages)
    assert decision.reason is Reason.INVALID_PASSAGES

    with pytest.raises(PassageError):
        await decided(form, "q", passages, on_error={"input": "raise"})


def test_blank_passages_are_nothing_retrieved() -> None:
    for passages in (None, [], [""], [Document(" ")], {"text": ""}, Document("")):
        decision = guard_with().decide("q", passages)
        assert decision.reason is Reason.NOTHING_RETRIEVED


@pytest.mark.parametrize("form", FORMS)
async def test_input_that_is_too_large_is_raised_where_the_guard_was_told_so(form: str) -> None:
    with pytest.raises(InputTooLargeError, match=r"20 bytes — see question_bytes") as raised:
        await decided(form, "q" * 21, ["p"], on_error={"input": "raise"})
    assert isinstance(raised.value, QuestionError)


def test_reasons_of_unread_input_are_counted() -> None:
    registry = CollectorRegistry()
    guard = guard_with(limits=LIMITS, metrics=True, registry=registry)

    for passages in (["p" * 13], [None]):
        guard.decide("q", passages)

    counted = {
        sample.labels["reason"]: sample.value
        for family in registry.collect()
        for sample in family.samples
        if sample.name == "knowgate_decisions_total"
    }
    assert counted == {"input_too_large": 1, "invalid_passages": 1}


def test_a_batch_without_an_end_is_an_error_of_the_call() -> None:
    with pytest.raises(InputError, match="more than 4 questions"):
        read_requests(itertools.repeat("q"), itertools.repeat(["p"]), LIMITS)
    with pytest.raises(InputError, match="more than 4 questions"):
        read_requests(["q"] * 5, [["p"]] * 5, LIMITS)


@pytest.mark.parametrize("form", FORMS)
async def test_a_passage_is_read_once(form: str) -> None:
    scorer = FakeScorer({"reading 1": 0.9})

    decision = await decided(form, "q", [Changing()], scorer=scorer, limits=InputLimits())

    assert decision.reason is Reason.SUFFICIENT_CONTEXT


class Lazy:
    """A document that tells on which thread its text was read."""

    def __init__(self) -> None:
        self.threads: set[int] = set()

    @property
    def page_content(self) -> str:
        self.threads.add(threading.get_ident())
        return "nine"


@pytest.mark.parametrize("form", ["adecide", "adecide_batch"])
async def test_what_runs_code_of_the_caller_is_read_beside_the_event_loop(form: str) -> None:
    lazy = Lazy()

    await decided(form, "q", [lazy])

    assert lazy.threads
    assert threading.get_ident() not in lazy.threads


async def test_the_event_loop_goes_on_while_a_document_is_read() -> None:
    released = threading.Event()

    class Slow:
        @property
        def page_content(self) -> str:
            assert released.wait(60), "the event loop was blocked"
            return "nine"

    reading = asyncio.create_task(decided("adecide", "q", [Slow()]))
    await asyncio.sleep(0.01)
    released.set()

    assert (await reading).scores


@pytest.mark.parametrize(
    ("passages", "quickly"),
    [
        (["a", Document("b"), {"text": "c"}, ""], True),
        (None, True),
        (["a" * 70_000], False),
        ([Document("a" * 70_000)], False),
        ([Lazy()], False),
        (iter(["a"]), False),
        ("a", False),
        ([object()], False),
    ],
    ids=range(8),
)
def test_only_little_plain_text_is_read_on_the_event_loop(passages: Any, quickly: bool) -> None:
    assert InputLimits.reads_quickly(["q"], [passages]) is quickly
    assert not InputLimits.reads_quickly(["q" * 70_000], [passages])
    assert not InputLimits.reads_quickly(iter(["q"]), [passages])


def test_the_text_of_bytes_that_grows_when_it_is_read_counts_as_read() -> None:
    with pytest.raises(InputTooLargeError):
        LIMITS.read_passages([b"\xff" * 12])
