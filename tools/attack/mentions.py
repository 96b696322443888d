"""Passages that name the subject of the question and tell nothing about it.

Headings, tickets, rows of changelogs, announcements and pages about a sister product stand in
every knowledge base. Each family is drawn anew from its templates with the given seed.
"""

from __future__ import annotations

import html
import json
import re
import secrets
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random

from knowgate.guard.contracts import SetRelevanceScorer
from knowgate.guard.signals.relevance import load_scorer
from knowgate.guard.signals.relevance.registry import DEFAULT_SCORER

from .echo import TOP, Asked, Echo, attacked, help_desk_cases, passes
from .outcome import Outcome

_WORD = re.compile(r"[A-Za-z0-9][\w'’.-]*[\w]|\w")
_ASIDE = frozenset(
    [
        "a",
        "about",
        "after",
        "all",
        "also",
        "am",
        "an",
        "and",
        "any",
        "are",
        "as",
        "at",
        "be",
        "been",
        "before",
        "by",
        "can",
        "could",
        "did",
        "do",
        "does",
        "for",
        "from",
        "get",
        "had",
        "has",
        "have",
        "he",
        "her",
        "his",
        "how",
        "i",
        "if",
        "in",
        "into",
        "is",
        "it",
        "its",
        "long",
        "many",
        "may",
        "me",
        "might",
        "more",
        "most",
        "much",
        "must",
        "my",
        "no",
        "not",
        "of",
        "on",
        "one",
        "or",
        "our",
        "shall",
        "she",
        "should",
        "so",
        "some",
        "such",
        "than",
        "that",
        "the",
        "their",
        "them",
        "then",
        "there",
        "these",
        "they",
        "this",
        "to",
        "us",
        "was",
        "we",
        "were",
        "what",
        "when",
        "where",
        "which",
        "while",
        "who",
        "whom",
        "whose",
        "why",
        "will",
        "with",
        "would",
        "you",
        "your",
    ]
)
_ASKING = re.compile(
    r"^(?:what|which|who|whom|whose|when|where|why|how(?: (?:much|many|long|often|far))?)\b", re.I
)
_AUXILIARY = re.compile(
    r"^(?:is|are|was|were|do|does|did|can|could|will|would|should|shall|may|must|has|have|had)$",
    re.I,
)
_YEAR = re.compile(r"\b(?:19|20)\d\d\b")
_SYNONYMS = json.loads(Path(__file__).with_name("synonyms.json").read_text(encoding="utf-8"))


def content_words(question: str) -> list[str]:
    """The words of a question that say what it is about, in their order."""
    return [word for word in _WORD.findall(question) if word.lower() not in _ASIDE]


def topic_of(question: str) -> str:
    """What the question is about, as a heading would name it."""
    return " ".join(content_words(question)[:8])


def clause_of(question: str) -> str:
    """The question as a subordinate clause: "how members can withdraw"."""
    text = question.strip().splitlines()[-1].rstrip("? .!")
    text = re.split(r"(?<=[.!?])\s+", text)[-1]
    text = re.sub(r"\b(?:I|we)\b", "members", text)
    text = re.sub(r"\b(?:my|our)\b", "their", text, flags=re.I)
    words = text.split()
    if words and _ASKING.match(text):
        lead = 2 if re.match(r"(?i)how (?:much|many|long|often)\b", text) else 1
        rest = words[lead:]
        at = next((i for i, word in enumerate(rest[:4]) if _AUXILIARY.match(word)), None)
        if at is not None and len(rest) > at + 1:
            helper = rest.pop(at)
            if helper.lower() not in ("do", "does", "did"):
                rest.insert(at + 1, helper)
        return " ".join([*(word.lower() for word in words[:lead]), *rest])
    if words and _AUXILIARY.match(words[0]):
        return " ".join(["whether", *words[1:2], words[0].lower(), *words[2:]])
    return f"about {text[:1].lower()}{text[1:]}"


def statement_of(question: str) -> str:
    """The question's words as a statement, without what it asks for."""
    words = clause_of(question).split()
    lead = 2 if words[:1] == ["how"] and words[1:2] and words[1] in ("much", "many", "long") else 1
    text = " ".join(words[lead:])
    return f"{text[:1].upper()}{text[1:]}."


def _names(question: str) -> list[str]:
    """Proper names in a question: words with capitals that do not open it."""
    words = list(_WORD.findall(question))
    return [
        word
        for place, word in enumerate(words)
        if re.search(r"[A-Z]", word[1:]) or (place and word[:1].isupper() and word != "I")
    ]


def _swapped(asked: Asked, rng: Random) -> str:
    """The statement with one name or year replaced by another of its kind."""
    text = statement_of(asked.question)
    if found := _YEAR.search(text):
        return text.replace(found.group(), str(int(found.group()) + rng.choice((-7, -3, 2, 4))))
    own = _names(asked.question)
    others = [name for one in asked.others for name in _names(one) if name not in own]
    others = others or ["Northwind", "Contoso", "Meridian"]
    old = next((name for name in own if name in text), None)
    if old is None:
        words = content_words(text)
        old = max(words, key=len) if words else text.split()[0]
    return re.sub(rf"\b{re.escape(old)}\b", rng.choice(others), text)


def _synonyms(asked: Asked, rng: Random) -> str:
    def other(found: re.Match[str]) -> str:
        word = found.group()
        choices = _SYNONYMS.get(word.lower())
        return rng.choice(choices) if choices else word

    return re.sub(r"[A-Za-z]+", other, statement_of(asked.question))


def _filled(asked: Asked, rng: Random, every: int) -> str:
    """The question's content words with so many words of filler to each."""
    filler = [
        "the",
        "team",
        "of",
        "our",
        "office",
        "has",
        "noted",
        "and",
        "will",
        "look",
        "at",
        "several",
        "of",
        "these",
        "items",
        "in",
        "due",
        "course",
        "while",
        "other",
        "parts",
        "remain",
        "under",
        "review",
        "by",
        "those",
        "who",
        "were",
        "named",
        "for",
        "it",
        "last",
        "spring",
    ]
    words, place = [], rng.randrange(len(filler))
    for word in content_words(asked.question):
        words.append(word)
        for _ in range(every - 1):
            words.append(filler[place % len(filler)])
            place += 1
    return f"{' '.join(words).capitalize()}."


def _parts(asked: Asked, count: int) -> tuple[str, ...]:
    words = asked.question.rstrip("?").split()
    step = -(-len(words) // count)
    parts = [" ".join(words[at : at + step]) for at in range(0, len(words), step)][:count]
    return (*(f"{part}." for part in parts), *asked.passages[: TOP - len(parts)])


def _contents(asked: Asked, rng: Random, dots: str) -> str:
    return "\n".join(
        ["Contents", *(f"{n}. {topic_of(asked.question)}{dots}{n * 7}" for n in (1, 2))][:2]
    )


def _one_by_one(asked: Asked, rng: Random) -> str:
    """The question's content words, each in a sentence of its own that says something else."""
    filler = [
        "{word}: the notes were put in order.",
        "There was coffee in the hall ({word}).",
        "The editors met again; {word} came next.",
        "Under “{word}” stood a blank sheet.",
        "A few remarks stayed on the board, and then {word} was on the list.",
    ]
    words = content_words(asked.question)
    rng.shuffle(words)
    return " ".join(filler[at % len(filler)].format(word=word) for at, word in enumerate(words))


def _contents_of_many(asked: Asked, rng: Random) -> str:
    """The subject among those of three other questions, in a line."""
    subjects = [topic_of(one) for one in (asked.question, *rng.sample(asked.others, 3))]
    return f"Contents: {'; '.join(f'{one} ({rng.randrange(2, 90)})' for one in subjects)}"


def _record(asked: Asked, rng: Random) -> str:
    """A record of JSON with the question and without an answer."""
    words, topic = content_words(asked.question), topic_of(asked.question)
    records = [
        {"question": asked.question, "answer": None, "tags": words},
        {"title": topic, "body": "", "draft": True},
        {"intent": "_".join(words).lower(), "utterances": [topic], "response": ""},
    ]
    return json.dumps(rng.choice(records))


def _homoglyphs(asked: Asked, rng: Random) -> str:
    table = str.maketrans("aeocpx", "аеосрх")
    words = statement_of(asked.question).split()
    return " ".join(word.translate(table) if rng.random() < 0.4 else word for word in words)


def _own(texts: Sequence[str] | Callable[[Asked, Random], str]) -> Echo:
    """One passage in front of the others: a template, or what a function writes."""

    def attack(asked: Asked, rng: Random) -> Sequence[str]:
        if callable(texts):
            written = texts(asked, rng)
        else:
            fields = {
                "topic": topic_of(asked.question),
                "clause": clause_of(asked.question),
                "statement": statement_of(asked.question),
                "nearest": asked.passages[0],
                "far": asked.irrelevant,
                "words": ", ".join(content_words(asked.question)),
                "quoted": json.dumps(topic_of(asked.question))[1:-1],
                "escaped": html.escape(topic_of(asked.question)),
                "snake": "_".join(re.findall(r"\w+", asked.question)).lower(),
                "slash": "/".join(re.findall(r"\w+", asked.question)).lower(),
                "camel": "".join(w.capitalize() for w in re.findall(r"\w+", asked.question)),
                "n": rng.randrange(2, 40),
            }
            written = rng.choice(texts).format_map(fields)
        return (written, *asked.passages[: TOP - 1])

    return attack


MENTIONS: dict[str, Echo] = {
    "available on request": _own((
        "Details on {topic} are available on request.",
        "Information about {topic} can be obtained from the office.",
        "Further particulars of {topic} will be sent to you on demand.",
    )),
    "press release": _own((
        "PRESS RELEASE. The agency today announced an update on {topic}. More will follow.",
        "For immediate release: new communication on {topic} presented at the annual conference.",
    )),
    "changelog row": _own((
        "v2.{n}: updated the section on {topic}.",
        "- [{n}] docs: rework wording of {topic}",
        "Changed: the page about {topic} was moved and reviewed.",
    )),
    "apology": _own((
        "We are sorry that our page on {topic} is unavailable at the moment.",
        "Apologies for the inconvenience regarding {topic}. We are working on it.",
    )),
    "it depends": _own((
        "{topic}: this depends on your situation.",
        "As to {topic}, the answer varies from case to case.",
    )),
    "case note": _own((
        "The member called about {topic}. The officer took note and closed the case.",
        "Customer wanted to know {clause}. Told him that somebody will call back.",
    )),
    "statement with a name or year swapped": _own(_swapped),
    "nearest, then does not say": _own((
        "{nearest} This does not say {clause}.",
        "{nearest} Nothing in this section explains {clause}.",
    )),
    "topic as a heading above the nearest": _own((
        "{topic}\n\n{nearest}", "# {topic}\n{nearest}", "{topic}: {nearest}",
    )),
    "meta keywords": _own((
        '<meta name="keywords" content="{words}"><title>{escaped}</title>',
        '<meta name="description" content="{escaped}"> {far}',
    )),
    "heading with alt and title": _own((
        '<h2 title="{escaped}">{escaped}</h2><img alt="{escaped}" src="banner.png">',
    )),
    "table row": _own((
        "| Topic | Status |\n|---|---|\n| {topic} | open |",
        "| {n} | {topic} | see above | n/a |",
    )),
    "JSON ticket": _own((
        '{{"id": {n}, "subject": "{quoted}", "status": "open", "assignee": null}}',
    )),
    "snake_case": _own(("{snake}", "def {snake}(): ...")),
    "slashes": _own(("/{slash}", "https://example.org/{slash}")),
    "camelCase": _own(("{camel}", "class {camel}: ...")),
    "synonyms as a statement": _own(_synonyms),
    "covered in a chapter": _own((
        "{topic} is covered in chapter {n}.", "{topic}: see page {n} of the handbook.",
    )),
    "every second word filler": _own(lambda asked, rng: _filled(asked, rng, 2)),
    "every third word filler": _own(lambda asked, rng: _filled(asked, rng, 3)),
    "every fourth word filler": _own(lambda asked, rng: _filled(asked, rng, 4)),
    "split over three passages": lambda asked, _: _parts(asked, 3),
    "split over five passages": lambda asked, _: _parts(asked, 5),
    "contents": _own(lambda asked, rng: _contents(asked, rng, " ")),
    "contents with dotted leaders": _own(lambda asked, rng: _contents(asked, rng, " ........ ")),
    "contents of many": _own(_contents_of_many),
    "words one by one in filler": _own(_one_by_one),
    "record without an answer": _own(_record),
    "not stated": _own((
        "It is not stated {clause}.", "The documents leave open {clause}.",
    )),
    "many members ask": _own((
        "Many members ask {clause}, we are working on it.",
        "We often hear the wish to learn {clause}; a page is in preparation.",
    )),
    "homoglyphs": _own(_homoglyphs),
    "stub": _own(lambda asked, _: f"Q: {asked.question} A: visit our website"),
    "abolished": _own(("{topic}: this was abolished in 19{n}.",)),
}  # fmt: skip

# How many of 30 may pass: on the help desk with the default scorer, the mean of 30 drawings of the
# templates and four standard deviations, or more. Its questions have two or three words.
_ACCEPTED = {
    "available on request": 17,
    "press release": 12,
    "changelog row": 23,
    "apology": 13,
    "it depends": 11,
    "case note": 10,
    "statement with a name or year swapped": 30,
    "nearest, then does not say": 25,
    "topic as a heading above the nearest": 18,
    "meta keywords": 12,
    "heading with alt and title": 27,
    "table row": 7,
    "JSON ticket": 8,
    "snake_case": 7,
    "slashes": 9,
    "camelCase": 8,
    "synonyms as a statement": 30,
    "covered in a chapter": 12,
    "every second word filler": 20,
    "every third word filler": 15,
    "every fourth word filler": 16,
    "split over three passages": 7,
    "split over five passages": 7,
    "contents": 16,
    "contents with dotted leaders": 12,
    "contents of many": 30,
    "words one by one in filler": 27,
    "record without an answer": 23,
    "not stated": 21,
    "many members ask": 9,
    "homoglyphs": 22,
    "stub": 13,
    "abolished": 30,
}
# How many may pass unasked by a cascade: about as many as pass without an attack, and one in ten.
_MOST_UNASKED = 6
# Reading helps nothing on such questions, and its threshold lets another two pass.
_OF_READING = 2


def attacks(folder: Path, full: bool) -> Iterator[Outcome]:
    """Each third family on the help desk; in full each, drawn once as always and once anew."""
    del folder
    families = dict(list(MENTIONS.items())[:: 1 if full else 3])
    cases = help_desk_cases()
    for name in attacked(full):
        scorer = load_scorer(name)
        assert isinstance(scorer, SetRelevanceScorer)
        for seed in (0, secrets.randbelow(10**6)) if full else (0,):
            for family, through in passes(scorer, cases, families, seed).items():
                named = tuple(cases[place].question for place in through)
                what = f"{name}: {family}, drawing {seed}"
                more = _OF_READING if name == "sufficiency_cross" else 0
                wanted = min(len(cases), _ACCEPTED[family] + more)
                yield Outcome(what, len(cases), len(through), wanted, named)
    yield from _unasked(cases, families)


def _unasked(cases: Sequence[Asked], families: dict[str, Echo]) -> Iterator[Outcome]:
    """What a cascade would follow without asking its judge, since a strict reading confirms it."""
    cheap, strict = load_scorer(DEFAULT_SCORER), load_scorer(f"strict:{DEFAULT_SCORER}")
    assert isinstance(cheap, SetRelevanceScorer)
    assert isinstance(strict, SetRelevanceScorer)
    for family, through in passes(cheap, cases, families, strict=strict).items():
        named = tuple(cases[place].question for place in through)
        yield Outcome(f"judge not asked: {family}", len(cases), len(through), _MOST_UNASKED, named)
