"""Make questions without a model: by rewriting rules, else with a blank to fill in."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from ._checks import (
    answer_in_question,
    lacks_antecedent,
    refers_to_document,
    words_of,
)
from ._rewriting import rewritten, section_facts
from ._rows import FactRow, FailureRow, QuestionRow, SentenceKind, SentenceRow, Stage
from ._sentences import language_of
from ._stages import UniqueNames, asked_of

_SHORTEST, _LONGEST = 6, 45
_SHORTEST_CHINESE, _LONGEST_CHINESE = 10, 120
# What needs the sentence before it.
_LEANS = re.compile(
    r"^[\W_]*(?:it|its|they|their|them|he|she|his|her|he/she|we|us|our|i|my|this|these|that|those|"
    r"such|so|thus|hence|therefore|however|moreover|furthermore|also|then|otherwise|instead|"
    r"and|but|or|nor|yet|because|which|who|both|another|the (?:former|latter|same|above|following)|"
    r"for (?:example|instance)|in (?:addition|this|that|these|such|other words)|as a result|"
    r"on the other hand|after that|if (?:so|not|it|they|this|you do)|e\.g|i\.e|note|see|click|"
    r"read more|please (?:see|refer|click|visit|contact)|refer to|last updated|copyright|"
    r"means?|indicates?|be|should|similar to|failure to|there (?:is|are)|other|including|only|"
    r"alternatively|remember|notice)\b",
    re.IGNORECASE,
)
# A clause without its main clause: "When the car in front turns."
_SUBORDINATE = re.compile(
    r"^(?:when|if|while|before|after|as|unless|until|although|though|because|since|where|within|"
    r"once|on|in|at|for|by|during|to|with|without|under)\b[^,]*$",
    re.IGNORECASE,
)
_POINTS = re.compile(
    r"\b(?:this|these|those|such (?:a|an|as to)|(?:do|does|doing|done) so|like these|the same|"
    r"the latter|the former|mentioned|respectively|shown|illustrated|pictured)\b",
    re.IGNORECASE,
)
_LEANS_CHINESE = re.compile(
    r"^[\W_]*(?:它|他|她|这|那|此|其|该|但是?|所以|因此|因而|然而|而且|并且|此外|另外|同时|否则|例如|比如|如下|请参)"
)
_BOILERPLATE = re.compile(
    r"©|\(c\)\s*\d{4}|all rights reserved|copyright|cookie|privacy policy|terms (?:of|and) |"
    r"click here|subscribe|newsletter|log ?in\b|sign ?up\b|https?://|www\.|@\w+\.|"
    r"\b(?:see|refer to) (?:page|section|table|figure|chapter|appendix|annex|diagram)\b|"
    r"\b(?:overleaf|as follows|the following|the (?:above|below)|this (?:handbook|page|book))\b|"
    r"\b(?:below|above)(?=\s*[.:,;)])|"
    r"版权|隐私|点击|登录|订阅|如下|下图|上图|下表",
    re.IGNORECASE,
)
_VERB = re.compile(
    r"\b(?:is|are|was|were|be|been|has|have|had|must|may|might|can|cannot|could|shall|should|"
    r"will|would|do|does|did|don['’]t|keep|give|use|make|take|stop|drive|turn|slow|check|avoid|"
    r"ensure|allows?|apply|applies|means?|needs?|requires?|contains?|includes?|indicates?|"
    r"becomes?|costs?|opens?|closes?|starts?|ends?|lies|stands?|provides?|consists?|takes?|gives?|runs?|"
    r"\w{3,}(?:ates?|izes?|ises?|ifies)|(?:build|built|found|founded|opened|closed|became|began|"
    r"went|came|won|wrote|held|led|made|took|gave|lived|died|born|moved|started|ended|died))\b",
    re.IGNORECASE,
)
# A heading, or a number of a paragraph, that ran into its sentence.
_RUN_IN = re.compile(
    r"\w\s(?:A|An|The)\s[a-z]|[A-Za-z]\s\d{1,3}\s(?!Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|"
    r"Sep|Oct|Nov|Dec)[A-Z][a-z]"
)
# A heading that its sentence repeats: "Zig-zag lines Zig-zag lines show …".
_SAID_TWICE = re.compile(r"^(?P<head>\S.{5,60}?)\W+(?P=head)\b", re.IGNORECASE)
# Items of a list that ran into one line: "… a. sip drinks, b. read newspapers".
_LIST = re.compile(r"\s\(?[a-h][.)]\s.*\s\(?[b-i][.)]\s")
_BEGINS = re.compile(r"^[\"'“‘(]?(?:[A-Z\d$£€]|[\u3400-\u9fff])")
_ENDS = re.compile(r"[.!。！][\"'”’)）」』]*$")


def askable(row: SentenceRow) -> bool:
    """Whether a sentence says something that can be asked about without the rest.

    So not: a question, a piece of a sentence, one that begins with "it" or "however",
    a pointer to another page, a line about cookies or copyright.
    """
    text = row.text
    if _BOILERPLATE.search(text) or refers_to_document(text) or "____" in text:
        return False
    if row.kind is SentenceKind.TABLE_ROW:
        return text.count("; ") >= 1 and len(text) < 400
    if not _BEGINS.match(text) or not _ENDS.search(text) or text.count("(") != text.count(")"):
        return False
    if language_of(text) == "zh":
        return _SHORTEST_CHINESE <= len(text) <= _LONGEST_CHINESE and not _LEANS_CHINESE.match(text)
    return (
        _SHORTEST <= len(text.split()) <= _LONGEST
        and not _LEANS.match(text)
        and not _SUBORDINATE.match(text)
        and not _POINTS.search(text)
        and not _RUN_IN.search(text)
        and not _SAID_TWICE.search(text)
        and not _LIST.search(text)
        and not lacks_antecedent(text)
        and has_verb(text)
    )


def has_verb(text: str) -> bool:
    """Whether one of the verbs stands there that most sentences have.

    Example:
        >>> has_verb("Brakes become weak."), has_verb("After passing through water, the ____.")
        (True, False)
    """
    return bool(_VERB.search(text))


BLANK = "____"

_MONTH = (
    r"(?:January|February|March|April|May|June|July|August|September|October|November|December|"
    r"Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)\.?"
)
_DATE = re.compile(
    rf"\b\d{{1,2}}(?:st|nd|rd|th)?\s+{_MONTH}(?:\s+\d{{4}})?\b"
    rf"|\b{_MONTH}\s+\d{{1,2}}(?:st|nd|rd|th)?(?:,?\s+\d{{4}})?\b"
    rf"|\b{_MONTH}\s+\d{{4}}\b|\b\d{{4}}-\d{{2}}-\d{{2}}\b|\b\d{{1,2}}[./]\d{{1,2}}[./]\d{{2,4}}\b"
    r"|\d{4}年(?:\d{1,2}月(?:\d{1,2}日)?)?|\d{1,2}月\d{1,2}日"
)
_UNIT = (
    r"(?:%|per ?cent|km/h|kmh|mph|km|kg|cm|mm|ml|m|g|l|seconds?|minutes?|hours?|days?|"
    r"weeks?|months?|years?(?: old)?|dollars?|cents?|metres?|meters?|kilometres?|kilometers?|"
    r"kilograms?|points?|times?|people|persons?|passengers?|million|billion|degrees?|am|pm|"
    r"[ap]\.m\.)"
)
# A comma after a number is not of it.
_NUMBER = r"\d(?:[\d,]*\d)?(?:\.\d+)?"
_QUANTITY = re.compile(
    # "5 to 10 seconds" is one answer: half of it would give away the other.
    rf"(?<![\w.,/#-])(?:{_NUMBER}\s?(?:to|–|-)\s?)?"
    rf"(?:(?:S|US|HK|A)?[$£€¥]\s?{_NUMBER}(?:\s(?:million|billion))?"
    rf"|{_NUMBER}\s?{_UNIT}(?![\w/])|\d[\d,]*\.\d+|\d[\d,]*\d)(?![\w/-])(?!\.\d)"
)
_QUANTITY_CHINESE = re.compile(
    r"\d+(?:\.\d+)?(?:万|亿)?(?:元|米|公里|千米|公斤|岁|天|小时|分钟|秒|年|个月|周|人|次|%|％)"
)
_WORD_NUMBER = re.compile(
    r"\b(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|thirty|fifty|hundred)"
    rf"\s{_UNIT}(?!\w)",
    re.IGNORECASE,
)
_QUOTED = re.compile(r"[“‘「《\"]([^”’」》\"]{2,50})[”’」》\"]")
_NAME = re.compile(
    r"[A-Z][A-Za-z]*(?:['’-]\w+)*(?:(?: of the| of| and| for)? [A-Z][A-Za-z]*(?:['’-]\w+)*){0,5}"
)
_POSSESSIVE = re.compile(r"['’]s?(?!\w)")
_OWNER = re.compile(rf"{_POSSESSIVE.pattern}$")
_PHRASE = re.compile(
    r"\b(?:the|an?|your|its|their|any|each|every)\s+([a-z][a-z-]{2,}(?:\s[a-z][a-z-]+){0,2})"
    r"(?=[.,;:)](?:\s|$)|\s(?P<next>[a-z]+))"
)
_LAST_CHINESE = re.compile(
    r"(?:必须|应当|需要|使用|包括|称为|叫做|位于)([\u3400-\u9fff]{2,12})(?=[。，；！])"
)
_FUNCTION_WORDS = """
    the of and or to in on at by for from with is are was were be must may can should will that
    which who when if as a an than not it they you your has have had been before after while during
    unless until so but into up out off because where there under over through without within
    between behind whose he she him her his its their do does did ahead towards except such all any
    each every other others same about upon around
"""
_FUNCTION = frozenset(_FUNCTION_WORDS.split())
_DULL_WORDS = """
    able order case time times way ways part parts thing things number person people example
    addition general following vicinity same other others due most first second end start side
    possible necessary required manner purpose reason place places kind type types fact idea area
    areas day year use need
"""
_DULL = frozenset(_DULL_WORDS.split())
_NUMBERED_NAME = re.compile(
    r"\b(?:section|rule|part|page|chapter|table|figure|class|item|step|type|level|no\.?|number)s?"
    r"\s*(?:\d\w*(?:\s*(?:,|/|-|and|or|to)\s*|\s+))*$",
    re.IGNORECASE,
)
# "as your vehicle approaches, …": no noun phrase, but the beginning of a clause.
_CLAUSE = re.compile(
    r"\b(?:(?:approach|becom|cross|pass|reach)es?|becomes?|(?:turn|stop|remain|appear|enter|leave|move|"
    r"start|begin|come|change|fail|break|seem|get|want|happen|occur|slow|look)s)\b"
)
_LETTER, _DIGIT = re.compile(r"[^\W\d_]"), re.compile(r"\d")
_HASH = re.compile(r"\b[0-9a-f]{32,}\b")
_FEWEST_WORDS_BESIDE = 8
_SHORT_BEFORE = 60
_SCORES = {"date": 6.0, "quantity": 5.0, "quoted": 4.0, "name": 3.0, "phrase": 1.0}
_RARE_SHARE, _RARE_COUNT = 0.005, 2


@dataclass(frozen=True, slots=True)
class Corpus:
    """What all sentences together say about their words.

    Attributes:
        sentences: how many.
        words: in how many of them each word stands.
        small: words that stand somewhere in small letters: those are no names.
        phrases: in how many sentences each noun phrase stands.
    """

    sentences: int = 0
    words: Counter[str] = field(default_factory=Counter)
    small: frozenset[str] = frozenset()
    phrases: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(cls, texts: Iterable[str]) -> Corpus:
        """The statistics of all sentences."""
        words: Counter[str] = Counter()
        phrases: Counter[str] = Counter()
        small: set[str] = set()
        count = 0
        for text in texts:
            count += 1
            words.update(set(words_of(text)))
            small.update(re.findall(r"\b[a-z]+\b", text))
            phrases.update({text[start:end] for start, end, _ in _phrases(text)})
        return cls(count, words, frozenset(small), phrases)

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
        >>> start, end = best_blank(text, Corpus.of([text]))
        >>> text[start:end]
        '1.6 mm'
    """
    found: list[tuple[float, int, int]] = []
    words = words_of(_POSSESSIVE.sub("", text))
    for kind, start, end in _candidates(text, corpus):
        answer = words_of(_POSSESSIVE.sub("", text[start:end]))
        if all(word in _DULL | _FUNCTION for word in answer) or not _once(answer, words):
            continue
        rarest = min((corpus.words[word] or 1 for word in answer), default=1)
        # Towards the end: what is new usually stands there, and something precedes it.
        found.append((_SCORES[kind] + 1.0 / rarest + 0.2 * start / len(text), -start, end))
    if not found:
        return None
    _, start, end = max(found)
    return -start, end


def last_cell(line: str) -> tuple[int, int] | None:
    """Start and end of the last value of a row of a table, None if that is too long.

    Example:
        >>> line = "Class: 3A; Minimum age: 18 years"
        >>> start, end = last_cell(line)
        >>> line[start:end]
        '18 years'
    """
    start = line.rfind("; ") + 2
    colon = line.find(": ", start)
    if start < 2 or colon < 0:
        return None
    value = line[colon + 2 :]
    fits = _LETTER.search(value) or _DIGIT.search(value)
    if not fits or len(value.split()) > 8 or _HASH.search(value) or not _says_something(line):
        return None
    return colon + 2, len(line)


def _says_something(line: str) -> bool:
    """Whether a row of a table is about something, and more than a row of measurements.

    Example:
        >>> _says_something("Class: 3A; Minimum age: 18 years")
        True
        >>> _says_something("found, open: 48; false alarm, open: .1; false alarm, closed: .9")
        False
    """
    values = [cell.partition(": ")[2] or cell for cell in line.split("; ")]
    numbers = sum(not _LETTER.search(value) for value in values[1:])
    return bool(_LETTER.search(values[0])) and 2 * numbers <= max(2, len(values[1:]))


def _candidates(text: str, corpus: Corpus) -> Iterator[tuple[str, int, int]]:
    taken: list[tuple[int, int]] = []
    for kind, start, end in _found(text, corpus):
        if not any(start < other_end and first < end for first, other_end in taken):
            taken.append((start, end))
            yield kind, start, end


def _found(text: str, corpus: Corpus) -> Iterator[tuple[str, int, int]]:
    for match in _DATE.finditer(text):
        yield "date", *match.span()
    for pattern in (_QUANTITY, _QUANTITY_CHINESE, _WORD_NUMBER):
        for match in pattern.finditer(text):
            if not _NUMBERED_NAME.search(
                text[max(0, match.start() - _SHORT_BEFORE) : match.start()]
            ):
                yield "quantity", *match.span()
    for match in _QUOTED.finditer(text):
        yield "quoted", *match.span(1)
    for match in _NAME.finditer(text):
        if _is_name(text, match, corpus):
            yield "name", match.start(), match.start() + len(_OWNER.sub("", match.group()))
    for start, end, closed in _phrases(text):
        parts = text[start:end].split()
        known = len(parts) > 1 and corpus.phrases[text[start:end]] > 1
        if (
            (closed or known)
            and any(corpus.is_rare(word) for word in parts)
            and _tells_enough(text[:start] + text[end:], parts)
        ):
            yield "phrase", start, end
    for match in _LAST_CHINESE.finditer(text):
        yield "phrase", *match.span(1)


def _phrases(text: str) -> Iterator[tuple[int, int, bool]]:
    """What may be noun phrases; and whether punctuation ends them, a good sign."""
    for match in _PHRASE.finditer(text):
        parts = match.group(1).split()
        while parts and not parts[0]:
            parts.pop(0)
        cut = next((n for n, word in enumerate(parts) if word in _FUNCTION), len(parts))
        closed = cut == len(parts) and match["next"] is None
        bounded = closed or cut < len(parts) or match["next"] in _FUNCTION
        phrase = parts[:cut]
        if phrase and bounded and not phrase[-1].endswith(("ly", "ing", "ed")):
            start = match.start(1)
            yield start, start + len(" ".join(phrase)), closed


def _tells_enough(rest: str, parts: list[str]) -> bool:
    """Whether so much is left beside a phrase that not just anything fits."""
    return (
        not _CLAUSE.search(" ".join(parts[1:]))
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
# Of shorter rows, such as "extra: eval; for: …", a scorer cannot tell what they ask.
_FEWEST_WORDS_IN_ROW = 8


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
    names = UniqueNames()
    sections = list(section_facts(sentences, names))
    facts, questions = [fact for fact, _ in sections], [asked for _, asked in sections]
    failures: list[FailureRow] = []
    seen: set[str] = set()
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
            detail = "no number, date, name or phrase that stands there once"
            fault = "nothing_to_blank", detail
            failures.append(FailureRow.of(Stage.QUESTIONS, fault, row.document, fact.fact_id))
            continue
        questions.append(asked_of(fact, *made))
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
        made = rewritten(row.text, corpus.small)
        if made is not None:
            return made
    table = row.kind is SentenceKind.TABLE_ROW
    found = last_cell(row.text) if table else best_blank(row.text, corpus)
    if found is None:
        return None
    start, end = found
    answer = row.text[start:end]
    left = f"{row.text[:start]}{BLANK}{row.text[end:]}"
    fewest = _FEWEST_WORDS_IN_ROW if table else _FEWEST_WORDS_LEFT
    if len(words_of(left)) < fewest or answer_in_question(left, answer):
        return None
    return _ASKED.get(language_of(row.text), _ASKED["en"]).format(text=left), answer
