"""What is odd in the published files, counted in the files at hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from ...guard.abstention import load_rule
from ._items import ChoiceItem, QuestionType, UaqItem


def list_quirks(
    items: Sequence[UaqItem], choices: Sequence[ChoiceItem], *, three: bool
) -> Iterator[str]:
    """Sentences about a set, each with how it is dealt with; nothing odd, no sentence.

    Args:
        items: questions of task 1, with the clues of task 3 where they were read.
        choices: questions of task 2.
        three: whether task 3 was read.
    """
    shared = Counter((item.type, item.kind, item.qid) for item in items)
    number = sum(count - 1 for count in shared.values() if count > 1)
    if number:
        yield (
            f"{number} ids stand for questions in several languages: questions are told apart "
            "by language, type, kind and id."
        )
    refused = _gold_that_refuses(items)
    if refused:
        yield (
            f"{refused} answerable questions have a gold answer that the published refusal rule "
            "takes for a refusal: a right reply to them counts as one."
        )
    echoed = sum(
        any(answer.label.casefold() in item.question.casefold() for answer in item.answers)
        for item in items
        if item.type is QuestionType.DILEMMA and not item.unanswerable
    )
    if echoed:
        yield (
            f"{echoed} answerable dilemmas have a gold answer in the question: a reply that "
            "echoes both options is right by the published rule and wrong by the strict one."
        )
    unsplit = sum(item.type is QuestionType.DILEMMA and not item.options for item in items)
    if unsplit:
        yield f"{unsplit} dilemmas offer options that cannot be told apart."
    twins = sum(len(set(choice.options)) < len(choice.options) for choice in choices)
    if twins:
        yield (
            f"{twins} four-option questions offer the same text twice: either of the two counts."
        )
    if three:
        endless = sum(item.type is QuestionType.TIME and len(item.clues) == 1 for item in items)
        if endless:
            yield (
                f"{endless} questions about a time have a clue about an end that has not come: "
                "that step, which speaks of 'None' and '-1', is left out."
            )
        bare = sum(not item.clues for item in items)
        if bare:
            yield f"{bare} questions have no reasoning clue: task 3 leaves them out."


def _gold_that_refuses(items: Sequence[UaqItem]) -> int:
    labels = [answer.label for item in items if not item.unanswerable for answer in item.answers]
    if not labels:
        return 0
    verdicts = load_rule("uaqfact").detect_many(labels)
    flagged = {label for label, found in zip(labels, verdicts, strict=True) if found.abstained}
    return sum(
        any(answer.label in flagged for answer in item.answers)
        for item in items
        if not item.unanswerable and item.language == "en"
    )
