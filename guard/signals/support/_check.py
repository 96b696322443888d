"""Check a reply against the passages that it was generated from, sentence by sentence."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from functools import cached_property
from itertools import combinations
from typing import ClassVar

from ...abstention.reading import says_nothing
from ...contracts import EntailmentModel, checked_entailment, probability_of
from ...deadlines import check_deadline
from ...errors import SignalValueError
from ...fingerprint import Fingerprint
from ...language import compiled, listed
from ...text import passage_text
from ..conflict.meaning_rules import flips, read_answer
from .contracts import SentenceSupport, Support
from .reading import (
    BESIDE,
    EMPTY,
    MOST_CHARACTERS,
    SAME_MATTER,
    Item,
    Sentence,
    folded,
    read_sentences,
)

# Support of a sentence with a fact that no passage has is at most this.
_FAULT = 0.2
_NOTHING = frozenset[str]()
# A figure must stand in a sentence that has at least this share of what the best one has.
_NEAR = 0.25
# From this share of equal words on a sentence is a passage's with little changed: what stands
# there in the place of another fact is no other telling of it, although the passage has it, too.
_NEAR_COPY = 0.8
# Words, or Chinese characters.
_LONGEST_NAME, _LONGEST_SENTENCE = 8, 200
_ROUNDED = 0.05
_MOST_SUMMED = 60
_SUMS, _ABOUT = listed("support", "sums"), listed("support", "rounded")
# A reply that adds at most so many words to the question must add them where the passages tell of
# what is asked: a passage sentence has both, measured by the one that tells most of the question.
_SHORT_ANSWER, _BOUND = 4, 0.7
# Names with as many first letters are of one family: Belgian, Belgium.
_OPENING, _SHORT_NAME = 4, 3
_RULE = compiled("support", "check")


class SupportCheck:
    """Measure how far a reply rests on passages, without a model.

    Each sentence is compared with each sentence of the passages, together with those beside it:
    its support is the share of its figures, names and content words that stand there, figures and
    names counting twice; or nine tenths of the share that stands in all passages together. It is
    at most .2 where a fact has no source:

    - a number, amount, date or weekday that no sentence on the matter has (number words, units,
      dates and Chinese numerals are compared in one form), unless it is a sum or difference of
      two that are there and the sentence says so, or the figures differ by rounding and the
      sentence says "about";
    - a name that stands neither in the passages nor in the question;
    - a quotation, command, option or file name that no passage has word for word;
    - a negation or an opposite against the passage sentence that says the same otherwise;
    - a name or figure in the place of another one in a passage sentence that else reads the same,
      although a passage has it elsewhere;
    - a short answer that stands in no passage sentence which also tells of what is asked.

    Sentences that say nothing (greetings, abstentions, questions, pointers to a source) are not
    judged. With an entailment model, a sentence without such a fault has the mean of its support
    and of the probability that its passage entails it.

    Args:
        entailment: an entailment model or a detector of hallucinations, such as
            `CrossEncoderEntailment`; None for none.

    Raises:
        InputError: `entailment` has no `entails`.

    Example:
        >>> check = SupportCheck()
        >>> passages = ["Claims are paid within five days. Call us on weekdays."]
        >>> check.check("Claims are paid within 5 days.", passages).value
        1.0
        >>> check.check("Claims are paid within 6 days.", passages).sentences[0].missing
        ('number 6 day',)
    """

    VERSION: ClassVar = 2

    def __init__(self, entailment: EntailmentModel | None = None) -> None:
        self._entailment = checked_entailment(entailment, "entailment")

    @property
    def fingerprint(self) -> Fingerprint:
        """What a threshold for this check is bound to."""
        model = self._entailment
        name = None if model is None else str(getattr(model, "fingerprint", type(model).__name__))
        return Fingerprint(
            kind="support", backend="python", settings={"version": self.VERSION, "entailment": name}
        )

    def check(self, reply: str, passages: Sequence[object], question: str = "") -> Support:
        """Return the support of a reply, sentence by sentence.

        Args:
            reply: as generated.
            passages: texts or documents that the reply was generated from.
            question: what was asked; names in it need no passage.

        Raises:
            SignalValueError: the reply is too long, or the entailment model returned no usable
                number.
        """
        if len(reply) > MOST_CHARACTERS:
            raise SignalValueError("support", f"the reply has over {MOST_CHARACTERS:,} characters")
        sources = _Sources(tuple(passage_text(passage) for passage in passages), question)
        return Support.of([self._judged(one, sources) for one in read_sentences(reply)])

    def _judged(self, sentence: Sentence, sources: _Sources) -> SentenceSupport:
        check_deadline()
        nothing = SentenceSupport(sentence.start, sentence.end, None)
        items = sentence.items
        best, share, passage = sources.carrier(items)
        if _claims_nothing(sentence, share):
            return nothing
        missing = tuple(_faults(sentence, sources, best))
        support = max(share, BESIDE * sources.share(items)) if items else 1.0
        if missing:
            support = min(support, _FAULT)
        elif self._entailment is not None and sources.texts:
            told = sources.texts[passage]
            entailed = probability_of(self._entailment, told, sentence.text, signal="support")
            support = (support + entailed) / 2.0
        found = replace(nothing, support=support, missing=missing)
        if best is None or share <= 0.0:
            return found
        return replace(found, passage=passage, passage_start=best.start, passage_end=best.end)


@dataclass(frozen=True)
class _Sources:
    """The passages of one reply, read once.

    Attributes:
        texts: of the passages.
        question: what was asked.
    """

    texts: tuple[str, ...]
    question: str

    @cached_property
    def sentences(self) -> list[Sentence]:
        """The sentences of all passages."""
        return [one for sentences in self.told for one in sentences]

    @cached_property
    def told(self) -> list[tuple[Sentence, ...]]:
        """The sentences of each passage."""
        return list(map(read_sentences, self.texts))

    @cached_property
    def everything(self) -> frozenset[str]:
        """What all passages tell."""
        return frozenset().union(*(one.own for one in self.sentences))

    @cached_property
    def names(self) -> list[str]:
        """Words of the passages that are long enough to share a name's opening."""
        return [word for word in self.everything if len(word) >= _OPENING]

    @cached_property
    def proper(self) -> frozenset[str]:
        """Names in the passages that open no sentence there."""
        items = (item for one in self.sentences for item in one.items)
        return frozenset(item.text for item in items if item.kind == "name")

    @cached_property
    def asked_items(self) -> list[Item]:
        """What the question names."""
        return [item for one in read_sentences(self.question) for item in one.items]

    @cached_property
    def asked(self) -> frozenset[str]:
        """The same as it is compared."""
        return frozenset(item.text for item in self.asked_items)

    @cached_property
    def about_question(self) -> list[tuple[Sentence, float]]:
        """Each sentence of the passages with the share that it has of the question."""
        return [(one, one.share(self.asked_items)) for one in self.sentences]

    @cached_property
    def quotable(self) -> str:
        """All passages and the question, as quotations are compared."""
        return "\n".join(map(folded, (*self.texts, self.question)))

    def carrier(self, items: Sequence[Item]) -> tuple[Sentence | None, float, int]:
        """The sentence that has most of the items, the largest share, and its passage's index.

        The first of equal ones; what stands next to it counts half here, so that the sentence
        itself is found and not a neighbour of it.
        """
        best, most, largest, place = None, 0.0, 0.0, 0
        for index, sentences in enumerate(self.told):
            for one in sentences:
                own, beside = one.shares(items)
                largest = max(largest, own + BESIDE * beside)
                if own + beside / 2 > most:
                    best, most, place = one, own + beside / 2, index
        return best, largest, place

    def share(self, items: Sequence[Item]) -> float:
        """The share of the items that stands in any passage."""
        total = math.fsum(item.weight for item in items)
        here = math.fsum(item.weight for item in items if item.text in self.everything)
        return here / total if total else 0.0


def _claims_nothing(sentence: Sentence, share: float) -> bool:
    """Whether there is nothing to judge: polite words, headings, pointers, abstentions.

    What mostly stands in a passage says something.

    Args:
        sentence: of the reply.
        share: of it in the passage sentence that has most of it.
    """
    text = sentence.text
    if not (sentence.items or sentence.quotes) or _RULE["filler"].fullmatch(text):
        return True
    if share >= SAME_MATTER:
        return False
    has_figures = any(item.kind == "number" for item in sentence.items)
    leads_on = not has_figures and _RULE["leads_on"].search(text)
    return bool(leads_on or _RULE["points"].search(text)) or says_nothing(text)


def _faults(sentence: Sentence, sources: _Sources, best: Sentence | None) -> Iterator[str]:
    """What no passage bears out, named."""
    near: list[Sentence] = []
    if any(item.kind == "number" for item in sentence.items):
        near = _near([item for item in sentence.items if item.kind != "number"], sources)
    told = False
    for item in sentence.items:
        if item.kind == "number" and not _has_number(item, sentence, near, sources):
            told = True
            yield f"number {item.shown}" + (f" {item.unit}" if item.unit else "")
        elif item.kind == "name" and not _has_name(item, sources):
            told = True
            yield f"name {item.shown}"
    for quote in sentence.quotes:
        if quote not in sources.quotable:
            yield f"quotation {quote}"
    if best is not None and best.says_most_of(sentence) and sentence.says_most_of(best):
        flipped = flips(sentence.reading, best.reading) % 2
        if flipped and _denies(sentence.text, best.text):
            yield "negation"
        if not told:
            yield from _replaced(sentence, best, sources)
    if not _is_told_of_what_is_asked(sentence, sources):
        yield "answer beside the question"


def _is_told_of_what_is_asked(sentence: Sentence, sources: _Sources) -> bool:
    added = [item for item in sentence.items if item.text not in sources.asked]
    if not sources.asked_items or not 0 < len(added) <= _SHORT_ANSWER:
        return True
    # In other words than the passage's a whole sentence may say the same.
    if len(sentence.items) > _SHORT_ANSWER and all(item.kind == "word" for item in added):
        return True
    most = max((share for _, share in sources.about_question), default=0.0)
    # Or a passage sentence is the answer and nothing else, as where passages are answers.
    names = {item.text for item in added}
    return most == 0.0 or any(
        one.share(added) * share >= _BOUND * most or _NOTHING < one.own - sources.asked <= names
        for one, share in sources.about_question
    )


def _denies(reply: str, told: str) -> bool:
    """Whether one denies what the other says, idioms aside."""
    one, other = (
        read_answer(_RULE["non"].sub("not ", _RULE["idioms"].sub("", text)))
        for text in (reply, told)
    )
    return bool(flips(one, other) % 2)


def _replaced(sentence: Sentence, told: Sentence, sources: _Sources) -> Iterator[str]:
    """Names and figures in the place of others, where two sentences else read the same."""
    mine, theirs = sentence.stems, told.stems
    if max(len(mine), len(theirs)) > _LONGEST_SENTENCE:
        # No sentence; aligning it would take long.
        return
    facts, others = sentence.facts, told.facts
    near = told.own | told.beside
    words = sentence.reading.words
    added = set(sentence.reading.content) - set(told.reading.content)
    matcher = SequenceMatcher(None, mine, theirs, autojunk=False)
    for kind, start, end, low, high in matcher.get_opcodes():
        if kind != "replace" or max(end - start, high - low) > _LONGEST_NAME:
            continue
        # What opens a sentence has a capital letter in any case.
        if (start, end, high - low) == (0, 1, 1) and theirs[low] in sources.proper:
            if words[0].capital and words[0].text not in EMPTY and mine[0] not in near:
                yield f"{sentence.reading.shown(words[0])} in another's place"
            continue
        here = [place for place in range(start, end) if place in facts]
        there = [place for place in range(low, high) if place in others]
        kinds = {facts[here[0]], others[there[0]]} if here and there else {"none"}
        if len(kinds - {"character"}) > 1 or "none" in kinds:
            continue
        shown = sentence.reading.shown(words[here[0]], words[here[-1]])
        put = {mine[place] for place in here}
        is_number = kinds == {"number"}
        if is_number and all(_is_computed(_value(one), added, sources.sentences) for one in put):
            continue
        if put <= near:
            if matcher.ratio() < _NEAR_COPY:
                continue
            once = put <= told.own and all(mine.count(one) <= theirs.count(one) for one in put)
            if once or _stands_so(sentence, (start, end), kinds, sources):
                continue
        elif _is_told(shown, told.text):
            continue
        yield f"{shown} in another's place"


def _is_told(shown: str, text: str) -> bool:
    here = folded(shown)
    there = folded(text)
    return f" {here} " in f" {there} " if here.isascii() else here in there


def _stands_so(
    sentence: Sentence, span: tuple[int, int], kinds: set[str], sources: _Sources
) -> bool:
    """Whether a passage sentence on the same matter has these words beside the same ones.

    A figure between the same two words, a name beside one of them that is no function word.
    """
    put, beside = sentence.stems[slice(*span)], _around(sentence.stems, *span)
    rest = [item for item in sentence.items if item.text not in put]
    for told in sources.sentences:
        others = told.stems
        for place in range(len(others) - len(put) + 1):
            if others[place : place + len(put)] != put:
                continue
            there = _around(others, place, place + len(put))
            same = [one for one, other in zip(beside, there, strict=True) if one == other]
            alike = len(same) == 2 or (
                "number" not in kinds and any(one and one not in EMPTY for one in same)
            )
            if alike and told.shares(rest)[0] >= SAME_MATTER:
                return True
    return False


def _around(stems: Sequence[str], start: int, end: int) -> tuple[str, str]:
    """The words before and after these; empty at the ends of the sentence."""
    before = stems[start - 1] if start else ""
    return before, stems[end] if end < len(stems) else ""


def _near(items: Sequence[Item], sources: _Sources) -> list[Sentence]:
    """The sentences that are about what these items are about."""
    shares = [(one.share(items), one) for one in sources.sentences]
    most = max((share for share, _ in shares), default=0.0)
    return [one for share, one in shares if share >= _NEAR * most]


def _has_name(item: Item, sources: _Sources) -> bool:
    if len(item.text) < _SHORT_NAME or item.text in sources.everything:
        return True
    opening = item.text[: max(_OPENING, len(item.text) - 3)]
    return item.text in sources.asked or any(word.startswith(opening) for word in sources.names)


def _has_number(
    item: Item, sentence: Sentence, near: Sequence[Sentence], sources: _Sources
) -> bool:
    if item.text in sources.asked and item.text not in sources.everything:
        # It repeats the question.
        return True
    told = (one.units[item.text] for one in near if item.text in one.units)
    if any(not item.unit or item.unit in units or units == {""} for units in told):
        return True
    return _is_computed(_value(item.text), set(sentence.reading.content), near)


def _is_computed(value: float | None, words: set[str], near: Sequence[Sentence]) -> bool:
    """Whether a figure is one of these rounded, or a sum or difference, and the words say so."""
    if value is None or not words & (_ABOUT | _SUMS):
        return False
    numbers = [_value(text) for told in near for text in told.units]
    values = sorted({one for one in numbers if one is not None})[:_MOST_SUMMED]
    if words & _ABOUT and any(abs(value - one) <= _ROUNDED * abs(one) for one in values if one):
        return True
    return bool(words & _SUMS) and any(
        math.isclose(value, one + other) or math.isclose(value, abs(one - other))
        for one, other in combinations(values, 2)
    )


def _value(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
