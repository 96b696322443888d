"""Questions without a model: rewritten where a rule fits, a blank to fill in otherwise."""

from __future__ import annotations

from collections.abc import Sequence

from ._artefacts import FactRow, FailureRow, QuestionRow, SentenceKind, SentenceRow, Stage
from ._checks import answer_in_question, question_fault, words_of
from ._cloze_blanks import BLANK, Corpus, best_blank, last_cell
from ._cloze_sentences import askable
from ._fact_requests import UniqueNames
from ._rewriting import rewritten
from ._sentences import language_of

_ASKED = {"en": "Complete from the knowledge base: “{text}”", "zh": "请根据知识库填空：“{text}”"}
_FEWEST_WORDS_LEFT = 5


def cloze_facts(
    sentences: Sequence[SentenceRow],
) -> tuple[list[FactRow], list[QuestionRow], list[FailureRow]]:
    """Facts and questions by rules alone; the same sentences always give the same.

    A sentence that says something by itself is its own fact. It becomes a question
    where it defines something ("X is a Y"), or else one with a blank for its most
    telling piece: a number, a date, a name, a phrase in quotes, a noun with its
    adjectives. Sentences that lean on their neighbours are passed over.

    Returns:
        The facts; the questions, of which some facts have none; and what failed.
    """
    facts: list[FactRow] = []
    questions: list[QuestionRow] = []
    failures: list[FailureRow] = []
    seen: set[str] = set()
    names = UniqueNames()
    corpus = Corpus.of(row.text for row in sentences if not row.boilerplate)
    for row in sentences:
        if row.boilerplate or row.kind not in (SentenceKind.SENTENCE, SentenceKind.TABLE_ROW):
            continue
        plain = " ".join(words_of(row.text))
        if plain in seen or not askable(row):
            continue
        seen.add(plain)
        fact = _fact(row, names)
        facts.append(fact)
        made = _question(row, corpus)
        if made is None:
            failures.append(
                FailureRow(
                    stage=Stage.QUESTIONS,
                    type="nothing_to_blank",
                    detail="no number, date, name or phrase that stands there once",
                    document=row.document,
                    about=(fact.fact_id,),
                )
            )
            continue
        questions.append(
            QuestionRow(
                id=fact.fact_id,
                question=made[0],
                answer=made[1],
                passage=row.text,
                source=row.document,
                topic=row.topic,
                fact=row.text,
                citations=(row.index,),
                origin="cloze",
            )
        )
    return facts, questions, failures


def _fact(row: SentenceRow, names: UniqueNames) -> FactRow:
    """A sentence as its own fact."""
    return FactRow(
        fact_id=names.name(row.document, row.text),
        document=row.document,
        text=row.text,
        citations=(row.index,),
        passage=row.text,
        topic=row.topic,
    )


def _question(row: SentenceRow, corpus: Corpus) -> tuple[str, str] | None:
    if row.kind is SentenceKind.SENTENCE:
        made = rewritten(row.text)
        if made is not None and question_fault(*made) is None:
            return made
    table = row.kind is SentenceKind.TABLE_ROW
    found = last_cell(row.text) if table else best_blank(row.text, corpus)
    if found is None:
        return None
    start, end = found
    answer = row.text[start:end]
    left = f"{row.text[:start]}{BLANK}{row.text[end:]}"
    if (not table and len(words_of(left)) < _FEWEST_WORDS_LEFT) or answer_in_question(left, answer):
        return None
    return _ASKED.get(language_of(row.text), _ASKED["en"]).format(text=left), answer
