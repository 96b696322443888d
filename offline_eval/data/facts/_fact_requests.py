"""Make requests for facts from sentences, and facts from replies."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from ._artefacts import CallRow, FactRow, FailureRow, SentenceRow, Stage
from ._asking import Checked, Fault, Request
from ._requests import BuildPrompts, FactReply, FactsReply, refers_to_document

_MOST_CHARACTERS = 4_000
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_NONE = "(none)"


@dataclass(frozen=True, slots=True)
class Stretch:
    """Sentences that are asked about together.

    Attributes:
        key: of the request: what is asked, how, and of whom.
        document: where they stand.
        sentences: in order; numbered from 1 in the prompt.
    """

    key: str
    document: str
    sentences: tuple[SentenceRow, ...]


def stretches(
    sentences: Iterable[SentenceRow], *, model: str, prompts: BuildPrompts, size: int
) -> list[Stretch]:
    """Sentences that are content, in stretches of one document and heading.

    Args:
        sentences: of all documents, in order.
        model: name of whom is asked.
        prompts: with what.
        size: most sentences in a stretch; long sentences make shorter ones.
    """
    found: list[Stretch] = []
    held: list[SentenceRow] = []

    def close() -> None:
        # A lone heading or a word is no text to find facts in.
        if any(len(row.text.split()) > 3 or len(row.text) > 12 for row in held):
            key = _key(held, model, prompts)
            found.append(Stretch(key, held[0].document, tuple(held)))
        held.clear()

    for row in sentences:
        if row.boilerplate:
            continue
        if held and (
            row.document != held[0].document
            or row.topic != held[0].topic
            or len(held) >= size
            or sum(len(other.text) for other in held) + len(row.text) > _MOST_CHARACTERS
        ):
            close()
        held.append(row)
    close()
    return found


def _key(sentences: Sequence[SentenceRow], model: str, prompts: BuildPrompts) -> str:
    parts = [model, prompts.sha256(prompts.facts), sentences[0].topic or ""]
    parts += [row.text for row in sentences]
    return hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()


def fact_prompt_text(stretch: Stretch, prompts: BuildPrompts) -> str:
    """What the model is asked."""
    numbered = "\n".join(f"[{n}] {row.text}" for n, row in enumerate(stretch.sentences, start=1))
    return prompts.facts.fill(sentences=numbered, topic=stretch.sentences[0].topic or _NONE)


def fact_request(stretch: Stretch, prompts: BuildPrompts) -> Request:
    """The request for the facts of a stretch."""
    texts = [row.text for row in stretch.sentences]
    return Request(stretch.key, fact_prompt_text(stretch, prompts), _checker(texts))


def _checker(texts: Sequence[str]) -> Callable[[FactsReply], Checked]:
    def check(reply: FactsReply) -> Checked:
        good: list[FactReply] = []
        faults: list[Fault] = []
        for number, fact in enumerate(reply.facts, start=1):
            fault = _fault(fact, texts)
            if fault is None:
                good.append(fact)
            else:
                faults.append((fault[0], f"fact {number}: {fault[1]}"))
        return Checked(FactsReply(facts=good).model_dump(), tuple(faults))

    return check


def _fault(fact: FactReply, texts: Sequence[str]) -> Fault | None:
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
    asked: Sequence[Stretch], rows: dict[str, CallRow]
) -> tuple[list[FactRow], list[FailureRow]]:
    """The facts of all stretches that have a reply, in the order of the documents.

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
        about = tuple(sentence.sentence_id for sentence in stretch.sentences)

        def fail(
            fault: Fault, document: str = stretch.document, about: tuple[str, ...] = about
        ) -> None:
            failures.append(
                FailureRow(
                    stage=Stage.FACTS,
                    type=fault[0],
                    detail=fault[1],
                    document=document,
                    about=about,
                )
            )

        for fault in [*row.rejected, *([row.error] if row.error else [])]:
            fail(fault)
        reply = FactsReply.model_validate(row.reply) if row.reply else FactsReply(facts=[])
        for fact in reply.facts:
            text = " ".join(fact.fact.split())
            if text.lower() in seen:
                fail(("duplicate_fact", "the same fact was found before"))
                continue
            seen.add(text.lower())
            places = sorted(set(fact.sentences))
            if max(places) > len(stretch.sentences) or min(places) < 1:
                continue
            cited = [stretch.sentences[n - 1] for n in places]
            facts.append(
                FactRow(
                    fact_id=names.name(stretch.document, text),
                    document=stretch.document,
                    text=text,
                    citations=tuple(sentence.index for sentence in cited),
                    passage=" ".join(sentence.text for sentence in cited),
                    topic=cited[0].topic,
                )
            )
    return facts, failures


class UniqueNames:
    """Ids made of a document and a text, so that they stay when others change."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def name(self, document: str, text: str) -> str:
        """An id that was not given before."""
        found = f"{document}:{hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()[:10]}"
        while found in self._taken:
            found += "'"
        self._taken.add(found)
        return found
