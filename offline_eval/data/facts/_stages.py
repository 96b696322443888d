"""What a model is asked for facts and for questions, how, and what becomes of its replies."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, NamedTuple

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.runnables import Runnable
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from ....adapters.langchain import GuardedAnswer
from ....guard.errors import KnowgateError
from ....guard.text import clean_text
from ._checks import COPIED, copy_fault, question_fault, refers_to_document
from ._rows import CallRow, FactRow, FailureRow, Fault, QuestionRow, SentenceRow, Stage
from ._settings import BuildSettings

_DECODER = json.JSONDecoder()
_LONGEST_SHOWN = 20
# A talkative reply may have braces before its object, but not many.
_MOST_BRACES = 8
_WIDE = re.compile(r"[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef]")


class ReplyFaultError(KnowgateError):
    """A reply cannot be used as it is; the model is told and asked again."""


class Checked(NamedTuple):
    """A reply after its checks.

    Attributes:
        reply: what of it is good, ready for JSON; None if nothing is.
        faults: of the rest, in words for the model.
    """

    reply: dict[str, Any] | None
    faults: tuple[Fault, ...] = ()

    @property
    def worth(self) -> tuple[bool, int]:
        """The greater, the better is the reply."""
        return self.reply is not None, -len(self.faults)


@dataclass
class Request:
    """One thing to ask for, with what its attempts have come to so far.

    Attributes:
        key: what it is stored under.
        prompt: filled.
        check: finds what is wrong with an object of the right shape.
    """

    key: str
    prompt: str
    check: Callable[[Any], Checked]
    best: Checked | None = None
    last: Checked | None = None
    last_text: str = ""
    repairs: int = 0
    cost: Counter[str] = field(default_factory=Counter)

    def row(self, error: Exception | None = None) -> dict[str, Any]:
        """Return what is stored of it: the best reply, or why there is none."""
        best = self.best or Checked(None)
        fault: Fault | None = None
        if best.reply is None:
            # What a reply lacked says more than that asking for a better one failed.
            name = type(error).__name__ if error is not None else "no reply"
            fault = best.faults[0] if best.faults else ("provider_error", name)
        rejected = best.faults if best.reply is not None else ()
        row = {"key": self.key, "reply": best.reply, "rejected": rejected, "error": fault}
        return CallRow.model_validate({**row, **self.cost}).model_dump(mode="json")


class SchemaAsker:
    """Asks for objects of one schema.

    Structured output is used where the model has it; any other model, or one that
    answers in text all the same, has the JSON read out of its text.

    Args:
        model: a chat model, or any runnable that takes messages.
        schema: of the reply.
        settings: the words for JSON and for repairing a reply, and how often a reply is sent back.
    """

    def __init__(
        self, model: Runnable[Any, Any], schema: type[BaseModel], settings: BuildSettings
    ) -> None:
        self._schema, self._settings = schema, settings
        self._schema_text = json.dumps(schema.model_json_schema(), ensure_ascii=False)
        found = _structured(model, schema)
        self._in_text = found is None
        self._model = model if found is None else found

    async def __call__(self, request: Request) -> Mapping[str, Any]:
        """Return the stored form of a good reply, or of the best one when repairs are used up.

        Raises:
            ReplyFaultError: the reply was no good, and may be sent back once more.
            Exception: whatever the model raises.
        """
        messages = self._messages(request)
        request.cost["calls"] += 1
        output = await self._model.ainvoke(messages)
        raw, parsed = output, None
        if not self._in_text:
            raw, parsed = output.get("raw"), output.get("parsed")
        text, value = self._opened(raw, parsed)
        self._count(request, messages, raw, text)
        checked = self._checked(request, value)
        request.last, request.last_text = checked, text
        if request.best is None or checked.worth >= request.best.worth:
            request.best = checked
        # One in the passage's words is sent back once.
        copied = all(kind == COPIED for kind, _ in checked.faults)
        most = min(1, self._settings.max_repairs) if copied else self._settings.max_repairs
        if not checked.faults or request.repairs >= most:
            return request.row()
        request.repairs += 1
        raise ReplyFaultError(checked.faults[0][0])

    def _messages(self, request: Request) -> list[BaseMessage]:
        prompt, words = request.prompt, self._settings.prompts
        if self._in_text:
            prompt += "\n\n" + words.as_json.fill(schema=self._schema_text)
        messages: list[BaseMessage] = [HumanMessage(prompt)]
        if request.last is not None and request.last.faults:
            said = "\n".join(f"- {clause}" for _, clause in request.last.faults[:_LONGEST_SHOWN])
            # The last reply alone: a talk that grows would cost more with every turn.
            messages += [
                AIMessage(request.last_text or "(nothing)"),
                HumanMessage(words.repair.fill(faults=said)),
            ]
        return messages

    def _opened(self, raw: Any, parsed: Any) -> tuple[str, Any]:
        """The reply as text, and the object in it; None where there is none."""
        calls = getattr(raw, "tool_calls", None) or ()
        if isinstance(parsed, BaseModel):
            parsed = parsed.model_dump()
        elif parsed is None and calls and not self._in_text:
            parsed = calls[0].get("args")
        if parsed is not None:
            return json.dumps(parsed, ensure_ascii=False, default=str), parsed
        text = GuardedAnswer.text_of(raw)
        return text, json_within(text)

    def _checked(self, request: Request, value: Any) -> Checked:
        if value is None:
            return Checked(None, (("schema_error", "the reply is no JSON object"),))
        try:
            return request.check(self._schema.model_validate(value))
        except ValidationError as error:
            # Without the values: those are the model's own text.
            faults = error.errors(include_url=False, include_input=False)[:_LONGEST_SHOWN]
            words = (
                f"{'.'.join(map(str, one['loc'])) or 'the reply'}: {one['msg']}" for one in faults
            )
            return Checked(None, tuple(("schema_error", one) for one in words))

    def _count(self, request: Request, messages: list[BaseMessage], raw: Any, text: str) -> None:
        usage = getattr(raw, "usage_metadata", None) or {}
        read, written = usage.get("input_tokens"), usage.get("output_tokens")
        if not isinstance(read, int) or not isinstance(written, int):
            # A tool's description is read, too, and paid for.
            tool = 0 if self._in_text else estimated_tokens(self._schema_text)
            read = tool + sum(estimated_tokens(message.text) for message in messages)
            written = estimated_tokens(text)
            request.cost["estimated"] = 1
        request.cost.update(input_tokens=read, output_tokens=written)


def json_within(text: str) -> Any:
    """Return the first JSON object in a text, fenced or bare; None if there is none.

    Example:
        >>> json_within('Sure! {"a": [1, 2]} Anything else?')
        {'a': [1, 2]}
    """
    start = text.find("{")
    for _ in range(_MOST_BRACES):
        if start < 0:
            break
        try:
            return _DECODER.raw_decode(text, start)[0]
        except (ValueError, RecursionError):
            start = text.find("{", start + 1)
    return None


def estimated_tokens(text: str) -> int:
    """Estimate the tokens of a text: four characters each; one for Chinese, Japanese and Korean.

    Example:
        >>> estimated_tokens("A broken white line."), estimated_tokens("交通灯")
        (5, 3)
    """
    wide = len(_WIDE.findall(text))
    return wide + math.ceil((len(text) - wide) / 4)


def _structured(model: Runnable[Any, Any], schema: type[BaseModel]) -> Runnable[Any, Any] | None:
    if not isinstance(model, BaseChatModel):
        return None
    try:
        return model.with_structured_output(schema, include_raw=True)
    except (NotImplementedError, ValueError, TypeError):
        # What LangChain's models raise that have no structured output, or none with the raw reply.
        return None


_MOST_CHARACTERS = 4_000
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_NONE = "(none)"
_Text = Annotated[str, AfterValidator(clean_text)]


class FactReply(BaseModel):
    """One fact, with where it comes from."""

    model_config = ConfigDict(extra="ignore")

    fact: _Text = Field(description="one fact as a whole sentence, understood by itself")
    sentences: list[int] = Field(description="numbers of the sentences that it comes from")


class FactsReply(BaseModel):
    """All facts in the numbered sentences."""

    model_config = ConfigDict(extra="ignore")

    facts: list[FactReply] = Field(description="empty if there is none")


class QuestionReply(BaseModel):
    """A question with its answer."""

    model_config = ConfigDict(extra="ignore")

    question: _Text = Field(description="understood by somebody who has never seen the document")
    answer: _Text = Field(description="short and complete; does not stand in the question")


class UniqueNames:
    """Ids made of a document and a text, so that they stay when others change."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def name(self, document: str, text: str) -> str:
        """Return an id that was not given before."""
        found = f"{document}:{hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()[:10]}"
        while found in self._taken:
            found += "'"
        self._taken.add(found)
        return found

    def fact(self, text: str, cited: Sequence[SentenceRow], *, made_of: str = "") -> FactRow:
        """Make the row of a fact that sentences state; its id is made of its text."""
        return FactRow(
            fact_id=self.name(cited[0].document, made_of or text),
            document=cited[0].document,
            text=text,
            citations=tuple(sentence.index for sentence in cited),
            passage=" ".join(sentence.text for sentence in cited),
            topic=cited[0].topic,
        )


def _key(*parts: str) -> str:
    """What a request is stored under: what is asked, how, and of whom."""
    return hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()


# --- facts -------------------------------------------------------------------------------------


class Stretch(NamedTuple):
    """Sentences that are asked about together.

    Attributes:
        key: of the request.
        document: where they stand.
        sentences: in order; numbered from 1 in the prompt.
    """

    key: str
    document: str
    sentences: tuple[SentenceRow, ...]


def stretches(sentences: Iterable[SentenceRow], settings: BuildSettings) -> list[Stretch]:
    """Group sentences that are content into stretches of one document and heading.

    Long sentences make stretches shorter than the settings allow.
    """
    found: list[Stretch] = []
    held: list[SentenceRow] = []
    prompts = settings.prompts

    def close() -> None:
        # A lone heading or a word is no text to find facts in.
        if any(len(row.text.split()) > 3 or len(row.text) > 12 for row in held):
            texts = (row.text for row in held)
            topic = held[0].topic or ""
            key = _key(settings.model, prompts.sha256(prompts.facts), topic, *texts)
            found.append(Stretch(key, held[0].document, tuple(held)))
        held.clear()

    for row in sentences:
        if row.boilerplate:
            continue
        if held and (
            (row.document, row.topic) != (held[0].document, held[0].topic)
            or len(held) >= settings.sentences_per_call
            or sum(len(other.text) for other in held) + len(row.text) > _MOST_CHARACTERS
        ):
            close()
        held.append(row)
    close()
    return found


def fact_request(stretch: Stretch, settings: BuildSettings) -> Request:
    """Make the request for the facts of a stretch."""
    texts = [row.text for row in stretch.sentences]
    numbered = "\n".join(f"[{number}] {text}" for number, text in enumerate(texts, start=1))
    topic = stretch.sentences[0].topic or _NONE
    prompt = settings.prompts.facts.fill(sentences=numbered, topic=topic)
    return Request(stretch.key, prompt, partial(_checked_facts, texts=texts))


def _checked_facts(reply: FactsReply, *, texts: Sequence[str]) -> Checked:
    found = [(fact, _fact_fault(fact, texts)) for fact in reply.facts]
    good = FactsReply(facts=[fact for fact, fault in found if fault is None])
    faults = tuple(
        (fault[0], f"fact {number}: {fault[1]}")
        for number, (_, fault) in enumerate(found, start=1)
        if fault is not None
    )
    return Checked(good.model_dump(), faults)


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
    asked: Sequence[Stretch], rows: Mapping[str, CallRow]
) -> tuple[list[FactRow], list[FailureRow]]:
    """Return the facts of all stretches that have a reply, in the order of the documents.

    A fact that was found before, in the same words, is not kept again.
    """
    facts: list[FactRow] = []
    failures: list[FailureRow] = []
    seen: set[str] = set()
    names = UniqueNames()
    for stretch in asked:
        row = rows.get(stretch.key)
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
            if not places or not 1 <= places[0] <= places[-1] <= len(stretch.sentences):
                continue
            facts.append(names.fact(text, [stretch.sentences[n - 1] for n in places]))
        about = [sentence.sentence_id for sentence in stretch.sentences]
        failures += [FailureRow.of(Stage.FACTS, one, stretch.document, *about) for one in faults]
    return facts, failures


# --- questions ---------------------------------------------------------------------------------


def question_request(fact: FactRow, settings: BuildSettings) -> Request:
    """Make the request for the question that a fact answers."""
    prompts, topic = settings.prompts, fact.topic
    sha256 = prompts.sha256(prompts.question)
    return Request(
        _key(settings.model, sha256, topic or "", fact.passage, fact.text),
        prompts.question.fill(fact=fact.text, passage=fact.passage, topic=topic or _NONE),
        partial(_checked_question, passage=fact.passage),
    )


def _checked_question(reply: QuestionReply, *, passage: str) -> Checked:
    question, answer = " ".join(reply.question.split()), " ".join(reply.answer.split())
    fault = question_fault(question, answer) or copy_fault(question, passage)
    if fault is not None:
        return Checked(None, (fault,))
    return Checked({"question": question, "answer": answer})


def questions_of(
    facts: Sequence[FactRow], rows: Mapping[str, CallRow], settings: BuildSettings
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
            failures.append(FailureRow.of(Stage.QUESTIONS, fault, fact.document, fact.fact_id))
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


def one_of_each(
    questions: Sequence[QuestionRow],
) -> tuple[list[QuestionRow], list[FailureRow]]:
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
        failures.append(FailureRow.of(Stage.QUESTIONS, fault, row.source, row.id))
    return kept, failures


def _plain(text: str) -> str:
    return " ".join(text.lower().split()).rstrip(".?!。？！ ")
