"""Training passages that name what a question asks and do not answer it.

Headings, tickets, notices, sister products and the like, of the templates in `mentions.txt` and
`frames.txt`, of which every fifth is left for evaluation. Templates with a place for a passage,
`{p}`, are frames: around an answering passage, it still suffices, so that a frame is no sign by
itself.

The slots of a template: `{t}` the topic, `{T}` with capitals, `{c}` the question as a clause, `{s}`
as a statement, `{q}` as it is, `{k}` its key words, `{w}` and `{w2}` one of them, `{h1}` and `{h2}`
its halves, `{snake}`, `{kebab}` and `{slash}` as an identifier; `{o}` a sentence about a
neighbouring subject; `{n}`, `{n2}`, `{d}`, `{y}`, `{name}`, `{mail}` and `{url}` numbers, a date, a
year, and who.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

from tools.attack.mentions import clause_of, content_words, statement_of, topic_of

TEMPLATES = [
    line.replace("\\n", "\n")
    for name in ("mentions.txt", "frames.txt")
    for line in Path(__file__).with_name(name).read_text(encoding="utf-8").splitlines()
]
TRAINED = [one for number, one in enumerate(TEMPLATES) if number % 5]
LEFT = TEMPLATES[::5]
_YES_OR_NO = re.compile(
    r"(?i)(?:is|are|was|were|do|does|did|can|could|will|would|should|has|have|had|may|must)\b"
)
# What may answer such a question.
_CLAIMS = re.compile(r"(?i)\{s\}|\{h1\}|\byes\b|\bno\b|\btrue\b|\bfalse\b")
_PEOPLE = (
    "A. Meyer", "J. Okafor", "the Records Office", "Priya N.", "Customer Care", "M. Svensson",
    "the secretariat", "L. Tan", "Support Team 2", "Dr. Alvarez", "the editorial board", "Kim",
)  # fmt: skip
_MONTHS = ("Jan", "February", "March", "Apr", "May", "June", "July", "Aug", "September", "Oct")
_NUMBER = re.compile(r"\b\d[\d.,]*\b")
_NAME = re.compile(r"\b[A-Z][\w&.-]+(?: [A-Z][\w&.-]+)*")
_SENTENCE = re.compile(r"(?<=[.!?])\s+")


def names_of(question: str) -> list[str]:
    """Names in a question: words with capitals that do not open it."""
    found = [one.group() for one in _NAME.finditer(question) if one.start() > 0]
    return [one for one in found if len(one) > 2]


class NothingTold:
    """Makes such passages.

    Args:
        names: that stand in questions, from which others are drawn.
        words: of passages, likewise.
        rng: what draws.
        templates: that are filled.
    """

    def __init__(
        self,
        names: Sequence[str],
        words: Sequence[str],
        rng: Random,
        templates: Sequence[str] = TRAINED,
    ) -> None:
        self._names, self._words, self._rng = names, words, rng
        self._mentions_of = {
            asked: [
                one for one in templates if "{p}" not in one and not (asked and _CLAIMS.search(one))
            ]
            for asked in (False, True)
        }
        self._frames = [one for one in templates if "{p}" in one]

    def passage(self, question: str, others: Sequence[str]) -> str:
        """A passage that does not answer the question.

        Args:
            question: that is asked.
            others: passages that do not answer it either.
        """
        made = self._rng.choice(self._WAYS)
        return " ".join(made(self, question, others).split(" ")[:110])

    def beside(self, question: str, passage: str, others: Sequence[str] = ()) -> str:
        """A passage in a frame, or with such text beside it.

        Args:
            question: that is asked.
            passage: that answers it, or does not; what is made is as good.
            others: passages that do not answer it.
        """
        rng = self._rng
        way = rng.random()
        if way < 0.5 and self._frames:
            return self._fill(rng.choice(self._frames), question, others, passage)
        if way < 0.7:
            return f"{rng.choice((topic_of(question), question))}\n{passage}"
        mention = self._mention(question, others)
        return f"{mention} {passage}" if rng.random() < 0.5 else f"{passage} {mention}"

    def swapped(self, question: str, passage: str, others: Sequence[str] = ()) -> str | None:
        """An answering passage about another name or number than the one that is asked about.

        None where the passage names none of the question's. The other name is one of `others`,
        passages about neighbouring subjects, where they hold one.
        """
        rng = self._rng
        found = [one for one in names_of(question) if one in passage]
        numbers = [
            one for one in _NUMBER.findall(question) if re.search(rf"\b{re.escape(one)}\b", passage)
        ]
        if numbers and rng.random() < 0.6:
            return re.sub(rf"\b{re.escape(numbers[0])}\b", self._other_number(numbers[0]), passage)
        if not found:
            return None
        near = [name for text in others for name in names_of(text) if name not in passage]
        return passage.replace(rng.choice(found), rng.choice(near or self._names))

    def _topic(self, question: str) -> str:
        rng = self._rng
        way = rng.random()
        if way < 0.5:
            words = content_words(question)[:8]
            if len(words) > 3 and rng.random() < 0.4:
                words.pop(rng.randrange(len(words)))
            if rng.random() < 0.15:
                rng.shuffle(words)
            return " ".join(words) or question
        if way < 0.8:
            return clause_of(question)
        return statement_of(question).rstrip(".") if way < 0.95 else question

    def _mention(self, question: str, others: Sequence[str]) -> str:
        asked = _YES_OR_NO.match(question.strip()) is not None
        written = self._fill(self._rng.choice(self._mentions_of[asked]), question, others)
        return written[:1].upper() + written[1:] if self._rng.random() < 0.6 else written

    def _fill(self, template: str, question: str, others: Sequence[str], passage: str = "") -> str:
        rng, topic = self._rng, self._topic(question)
        words = re.findall(r"\w+", question)
        content = content_words(question) or words or ["it"]
        half = len(words) // 2
        other = rng.choice(others) if others else " ".join(rng.choices(self._words, k=12)) + "."
        return template.format_map(
            {
                "t": topic,
                "T": topic.title(),
                "c": clause_of(question),
                "s": statement_of(question).rstrip("."),
                "q": question,
                "k": ", ".join(content),
                "w": rng.choice(content),
                "w2": rng.choice(content),
                "h1": " ".join(words[:half]),
                "h2": " ".join(words[half:]),
                "p": passage,
                "o": rng.choice(_SENTENCE.split(other)),
                "n": rng.randrange(2, 400),
                "n2": rng.randrange(2, 60),
                "d": f"{rng.randrange(1, 29)} {rng.choice(_MONTHS)} {rng.randrange(1995, 2027)}",
                "y": rng.randrange(1960, 2027),
                "name": rng.choice(_PEOPLE),
                "mail": f"{rng.choice(content).lower()}@example.org",
                "url": f"https://example.org/{'-'.join(content[:3]).lower()}",
                "snake": "_".join(words).lower(),
                "kebab": "-".join(words).lower(),
                "slash": "/".join(words).lower(),
            }
        )

    def _mentions(self, question: str, others: Sequence[str]) -> str:
        return " ".join(self._mention(question, others) for _ in range(self._rng.randint(2, 3)))

    def _around(self, question: str, others: Sequence[str]) -> str:
        if not others:
            return self._mentions(question, others)
        return self.beside(question, self._rng.choice(others), others)

    def _statement(self, question: str, others: Sequence[str]) -> str:
        """The question's words as a statement, one of them exchanged."""
        rng, text = self._rng, statement_of(question)
        if _YES_OR_NO.match(question.strip()):
            return self._mention(question, others)
        numbers, names = _NUMBER.findall(text), [one for one in names_of(question) if one in text]
        if numbers and rng.random() < 0.7:
            text = text.replace(numbers[0], self._other_number(numbers[0]))
        elif names:
            text = text.replace(rng.choice(names), rng.choice(self._names))
        elif rng.random() < 0.7 and (words := content_words(text)):
            text = text.replace(rng.choice(words), rng.choice(self._words), 1)
        if rng.random() < 0.3 and others:
            sentence = rng.choice(_SENTENCE.split(rng.choice(others)))
            return f"{text} {sentence}"
        return text

    def _filled(self, question: str, others: Sequence[str]) -> str:
        """The question's words among others."""
        rng, every = self._rng, self._rng.randint(2, 4)
        words = content_words(question) or question.split()
        source = (rng.choice(others) if others else " ".join(self._words[:200])).split()
        start = rng.randrange(max(1, len(source) - 40))
        filler = iter(source[start : start + len(words) * every] or ["so"])
        found: list[str] = []
        for word in words:
            found += [next(filler, "and") for _ in range(every - 1)]
            found.append(word)
        return " ".join(found)

    def _part(self, question: str, others: Sequence[str]) -> str:
        """A piece of the question, with a neighbour."""
        words = question.split()
        cut = max(1, len(words) * self._rng.randint(3, 8) // 10)
        piece = " ".join(words[:cut] if self._rng.random() < 0.5 else words[-cut:])
        return f"{piece} {self._rng.choice(others)}" if others else piece

    def _other_number(self, number: str) -> str:
        digits = re.sub(r"\D", "", number) or "1"
        return str(max(1, int(digits[:9]) + self._rng.choice((-7, -3, -2, 2, 4, 9))))

    _WAYS: tuple[Callable[[NothingTold, str, Sequence[str]], str], ...] = (
        _mention,
        _mention,
        _mentions,
        _around,
        _around,
        _around,
        _statement,
        _statement,
        _filled,
        _part,
    )
