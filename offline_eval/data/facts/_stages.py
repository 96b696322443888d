"""What a model is asked for facts and for questions, and what becomes of its replies."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated

from pydantic import AfterValidator, BaseModel, Field

from ....guard.errors import InputError
from ....guard.prompts import Prompt
from ....guard.text import clean_text
from ._asking import PROMPTS, Checked, Request
from ._checks import copy_fault, question_fault, refers_to_document
from ._rows import CallRow, FactRow, FailureRow, Fault, QuestionRow, SentenceRow, check_sizes

NO_MODEL = "none"


@dataclass(frozen=True)
class BuildSettings:
    """Settings that decide the questions.

    Attributes:
        model: name of the model that is asked; `none` for rules alone. What was asked
            under one name is not asked again under it.
        fact_prompt: asks for the facts in numbered `{sentences}` (needed) under the heading
            `{topic}`.
        question_prompt: asks for a question about a `{fact}` (needed) from a `{passage}` under
            the heading `{topic}`.
        chunk_size: most words in a chunk, the passage of a question; see `load_chunks`.
        chunk_overlap: most words that two neighbouring chunks share.

    Raises:
        InputError: a number is out of range, or a prompt lacks its slot or has one that nothing
            fills.
    """

    model: str = NO_MODEL
    fact_prompt: Prompt = PROMPTS["facts"]
    question_prompt: Prompt = PROMPTS["question"]
    chunk_size: int = 150
    chunk_overlap: int = 0

    @property
    def asks_model(self) -> bool:
        """Whether a model is asked."""
        return self.model != NO_MODEL

    def __post_init__(self) -> None:
        check_sizes(self.chunk_size, self.chunk_overlap)
        if not self.model:
            raise InputError("must not be empty", where="model", hint=f"`{NO_MODEL}` for none")
        self.fact_prompt.require_slots({"sentences", "topic"}, {"sentences"})
        self.question_prompt.require_slots({"fact", "passage", "topic"}, {"fact"})

    def key(self, prompt: Prompt, *parts: str) -> str:
        """What a request is stored under: what is asked, how, and of whom."""
        joint = _sha256(prompt.text, PROMPTS["as_json"].text, PROMPTS["repair"].text)
        return _sha256(self.model, joint, *parts)


def _sha256(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()


SENTENCES_PER_CALL = 12
_MOST_CHARACTERS = 4_000
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_NONE = "(none)"
_Text = Annotated[str, AfterValidator(clean_text)]


class FactReply(BaseModel):
    """One fact, with where it comes from."""

    fact: _Text = Field(description="one fact as a whole sentence, understood by itself")
    sentences: list[int] = Field(description="numbers of the sentences that it comes from")


class FactsReply(BaseModel):
    """All facts in the numbered sentences."""

    facts: list[FactReply] = Field(description="empty if there is none")


class QuestionReply(BaseModel):
    """A question with its answer."""

    question: _Text = Field(description="understood by somebody who has never seen the document")
    answer: _Text = Field(description="short and complete; does not stand in the question")


def unique_name(taken: set[str], document: str, text: str) -> str:
    """Make an id of a document and a text, so that it stays when others change.

    Args:
        taken: ids that were given before; the new one is added.
        document: name of the document.
        text: what the id stands for.
    """
    found = f"{document}:{_sha256(text)[:10]}"
    while found in taken:
        found += "'"
    taken.add(found)
    return found


def fact_row(
    taken: set[str], text: str, cited: Sequence[SentenceRow], *, made_of: str = ""
) -> FactRow:
    """Make the row of a fact that sentences state; its id is made of its text."""
    return FactRow(
        fact_id=unique_name(taken, cited[0].document, made_of or text),
        document=cited[0].document,
        text=text,
        citations=tuple(sentence.index for sentence in cited),
        passage=" ".join(sentence.text for sentence in cited),
        topic=cited[0].topic,
    )


# --- facts -------------------------------------------------------------------------------------


# Sentences that one request asks about, numbered from 1 in the prompt.
Stretch = Sequence[SentenceRow]


def stretches(sentences: Iterable[SentenceRow]) -> list[Stretch]:
    """Group sentences that are content into stretches of one document and heading.

    Long sentences make shorter stretches.
    """
    groups: list[list[SentenceRow]] = []
    for row in sentences:
        if row.boilerplate:
            continue
        held = groups[-1] if groups else []
        alike = held and (row.document, row.topic) == (held[0].document, held[0].topic)
        size = sum(len(other.text) for other in held) + len(row.text)
        if alike and len(held) < SENTENCES_PER_CALL and size <= _MOST_CHARACTERS:
            held.append(row)
        else:
            groups.append([row])
    # A lone heading or a word is no text to find facts in.
    return [
        held
        for held in groups
        if any(len(row.text.split()) > 3 or len(row.text) > 12 for row in held)
    ]


def fact_request(stretch: Stretch, settings: BuildSettings) -> Request:
    """Make the request for the facts of a stretch."""
    prompt, topic, texts = settings.fact_prompt, stretch[0].topic, [row.text for row in stretch]
    numbered = "\n".join(f"[{number}] {text}" for number, text in enumerate(texts, start=1))
    return Request(
        settings.key(prompt, topic or "", *texts),
        prompt.fill(sentences=numbered, topic=topic or _NONE),
        partial(_checked_facts, texts=texts),
    )


def _checked_facts(reply: FactsReply, *, texts: Sequence[str]) -> Checked:
    found = [(fact, _fact_fault(fact, texts)) for fact in reply.facts]
    good = FactsReply(facts=[fact for fact, fault in found if fault is None])
    faults = tuple(
        (fault[0], f"fact {number}: {fault[1]}")
        for number, (_, fault) in enumerate(found, start=1)
        if fault is not None
    )
    return good.model_dump(), faults


def _fact_fault(fact: FactReply, texts: Sequence[str]) -> Fault | None:
    if not fact.fact.strip():
        return "empty_fact", "it is empty"
    if not fact.sentences:
        return "no_citation", "it names no sentence"
    if strange := [n for n in fact.sentences if not 1 <= n <= len(texts)]:
        return "bad_citation", f"there is no sentence {strange[0]}; they go from 1 to {len(texts)}"
    if refers_to_document(fact.fact):
        return "refers_to_document", "it speaks of the text that it comes from"
    cited = set(_NUMBER.findall(" ".join(texts[n - 1] for n in fact.sentences)))
    # Small numbers may stand there as words.
    if any(n not in cited and len(n) > 2 for n in _NUMBER.findall(fact.fact)):
        return "number_not_cited", "it has a number that the sentences it names do not have"
    return None


def facts_of(
    asked: Sequence[Stretch],
    rows: Mapping[str, CallRow],
    settings: BuildSettings,
) -> tuple[list[FactRow], list[FailureRow]]:
    """Return the facts of all stretches that have a reply, in the order of the documents.

    A fact that was found before, in the same words, is not kept again.
    """
    facts: list[FactRow] = []
    failures: list[FailureRow] = []
    seen, taken = set[str](), set[str]()
    for sentences in asked:
        row = rows.get(fact_request(sentences, settings).key)
        if row is None:
            continue
        faults = [*row.rejected, *([row.error] if row.error else [])]
        reply = FactsReply.model_validate(row.reply) if row.reply else FactsReply(facts=[])
        for fact in reply.facts:
            text = " ".join(fact.fact.split())
            places = sorted(set(fact.sentences))
            if text.lower() in seen:
                faults.append(("duplicate_fact", "the same fact was found before"))
                continue
            seen.add(text.lower())
            if not places or not 1 <= places[0] <= places[-1] <= len(sentences):
                continue
            facts.append(fact_row(taken, text, [sentences[n - 1] for n in places]))
        about = [sentence.sentence_id for sentence in sentences]
        document = sentences[0].document
        failures += [FailureRow.of("facts", one, document, *about) for one in faults]
    return facts, failures


# --- questions ---------------------------------------------------------------------------------


def question_request(fact: FactRow, settings: BuildSettings) -> Request:
    """Make the request for the question that a fact answers."""
    prompt, topic, passage = settings.question_prompt, fact.topic, fact.passage
    return Request(
        settings.key(prompt, topic or "", passage, fact.text),
        prompt.fill(fact=fact.text, passage=passage, topic=topic or _NONE),
        partial(_checked_question, passage=passage),
    )


def _checked_question(reply: QuestionReply, *, passage: str) -> Checked:
    question, answer = " ".join(reply.question.split()), " ".join(reply.answer.split())
    fault = question_fault(question, answer) or copy_fault(question, passage)
    if fault is not None:
        return None, (fault,)
    return {"question": question, "answer": answer}, ()


def questions_of(
    facts: Sequence[FactRow],
    rows: Mapping[str, CallRow],
    settings: BuildSettings,
) -> tuple[list[QuestionRow], list[FailureRow]]:
    """Return the questions of all facts that have a reply, in order."""
    questions: list[QuestionRow] = []
    failures: list[FailureRow] = []
    for fact in facts:
        row = rows.get(question_request(fact, settings).key)
        if row is None:
            continue
        if row.reply is None:
            fault = row.error or ("schema_error", "")
            failures.append(FailureRow.of("questions", fault, fact.document, fact.fact_id))
            continue
        reply = QuestionReply.model_validate(row.reply)
        made_by = f"model:{settings.model}"
        questions.append(asked_of(fact, reply.question, reply.answer, made_by=made_by))
    return questions, failures


def asked_of(fact: FactRow, question: str, answer: str, *, made_by: str = "rules") -> QuestionRow:
    """Make the row of a question about a fact."""
    return QuestionRow(
        id=fact.fact_id,
        question=question,
        answer=answer,
        passage=fact.passage,
        source=fact.document,
        topic=fact.topic,
        fact=fact.text,
        citations=fact.citations,
        made_by=made_by,
    )


def one_of_each(questions: Sequence[QuestionRow]) -> tuple[list[QuestionRow], list[FailureRow]]:
    """Return questions that tell their facts apart.

    Of several with the same question and answer the first is kept; where the same
    question has different answers, none of those made here is: it has no right answer.
    """
    answers: dict[str, set[str]] = {}
    for row in questions:
        answers.setdefault(_plain(row.question), set()).add(_plain(row.answer))
    kept: list[QuestionRow] = []
    failures: list[FailureRow] = []
    seen: set[tuple[str, str]] = set()
    for row in questions:
        asked = _plain(row.question), _plain(row.answer)
        if len(answers[asked[0]]) > 1 and row.made_by:
            fault = "ambiguous_question", "the same question has another answer elsewhere"
        elif asked in seen:
            fault = "duplicate_question", "the same question with the same answer was made before"
        else:
            seen.add(asked)
            kept.append(row)
            continue
        failures.append(FailureRow.of("questions", fault, row.source, row.id))
    return kept, failures


def _plain(text: str) -> str:
    return " ".join(text.lower().split()).rstrip(".?!。？！ ")
