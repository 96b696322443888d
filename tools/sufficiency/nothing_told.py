"""Training passages that name what a question asks and do not answer it.

Headings, tickets, notices, sister products and the like, of the templates in `mentions.txt`, of
which every fifth is left for evaluation. Where such text stands beside an answer, the passage
still suffices: a third of the answering passages gets some, so that it is no sign by itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

from tools.attack.mentions import clause_of, content_words, statement_of, topic_of

TEMPLATES = Path(__file__).with_name("mentions.txt").read_text(encoding="utf-8").splitlines()
TRAINED = [one for number, one in enumerate(TEMPLATES) if number % 5]
LEFT = TEMPLATES[::5]
_NUMBER = re.compile(r"\b\d[\d.,]*\b")
_NAME = re.compile(r"\b[A-Z][\w&.-]+(?: [A-Z][\w&.-]+)*")
_SENTENCE = re.compile(r"(?<=[.!?])\s+")
_FORMS = (
    '{{"id": {n}, "subject": "{t}", "status": "open"}}',
    '<h2 title="{t}">{t}</h2>',
    '<meta name="description" content="{t}">',
    "| {n} | {t} | open |",
    "- [ ] {t}",
    "{snake}",
    "/{slash}",
    "## {t}",
    "{t}?",
    "{q}",
    "Q: {q}",
    "{q} A: see our website.",
)


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
        self._templates = templates

    def passage(self, question: str, others: Sequence[str]) -> str:
        """A passage that does not answer the question.

        Args:
            question: that is asked.
            others: passages that do not answer it either.
        """
        made = self._rng.choice(self._WAYS)
        return " ".join(made(self, question, others).split(" ")[:110])

    def beside(self, question: str, passage: str) -> str:
        """An answering passage with such text beside it."""
        rng = self._rng
        if rng.random() < 0.4:
            return f"{rng.choice((topic_of(question), question))}\n{passage}"
        mention = self._mention(question, ())
        return f"{mention} {passage}" if rng.random() < 0.5 else f"{passage} {mention}"

    def swapped(self, question: str, passage: str) -> str | None:
        """An answering passage about another name or number than the one that is asked about.

        None where the passage names none of the question's.
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
        return passage.replace(rng.choice(found), rng.choice(self._names))

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
        rng, topic = self._rng, self._topic(question)
        if rng.random() < 0.75:
            written = rng.choice(self._templates).replace("{t}", topic)
            return written[:1].upper() + written[1:] if rng.random() < 0.7 else written
        words = re.findall(r"\w+", question)
        fields = {
            "t": topic,
            "q": question,
            "n": rng.randrange(2, 400),
            "snake": "_".join(words).lower(),
            "slash": "/".join(words).lower(),
        }
        return rng.choice(_FORMS).format_map(fields)

    def _mentions(self, question: str, others: Sequence[str]) -> str:
        return " ".join(self._mention(question, others) for _ in range(self._rng.randint(2, 3)))

    def _around(self, question: str, others: Sequence[str]) -> str:
        if not others:
            return self._mentions(question, others)
        other, mention = self._rng.choice(others), self._mention(question, others)
        if self._rng.random() < 0.3:
            mention = self._topic(question)
            return f"{mention}\n{other}"
        return f"{mention} {other}" if self._rng.random() < 0.5 else f"{other} {mention}"

    def _statement(self, question: str, others: Sequence[str]) -> str:
        """The question's words as a statement, one of them exchanged."""
        rng, text = self._rng, statement_of(question)
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
