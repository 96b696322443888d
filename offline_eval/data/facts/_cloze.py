"""Make questions without a model: by rewriting rules, else with a blank to fill in."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from ..rules import Rules
from ._blocks import TextKind
from ._checks import answer_in_question, lacks_antecedent, refers_to_document, words_of
from ._rewriting import rewritten, section_facts
from ._rows import FactRow, FailureRow, QuestionRow, SentenceRow
from ._sentences import language_of
from ._stages import asked_of, fact_row

_SHORTEST, _LONGEST = 6, 45
_SHORTEST_CHINESE, _LONGEST_CHINESE = 10, 120
_RULES = Rules(__file__, "cloze")
_RULE, _WORDS = _RULES.patterns, _RULES.words
BLANK = "____"
# What no English sentence may have that is asked about.
_AMISS = ("leans", "subordinate", "points", "run_in", "said_twice", "list")


def askable(row: SentenceRow) -> bool:
    """Whether a sentence says something that can be asked about without the rest.

    So not: a question, a piece of a sentence, one that begins with "it" or "however",
    a pointer to another page, a line about cookies or copyright.
    """
    text = row.text
    if not all(_RULES.finds(text, name) for name in ("begins", "ends")):
        return False
    if _RULES.finds(text, "boilerplate") or refers_to_document(text) or BLANK in text:
        return False
    if text.count("(") != text.count(")"):
        return False
    if language_of(text) == "zh":
        fits = _SHORTEST_CHINESE <= len(text) <= _LONGEST_CHINESE
        return fits and not _RULES.finds(text, "leans_chinese")
    return (
        _SHORTEST <= len(text.split()) <= _LONGEST
        and not _RULES.finds(text, *_AMISS)
        and not lacks_antecedent(text)
        and has_verb(text)
    )


def has_verb(text: str) -> bool:
    """Whether one of the verbs stands there that most sentences have.

    Example:
        >>> has_verb("Brakes become weak."), has_verb("After passing through water, the ____.")
        (True, False)
    """
    return _RULES.finds(text, "verb")


_FEWEST_WORDS_BESIDE = 8
_SHORT_BEFORE = 60
_SCORES = {"date": 6.0, "quantity": 5.0, "quoted": 4.0, "name": 3.0, "phrase": 1.0}
_RARE_SHARE, _RARE_COUNT = 0.005, 2


class Corpus:
    """What all sentences together say about their words.

    Args:
        texts: of the sentences.

    Attributes:
        sentences: how many.
        words: in how many of them each word stands.
        small: words that stand somewhere in small letters: those are no names.
        phrases: in how many sentences each noun phrase stands.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self.sentences, self.small = 0, set[str]()
        self.words, self.phrases = Counter[str](), Counter[str]()
        for text in texts:
            self.sentences += 1
            self.words.update(set(words_of(text)))
            self.small.update(re.findall(r"\b[a-z]+\b", text))
            self.phrases.update({text[start:end] for start, end, _ in _phrases(text)})

    def is_rare(self, word: str) -> bool:
        """Whether a word stands in few sentences."""
        return self.words[word] <= max(_RARE_COUNT, self.sentences * _RARE_SHARE)


def best_blank(text: str, corpus: Corpus) -> tuple[int, int] | None:
    """Start and end of what is best left out of a sentence, None if nothing is.

    It stands in the sentence once. A phrase of common words is not asked for: too
    many others would fit.

    Args:
        text: of the sentence.
        corpus: of all sentences.

    Example:
        >>> text = "Tyres wear out when their tread is less than 1.6 mm deep."
        >>> start, end = best_blank(text, Corpus([text]))
        >>> text[start:end]
        '1.6 mm'
    """
    found: list[tuple[float, int, int]] = []
    taken: list[tuple[int, int]] = []
    words = words_of(_RULE["possessive"].sub("", text))
    for kind, start, end in _found(text, corpus):
        if any(start < other_end and first < end for first, other_end in taken):
            continue
        taken.append((start, end))
        answer = words_of(_RULE["possessive"].sub("", text[start:end]))
        if _WORDS["dull"] | _WORDS["function"] >= set(answer) or not _once(answer, words):
            continue
        rarest = min((corpus.words[word] or 1 for word in answer), default=1)
        # Towards the end: what is new usually stands there, and something precedes it.
        found.append((_SCORES[kind] + 1.0 / rarest + 0.2 * start / len(text), -start, end))
    if not found:
        return None
    _, start, end = max(found)
    return -start, end


def _found(text: str, corpus: Corpus) -> Iterator[tuple[str, int, int]]:
    for match in _RULE["date"].finditer(text):
        yield "date", *match.span()
    for pattern in (_RULE["quantity"], _RULE["quantity_chinese"], _RULE["word_number"]):
        for match in pattern.finditer(text):
            before = text[max(0, match.start() - _SHORT_BEFORE) : match.start()]
            if not _RULES.finds(before, "numbered_name"):
                yield "quantity", *match.span()
    for match in _RULE["quoted"].finditer(text):
        yield "quoted", *match.span(1)
    for match in _RULE["name"].finditer(text):
        if _is_name(text, match, corpus):
            end = match.start() + len(_RULE["owner"].sub("", match.group()))
            yield "name", match.start(), end
    for start, end, closed in _phrases(text):
        parts = text[start:end].split()
        known = len(parts) > 1 and corpus.phrases[text[start:end]] > 1
        if (
            (closed or known)
            and any(corpus.is_rare(word) for word in parts)
            and _tells_enough(text[:start] + text[end:], parts)
        ):
            yield "phrase", start, end
    for match in _RULE["last_chinese"].finditer(text):
        yield "phrase", *match.span(1)


def _phrases(text: str) -> Iterator[tuple[int, int, bool]]:
    """What may be noun phrases; and whether punctuation ends them, a good sign."""
    for match in _RULE["phrase"].finditer(text):
        parts = match.group(1).split()
        cut = next((n for n, word in enumerate(parts) if word in _WORDS["function"]), len(parts))
        closed = cut == len(parts) and match["next"] is None
        bounded = closed or cut < len(parts) or match["next"] in _WORDS["function"]
        phrase = parts[:cut]
        if phrase and bounded and not phrase[-1].endswith(("ly", "ing", "ed")):
            start = match.start(1)
            yield start, start + len(" ".join(phrase)), closed


def _tells_enough(rest: str, parts: list[str]) -> bool:
    """Whether so much is left beside a phrase that not just anything fits."""
    return (
        not _RULE["clause"].search(" ".join(parts[1:]))
        and len(words_of(rest)) >= _FEWEST_WORDS_BESIDE
        and has_verb(rest)
    )


def _is_name(text: str, match: re.Match[str], corpus: Corpus) -> bool:
    """A run of capitals within a sentence that is not a heading run into it."""
    before = text[: match.start()].rstrip()
    previous = before.split()[-1] if before else ""
    if not previous or not re.match(r"[\"'“‘(]?[a-z]", previous) or before[-1] in ".!?:":
        return False
    if len(before) == match.start() or text[match.end() : match.end() + 1] in ("-", "/", "_"):
        return False
    name = match.group()
    if len(name) < 2 or (name.isupper() and len(name.split()) > 2):
        return False
    # "Plate", "Licence": a common noun in its Sunday best.
    return any(
        part.lower() not in corpus.small or (part.isupper() and len(part) > 1)
        for part in name.split()
        if part[0].isupper()
    ) or (len(name.split()) > 1)


def _once(answer: list[str], words: list[str]) -> bool:
    n = len(answer)
    return sum(words[i : i + n] == answer for i in range(len(words) - n + 1)) == 1


_ASKED = {"en": "Complete from the knowledge base: “{text}”", "zh": "请根据知识库填空：“{text}”"}
_FEWEST_WORDS_LEFT = 5


def cloze_facts(
    sentences: Sequence[SentenceRow],
) -> tuple[list[FactRow], list[QuestionRow], list[FailureRow]]:
    """Facts and questions by rules alone; the same sentences always give the same.

    A heading that names a deed ("Installing from source") asks how to do it, and the
    beginning of its section answers. A sentence that says something by itself is its own
    fact. It becomes a question where it defines something ("X is a Y"), says how something
    is done ("To X, Y") or what holds in some case ("If X, Y"), or else one with a blank for
    its most telling piece: a number, a date, a name, a phrase in quotes, a noun with its
    adjectives. Sentences that lean on their neighbours are passed over.

    Returns:
        The facts; the questions, of which some facts have none; and what failed.
    """
    taken, seen = set[str](), set[str]()
    sections = list(section_facts(sentences, taken))
    facts, questions = [fact for fact, _ in sections], [asked for _, asked in sections]
    failures: list[FailureRow] = []
    corpus = Corpus(row.text for row in sentences if not row.boilerplate)
    for row in sentences:
        if row.boilerplate or row.kind is not TextKind.SENTENCE:
            continue
        plain = " ".join(words_of(row.text))
        if plain in seen or not askable(row):
            continue
        seen.add(plain)
        fact = fact_row(taken, row.text, [row])
        facts.append(fact)
        made = _question(row, corpus)
        if made is None:
            detail = "no number, date, name or phrase that stands there once"
            fault = "nothing_to_blank", detail
            failures.append(FailureRow.of("questions", fault, row.document, fact.fact_id))
            continue
        questions.append(asked_of(fact, *made))
    return facts, questions, failures


def _question(row: SentenceRow, corpus: Corpus) -> tuple[str, str] | None:
    if (made := rewritten(row.text, corpus.small)) is not None:
        return made
    if (found := best_blank(row.text, corpus)) is None:
        return None
    start, end = found
    answer = row.text[start:end]
    left = f"{row.text[:start]}{BLANK}{row.text[end:]}"
    if len(words_of(left)) < _FEWEST_WORDS_LEFT or answer_in_question(left, answer):
        return None
    return _ASKED.get(language_of(row.text), _ASKED["en"]).format(text=left), answer
