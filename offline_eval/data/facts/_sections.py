"""Questions that whole sections answer, by their headings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile

from ._artefacts import FactRow, QuestionRow, SentenceKind, SentenceRow
from ._fact_requests import UniqueNames
from ._requests import question_fault
from ._rewriting import asked_by_heading

_FEWEST_WORDS, _MOST_WORDS = 25, 60
_TEXT = (SentenceKind.SENTENCE, SentenceKind.ITEM)


def section_facts(
    sentences: Sequence[SentenceRow], names: UniqueNames
) -> Iterator[tuple[FactRow, QuestionRow]]:
    """How to do what a heading names, where the text below it is long enough to say so.

    The answer is the beginning of the section: whole sentences of 25 to 60 words.
    """
    for place, row in enumerate(sentences):
        if row.kind is not SentenceKind.HEADING or row.boilerplate:
            continue
        question = asked_by_heading(row.text)
        told = _beginning(sentences[place + 1 :], row.document) if question else []
        answer = " ".join(one.text for one in told)
        if question is None or not told or question_fault(question, answer) is not None:
            continue
        fact = FactRow(
            fact_id=names.name(row.document, f"{row.text}\n{answer}"),
            document=row.document,
            text=f"{row.text}: {answer}",
            citations=tuple(one.index for one in told),
            passage=answer,
            topic=row.topic,
        )
        yield fact, asked_of(fact, question, answer)


def asked_of(fact: FactRow, question: str, answer: str) -> QuestionRow:
    """A question about a fact that rules made."""
    return QuestionRow(
        id=fact.fact_id,
        question=question,
        answer=answer,
        passage=fact.passage,
        source=fact.document,
        topic=fact.topic,
        fact=fact.text,
        citations=fact.citations,
        made_by="rules",
    )


def _beginning(rows: Sequence[SentenceRow], document: str) -> list[SentenceRow]:
    """The first sentences before the next heading; none where they are too short together."""
    below = takewhile(
        lambda row: row.document == document and row.kind is not SentenceKind.HEADING, rows
    )
    found: list[SentenceRow] = []
    words = 0
    for row in below:
        if row.kind not in _TEXT or row.boilerplate or row.text.endswith("?"):
            continue
        words += len(row.text.split())
        if found and words > _MOST_WORDS:
            break
        found.append(row)
        if words >= _FEWEST_WORDS:
            return found
    return found if words >= _FEWEST_WORDS and len(found) > 1 else []
