"""A batch has two deadlines, however many questions it has and however it is asked."""

from __future__ import annotations

from tests.support.deadlines import with_enough_time
from tools.attack.batches import batches, steady_guard


def test_a_batch_that_needs_twenty_deadlines_ends_after_two_and_keeps_what_is_done() -> None:
    def check(deadline: float) -> None:
        outcome = batches(steady_guard(deadline), deadline, (200,))
        assert outcome.tried == 3
        assert outcome.held, outcome

    with_enough_time(check)
