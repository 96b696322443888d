"""Find sentences that name the subject of the question and tell nothing about it.

"Details on refunds are available on request" matches a question about refunds, and so do headings,
tickets, rows of changelogs and tables of contents. A sentence that holds a good part of the
question's words is judged by its other words: where they are those of announcements, references
and forms, it counts as a repetition of the question. A small logistic model over single words
does that. It was fitted on sentences of real answers and on templates (`tools/sufficiency/`), and
is set so that few of the former are taken for mentions.

What is promised: any text is accepted; the result depends on the two texts alone. What is not: a
sentence that makes a false statement, or names another entity in a whole sentence of its own, tells
something by its words, and is not found.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

from pydantic import TypeAdapter

from ...language import listed, word_list
from ...model_files import require_files

# "snake_case" is two words, as it is for the encoder; so are longer names in camel case.
WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")
_CAMEL = re.compile(r"\b[^\W_]*(?:[a-z][A-Z][^\W_]*?){2,}\b")
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")


def without_camel_case(text: str) -> str:
    """The text with names of three words and more in camel case as words.

    Example:
        >>> without_camel_case("RefundForPlans by PayPal")
        'Refund For Plans by PayPal'
    """
    return _CAMEL.sub(lambda found: _HUMP.sub(" ", found.group()), text)


PRONOUNS = {"i": "you", "we": "you", "one": "you", "my": "your", "our": "your", "me": "you"}


WH, AUXILIARY = listed("questions", "asking"), listed("questions", "auxiliaries")
ASIDE = WH | AUXILIARY | listed("questions", "aside")


MENTIONS_FILE = Path(__file__).parent / "data" / "mentions.json"
MENTIONS_SHA256 = "3c8a0962b7503bd6db4b4ef967fe364c619fe97773cf977b534f8b2bb0b16556"
Span = tuple[int, int]

# Sentences, lines, cells of tables, tags, fields of JSON, and headings before a colon.
_END = re.compile(
    r"[.!]+[\"')\]]*(?=\s+[^a-z\s]|\s*$)|(?<=[a-z0-9])\.(?=[A-Z])|\?+[\"')\]]*|\n+|\||<[^>]{0,200}>"
    r"|:(?=\s)|\"\s*[:,}\]]"
)
# A colon ends a segment only before a text of so many words: "Price: 19 euros" is one statement.
_LONG = 12
_SUFFIXES = (
    "ations", "ation", "ments", "ment", "ions", "ion", "ings", "ing", "ers", "er", "ies", "ied",
    "ed", "es", "s", "ly",
)  # fmt: skip
NAME = re.compile(
    r"\b(?:[A-Z][A-Z0-9]+|[A-Za-z]+\d\w*|\d[\d.,]*|[a-z]+[A-Z]\w*)\b|(?<=[a-z,] )[A-Z][a-z]\w+"
)
_ASKS_NUMBER = re.compile(
    r"\bhow (?:much|many|long|often|old|far)\b|\bwhen\b|\b(?:what|which)\b.{0,20}"
    r"\b(?:year|date|time|day|age|number|percentage|rate|amount|limit)\b"
)
NUMBER = re.compile(
    rf"\d.*|(?:{'|'.join(word_list('dates', 'weekdays'))})s?"
    f"|{'|'.join(word_list('dates', 'months') + word_list('numbers', 'counts'))}"
)
_REFERENCES = listed("questions", "references")
_MOST_SEGMENTS = 400
# Share of the question's words from which on a sentence is judged, and from which on its other
# words may be an answer.
COVERED, COVERED_WELL = 0.35, 0.6
# Weight of a new word below which it fills, and their sum from which on something is told.
_FILLING, _FILLS, _TOLD = 0.35, 0.1, 0.5
# A number is likely to answer a question for one.
_NUMBER_COUNTS = 2.0
# "It does not support that" answers; two words of a question stand in many sentences.
_DENIALS = listed("negation", "denials")
_DENIAL_COUNTS = 1.5
_FEW, _FEW_COUNT = 2, 2.0
# Where a question that asks for more than yes or no has its "how".
_OPENING = 8
# Questions about requests and pages are answered in the words of requests and pages.
_OWN_FILLING, _OWN_LEAST = 4.0, 0.2


@dataclass(frozen=True, slots=True)
class MentionModel:
    """What single words say about the sentence they stand in.

    Attributes:
        words: log-odds that the sentence answers, by word.
        new: how much a word tells that is not the question's, in [0, 1], where below 1.
        features: weights of `FEATURES`.
        bias: of the sum.
        threshold: a sentence below it is a mention.
    """

    words: dict[str, float]
    new: dict[str, float]
    features: dict[str, float]
    bias: float
    threshold: float

    def told_by(self, word: str) -> float:
        """How much a word tells that is not the question's, in [0, 1]."""
        known = self.new.get(word, 1.0)
        return max(0.0, (known - _FILLING) / (1.0 - _FILLING))


@lru_cache(maxsize=1)
def bundled_model() -> MentionModel:
    """The bundled model, as `tools.sufficiency.fit_mentions` wrote it.

    Raises:
        ModelFolderError: the file is missing, or its sha256 is not the expected one.
    """
    require_files(MENTIONS_FILE.parent, {MENTIONS_FILE.name: MENTIONS_SHA256})
    return TypeAdapter(MentionModel).validate_json(MENTIONS_FILE.read_bytes())


@dataclass(frozen=True, slots=True)
class Segment:
    """A sentence, line, cell or field of a passage.

    Attributes:
        span: where it stands.
        words: in small letters.
        stems: of the words.
        kinds: its different stems.
        capitals: words that begin with a capital letter, in small letters.
    """

    span: Span
    words: tuple[str, ...]
    stems: tuple[str, ...]
    kinds: frozenset[str]
    capitals: frozenset[str]

    @classmethod
    def of(cls, text: str, span: Span = (0, 0)) -> Segment:
        """Read the words of a text."""
        written = WORD.findall(text)
        words = tuple(map(str.lower, written))
        stems = tuple(map(_stem, words))
        capitals = frozenset(word.lower() for word in written if word[0].isupper())
        return cls(span, words, stems, frozenset(stems), capitals)

    @property
    def asserts(self) -> bool:
        """Whether it is built as a statement: a verb such as "can" after its subject, no "how"."""
        if not self.words or self.words[0] in AUXILIARY:
            return False
        for word in self.words:
            if word in WH or word in ("whether", "if"):
                return False
            if word in AUXILIARY or word == "cannot":
                return True
        return self.words[0] in ("yes", "no")


@dataclass(frozen=True, slots=True)
class AskedWords:
    """What is read of a question.

    Attributes:
        content: stems of the words that say what it is about.
        names: those of names and numbers among them.
        asks_number: whether it asks for a number or a time.
        asks_person: whether it asks who.
        asks_more: whether it asks for more than yes or no.
        filling: share of its words that are those of announcements and forms.
        mean_filling: mean of how little its words tell.
        most_filling: the most of it.
    """

    content: frozenset[str]
    names: frozenset[str]
    asks_number: bool
    asks_person: bool
    asks_more: bool
    filling: float
    mean_filling: float
    most_filling: float


def read_question(text: str, model: MentionModel | None = None) -> AskedWords:
    """Read a question by the model; the bundled one by default."""
    read = Segment.of(text)
    content = frozenset(stem for stem in read.stems if stem not in ASIDE)
    names = {stem for one in NAME.findall(text) for stem in Segment.of(one).stems}
    new = (model or bundled_model()).new
    filling = [
        1.0 - new.get(word, 1.0)
        for word, stem in zip(read.words, read.stems, strict=True)
        if stem in content
    ] or [0.0]
    return AskedWords(
        content=content,
        names=content & names,
        asks_number=_ASKS_NUMBER.search(text.lower()) is not None,
        asks_person=not {"who", "whom", "whose"}.isdisjoint(read.words),
        asks_more=not WH.isdisjoint(read.words[:_OPENING]),
        filling=sum(one > 1.0 - _FILLING for one in filling) / len(filling),
        mean_filling=sum(filling) / len(filling),
        most_filling=max(filling),
    )


asked_words = lru_cache(maxsize=1024)(read_question)


def spans_of(end: re.Pattern[str], text: str) -> list[Span]:
    """Where the parts of a text begin and end that a pattern ends; blank ones left out."""
    ends = [0, *(found.end() for found in end.finditer(text)), len(text)]
    return [(start, end) for start, end in pairwise(ends) if text[start:end].strip()]


def segments_of(text: str) -> tuple[Segment, ...]:
    """The segments of a passage, in their order; at most 400."""
    spans: list[Span] = []
    for start, end in spans_of(_END, text):
        after_colon = spans and text[spans[-1][1] - 1] == ":"
        if after_colon and len(text[start:end].split(maxsplit=_LONG)) < _LONG:
            spans[-1] = (spans[-1][0], end)
        else:
            spans.append((start, end))
    return tuple(Segment.of(text[start:end], (start, end)) for start, end in spans[:_MOST_SEGMENTS])


def mentions(question: str, segments: Iterable[Segment], strictness: float = 0.0) -> list[Segment]:
    """The segments that hold much of the question, and otherwise tell nothing.

    Args:
        question: its text, without accents and the like.
        segments: of a passage.
        strictness: added to the log-odds from which on a sentence tells something; above 0 new
            words alone do not make it tell.

    Example:
        >>> segments = segments_of("Details on plan refunds are on request. We pay them in May.")
        >>> [one.words[0] for one in mentions("When are plan refunds paid?", segments)]
        ['details']
    """
    asked = asked_words(question)
    if not asked.content:
        return []
    segments = list(segments)
    if len(asked.content) > 1 and all(one.kinds <= asked.content | ASIDE for one in segments):
        # Pieces of the question, however short.
        return [one for one in segments if one.kinds & asked.content and not one.asserts]
    fewest = min(2, COVERED * len(asked.content))
    covered = ((one, len(asked.content & one.kinds)) for one in segments)
    return [
        one
        for one, count in covered
        if count >= fewest and _mentions(asked, one, count, strictness)
    ]


def repeats(question: str, segment: Segment) -> bool:
    """Whether the segment is most of the question, in its words, and opens as a question."""
    content = asked_words(question).content
    opens = bool(segment.words) and segment.words[0] in WH | AUXILIARY
    most = len(content & segment.kinds) >= COVERED_WELL * len(content)
    return opens and most and segment.kinds <= content | ASIDE


def _mentions(asked: AskedWords, segment: Segment, covered: int, strictness: float) -> bool:
    share = covered / len(asked.content)
    pairs = zip(segment.words, segment.stems, strict=True)
    others = [(word, stem) for word, stem in pairs if stem not in asked.content]
    new = {stem: word for word, stem in others if stem not in ASIDE}
    if not new:
        many = covered > 1 or (share >= COVERED and len(asked.content) > 1)
        return many and not segment.asserts
    if share < COVERED:
        return False
    model = bundled_model()
    found = log_odds(asked, segment, model)
    least = model.threshold - _OWN_FILLING * max(0.0, asked.filling - _OWN_LEAST)
    if len(asked.content) <= _FEW:
        least -= _FEW_COUNT
    if any(word in _DENIALS for word, _ in others):
        least -= _DENIAL_COUNTS
    if share >= COVERED_WELL and asked.names <= segment.kinds:
        number = _gives_number([word for word, _ in others])
        # A number tells as much as a new word does, unless it is that of a page; so does a name.
        known = segment.capitals if asked.asks_person else frozenset[str]()
        told = [
            _TOLD if word in known or (number and NUMBER.fullmatch(word)) else model.told_by(word)
            for word in new.values()
        ]
        stated = any(stem in ASIDE for _, stem in others)
        if not strictness and stated and min(told) >= _FILLS and sum(told) >= _TOLD:
            return False
        if stated and number and asked.asks_number:
            least -= _NUMBER_COUNTS
    return found < least + strictness


def _gives_number(words: Sequence[str]) -> bool:
    before = ("", *words)
    return any(
        NUMBER.fullmatch(word) and last not in _REFERENCES
        for last, word in zip(before, words, strict=False)
    )


def other_words(asked: AskedWords, segment: Segment) -> list[str]:
    """The words of a segment that are not the question's; one digit for any number."""
    pairs = zip(segment.words, segment.stems, strict=True)
    others = (word for word, stem in pairs if stem not in asked.content)
    return ["7" if word.isdigit() else word for word in others]


def features_of(
    asked: AskedWords, segment: Segment, others: Sequence[str], model: MentionModel
) -> dict[str, float]:
    """What weighs besides the other words, by name; each in [0, 1] but for the first."""
    covered = len(asked.content & segment.kinds)
    return {
        "unknown_words": float(sum(word not in model.words for word in others)),
        "few_asked": min(1.0, 3.0 / max(1, len(asked.content))),
        "covered": min(1.0, covered / 8.0),
        "covered_share": covered / max(1, len(asked.content)),
        "asserts": float(segment.asserts),
        "name_missing": float(not asked.names <= segment.kinds),
        "length": min(1.0, len(segment.words) / 40.0),
        "mean_filling": asked.mean_filling,
        "most_filling": asked.most_filling,
    }


def log_odds(asked: AskedWords, segment: Segment, model: MentionModel) -> float:
    """Log-odds that a segment with much of the question tells something about it."""
    others = other_words(asked, segment)
    known = sum(model.words.get(word, 0.0) for word in others)
    features = features_of(asked, segment, others, model)
    return model.bias + known + sum(model.features[name] * v for name, v in features.items())


@lru_cache(maxsize=50_000)
def _stem(word: str) -> str:
    word = word.replace("’", "'").removesuffix("'s")
    if word in ASIDE:
        return word
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= (3 if len(suffix) > 2 else 2):
            word = word[: -len(suffix)]
            break
    return word.rstrip("eyi") if len(word) > 2 else word
