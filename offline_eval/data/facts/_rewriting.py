"""Questions by rewriting rules: what a sentence defines, enables, is for, or says of a case."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from itertools import takewhile

from ._checks import question_fault
from ._rows import FactRow, QuestionRow, SentenceKind, SentenceRow
from ._stages import UniqueNames, asked_of

_SUBJECT = (
    r"(?P<subject>(?:(?:The|An?|Your)\s)?[A-Z0-9(\"“‘][^,;:]{2,70}?|(?:The|An?)\s[^,;:]{2,70}?)"
)
_NOT_IN_SUBJECT = re.compile(
    r"\b(?:that|which|who|if|when|where|while|there|it|this|these|they|must|may|should|can|will|could|would|might|"
    r"is|are|was|were|has|have|if|after|before|to|not|one|some|all|many|most|each|every|only|"
    r"above|as|because|below|both|either|here|instead|since|such|thus)\b",
    re.IGNORECASE,
)
# "The first argument", "a common example": of what, was said before; or it is an opinion.
_VAGUE = re.compile(
    r"^the\s(?:answer|best|default|easiest|first|following|fourth|highest|idea|key|last|latter|"
    r"lowest|main|name|next|only|other|point|problem|reason|result|same|second|simplest|third)\b"
    r"|^(?:an?\s)?(?:\w+\s){0,3}(?:alternative|approach|example|exception|feature|option|part|reason|"
    r"solution|thing|way|workaround)s?\b",
    re.IGNORECASE,
)
_TELLS_NOTHING = re.compile(
    r"^(?:and|but|especially|or|otherwise|refer|see|such)\b|\b(?:each|that|which)$"
    r"|\b(?:below|example|following|here|the (?:key|one|ones|same))\b",
    re.IGNORECASE,
)
_CALLED = re.compile(
    rf"^{_SUBJECT}\s(?P<verb>is|are)\s(?:also\s)?(?P<how>called|known as)\s"
    r"(?P<answer>(?!(?:after|as|at|automatically|before|by|for|from|if|in|on|once|to|when|with)\b)"
    r"[^,;:()]+)\.$"
)
_MEANS = re.compile(rf"^{_SUBJECT}\s(?P<verb>means?)\s(?P<that>that\s)?(?P<answer>[^;:]+)\.$")
_INDICATES = re.compile(
    rf"^{_SUBJECT}\s(?P<verb>indicates?|signifies|signify|denotes?)\s(?P<that>that\s)?"
    r"(?P<answer>[^;:]+)\.$"
)
_DEFINED = re.compile(
    rf"^{_SUBJECT}\s(?P<verb>is|are|was|were)\s(?P<answer>(?:the|an?)\s[^;:]+)\.$"
)
_USED = re.compile(rf"^{_SUBJECT}\s(?P<verb>is|are)\sused\s(?P<answer>(?:to|for)\s[^;:]+)\.$")
_CHINESE_IS = re.compile(
    r"^(?P<subject>(?![它他她这那此其该])[\u3400-\u9fffA-Za-z0-9]{2,16}?)(?:就)?(?<![不也都还只仅便])是"
    r"(?P<answer>[^，；：。]{2,40})。$"
)
# "The white lines": which ones was said before.
_POINTS = re.compile(r"^The(?:\s[a-z-]+){1,2}$")
# "Smoke and noise are a nuisance" tells what is thought of them, not what they are.
_SEVERAL = re.compile(r"\band\b")
_BASE = {"signifies": "signify"}
_LONGEST_ANSWER = 30
_NOT_A_VERB = (
    r"(?!(?:an?|achieve|all|any|be|begin|clarify|conclude|date|do|each|every|find|fix|have|his|"
    r"illustrate|its|make|many|me|most|much|my|our|others|put|some|start|summarize|that|the|their|these|this|those|us|"
    r"what|which|you|your)\b)"
)
_DEED = rf"(?P<deed>{_NOT_A_VERB}[a-z]{{3,}}\s[^,;:?()]{{4,80}}?)"
# How to do something, by what stands where its means are told: (pattern, question word).
_WAYS = (
    re.compile(
        rf"^To\s{_DEED},\s(?P<answer>(?:you\s(?:can|could|may|must|need|should)\s)?[^;:]+)\.$"
    ),
    re.compile(
        rf"^(?P<answer>(?:Call|Choose|Click|Enter|Press|Run|Select|Set|Use)\s[^,;:]{{3,80}}?)\sto\s"
        rf"{_DEED}\.$"
    ),
    re.compile(
        rf"^You\scan\s(?:also\s)?{_DEED}\s(?P<answer>(?:by\s\w+ing|through|using|via)\s"
        r"(?:an?|the|your)\s[^,;:]+)\.$"
    ),
    re.compile(
        r"^(?P<answer>(?:The\s)?[A-Z](?:(?!\b(?:that|which)\b)[^,;:]){2,60}?)\s(?:allows?|enables?|lets?)\s(?:you|users?)\s"
        rf"(?:to\s)?{_DEED}\.$"
    ),
)
# A sentence that ran into another, or one that lost its end.
_BROKEN = re.compile(
    r"\b(?:are|can|has|have|is|may|must|should|was|will)\b|\s-\s"
    r"|\b(?:and|by|for|from|of|or|with|without)$"
)
_CASE = re.compile(r"^If\s(?P<case>[^,;:?()]{10,90}),\s(?:then\s)?(?P<answer>[^;:]{15,})\.$")
# What was said before, or is only said to go on from there.
_LEANS = re.compile(
    r"\b(?:above|again|also|below|desired|do (?:so|that|this)|example|following|here|instead|"
    r"necessary|needed|not|one|ones|other|others|possible|so|such|that|them|this|tutorial|want|"
    r"wish|like|prefer)\b",
    re.IGNORECASE,
)


def rewritten(sentence: str, small: Collection[str] = ()) -> tuple[str, str] | None:
    """A question that a sentence answers, and the answer; None where no rule fits.

    Args:
        sentence: whole, with its full stop.
        small: words that stand somewhere in small letters, so are no names.

    Example:
        >>> rewritten("A broken white line indicates the centre of a two-way road.")
        ('What does a broken white line indicate?', 'the centre of a two-way road')
        >>> rewritten("To rename a file, press F2.")
        ('How do I rename a file?', 'press F2')
        >>> rewritten("Keep left.") is None
        True
    """
    if found := _CHINESE_IS.match(sentence):
        if "的是" in found.group(0):
            return None
        return f"{found['subject']}是什么？", found["answer"]
    for made in (_defined(sentence, small), _way(sentence), _case(sentence)):
        if made is not None and question_fault(*made) is None:
            return made
    return None


def _defined(sentence: str, small: Collection[str]) -> tuple[str, str] | None:
    """What something is, means, is called or is used for."""
    for pattern in (_CALLED, _USED, _MEANS, _INDICATES, _DEFINED):
        found = pattern.match(sentence)
        if found is None or _unfit(found["subject"]):
            continue
        pointing = pattern in (_MEANS, _INDICATES) and _POINTS.match(found["subject"])
        if pointing or (pattern in (_DEFINED, _USED) and _SEVERAL.search(found["subject"])):
            continue
        subject, verb = _lowered(found["subject"], small), found["verb"]
        answer = found["answer"].strip()
        if not answer or len(answer.split()) > _LONGEST_ANSWER or _TELLS_NOTHING.search(answer):
            continue
        if pattern is _CALLED:
            return f"What {verb} {subject} {found['how']}?", answer
        if pattern is _USED:
            return f"What {verb} {subject} used for?", answer
        if pattern is _DEFINED:
            return f"What {verb} {subject}?", answer
        helper = "does" if verb.endswith("s") else "do"
        base = _BASE.get(verb) or verb.removesuffix("s")
        return f"What {helper} {subject} {base}?", answer
    return None


def _way(sentence: str) -> tuple[str, str] | None:
    """How something is done."""
    for pattern in _WAYS:
        found = pattern.match(sentence)
        if found is None or _LEANS.search(found["deed"]) or _BROKEN.search(found["deed"]):
            continue
        if _TELLS_NOTHING.search(found["answer"]):
            continue
        if len(found["deed"].split()) >= 2 and len(found["answer"].split()) <= _LONGEST_ANSWER:
            return f"How do I {as_asked(found['deed'])}?", found["answer"]
    return None


def _case(sentence: str) -> tuple[str, str] | None:
    """What holds, or is to be done, in some case."""
    found = _CASE.match(sentence)
    if found is None or _LEANS.search(found["case"]) or len(found["case"].split()) < 3:
        return None
    if len(found["answer"].split()) > _LONGEST_ANSWER or _TELLS_NOTHING.search(found["answer"]):
        return None
    return f"What if {as_asked(found['case'])}?", found["answer"]


_SPOKEN = (
    (re.compile(r"\byou are\b"), "I am"),
    (re.compile(r"\byou were\b"), "I was"),
    (re.compile(r"\byou(['’])re\b"), r"I\1m"),
    (re.compile(r"\byourself\b"), "myself"),
    (re.compile(r"\byour\b"), "my"),
    (
        re.compile(r"\b((?:allow|ask|give|help|let|show)s?|for|from|of|to|with) you\b"),
        r"\1 me",
    ),
    (re.compile(r"\byou(?=$|[.?!])"), "me"),
    (re.compile(r"\byou\b"), "I"),
)


def as_asked(text: str) -> str:
    """Words that speak to the reader, as the reader would say them.

    Example:
        >>> as_asked("you lose your key"), as_asked("install it for you")
        ('I lose my key', 'install it for me')
    """
    for pattern, spoken in _SPOKEN:
        text = pattern.sub(spoken, text)
    return text


def _unfit(subject: str) -> bool:
    """A subject that is a clause, or that only means something where it stands."""
    return (
        bool(_NOT_IN_SUBJECT.search(subject) or _VAGUE.search(subject))
        or len(subject.split()) > 9
        or subject.split(maxsplit=1)[0].endswith("ing")
    )


def _lowered(subject: str, small: Collection[str]) -> str:
    first, space, rest = subject.partition(" ")
    # Of a name the capital stays; one that stands nowhere in small letters may be one.
    if first in ("The", "A", "An", "Your") or first.lower() in small:
        return f"{first.lower()}{space}{rest}"
    return subject


_NUMBERING = re.compile(
    r"^(?:(?:chapter|appendix|part|step)\s)?(?:\d+|[A-Z])(?:\.\d+)*[.:)]\s+", re.I
)
_ANCHOR = re.compile(r"\s*[¶#]+$")
_DEED_NAMES = """
    access activate add adjust allow apply archive assign attach avoid back backup block browse
    build burn calibrate cancel change check choose clean clear close compare compile compress
    configure connect contribute convert copy create customize cut debug define delete deploy
    disable disconnect display download drag edit eject enable encrypt export extend extract find
    fix format generate get handle hide import improve increase insert install join keep launch
    limit link list load lock log make manage mark migrate modify mount move open organize override
    pair paste pause play post prepare preview prevent print protect publish read recover redirect
    reduce register reinstall remove rename repair replace report request reset resize restart
    restore restrict retrieve return reuse rotate run save scan schedule search secure select send
    serve set share show sign simulate skip sort specify start stop store stream submit switch sync
    synchronize tag take test transfer translate troubleshoot turn uninstall unlink unlock unmount
    update upgrade upload use validate verify view visit watch write
"""
_DEEDS = frozenset(_DEED_NAMES.split())
# Nouns, too: "Archive formats" tells of formats.
_NOUN_NAMES = """
    access archive back backup block build burn cancel change check copy cut debug display download
    drag edit export find format handle import increase install join launch limit link list load
    lock log make mark mount move open paste pause play post print protect read record report
    request reset restart restore return run save scan schedule search secure select send set share
    show sign sort start stop store stream submit switch tag take test transfer turn update upgrade
    upload use view visit watch write
"""
_NOUNS = frozenset(_NOUN_NAMES.split())
_ASKING = re.compile(r"^(?P<word>How|Where|When|What)\sto\s(?P<deed>[a-z].+)$")
_LONGEST_HEADING = 10


def asked_by_heading(heading: str) -> str | None:
    """The question that a section answers, by a heading that names a deed; None for others.

    Example:
        >>> asked_by_heading("2.1. Installing from source")
        'How do I install from source?'
        >>> asked_by_heading("Where to store your backup")
        'Where do I store my backup?'
        >>> asked_by_heading("Compaction") is None
        True
    """
    text = _NUMBERING.sub("", _ANCHOR.sub("", heading)).strip()
    words = text.split()
    if not 2 <= len(words) <= _LONGEST_HEADING or re.search(r"[?!:;…/]|\.\s", text):
        return None
    if found := _ASKING.match(text):
        return f"{found['word']} do I {as_asked(found['deed'])}?"
    deed = _base_of(words[0].lower())
    if deed is None or _LEANS.search(text):
        return None
    rest = " ".join(words[1:])
    # "Logging and monitoring", "Backup frequency": no deed with an object.
    if words[1].lower() in ("and", "or", "of", "is", "are") or deed == words[1].lower():
        return None
    if words[0].lower() == deed and deed in _NOUNS and not _OBJECT.match(rest):
        return None
    return f"How do I {deed} {as_asked(_sentence_case(rest))}?"


_OBJECT = re.compile(
    r"(?:an?|all|another|any|as|between|down|for|from|in|into|new|off|on|out|the|to|up|using|with|"
    r"your)\b",
    re.IGNORECASE,
)


def _base_of(word: str) -> str | None:
    """The verb that a word is, or is the -ing form of; None for others."""
    if word in _DEEDS:
        return word
    if not word.endswith("ing"):
        return None
    stem = word[:-3]
    candidates = (stem, f"{stem}e", stem[:-1])
    return next((one for one in candidates if one in _DEEDS), None)


_LITTLE_WORDS = "a an and as at by for from in into of off on or out the to up with your"
_LITTLE = frozenset(_LITTLE_WORDS.split())


def _sentence_case(rest: str) -> str:
    """Title Case as in a sentence; a heading with a small noun has its capitals for a reason."""
    words = rest.split()
    plain = [word for word in words if word.lower() not in _LITTLE]
    if not plain or any(word[0].islower() for word in plain):
        return rest
    return " ".join(word.lower() if word[1:].islower() or word == "A" else word for word in words)


_FEWEST_WORDS, _MOST_WORDS = 25, 60
_TEXT = (SentenceKind.SENTENCE, SentenceKind.ITEM)


def section_facts(
    sentences: Sequence[SentenceRow], names: UniqueNames
) -> Iterator[tuple[FactRow, QuestionRow]]:
    """How to do what a heading names, where the text below it is long enough to say so.

    The answer is the beginning of the section: whole sentences of 25 to 60 words.
    """
    for place, row in enumerate(sentences):
        if row.kind is not SentenceKind.HEADING or row.boilerplate:
            continue
        question = asked_by_heading(row.text)
        told = _beginning(sentences[place + 1 :], row.document) if question else []
        answer = " ".join(one.text for one in told)
        if question is None or not told or question_fault(question, answer) is not None:
            continue
        fact = FactRow(
            fact_id=names.name(row.document, f"{row.text}\n{answer}"),
            document=row.document,
            text=f"{row.text}: {answer}",
            citations=tuple(one.index for one in told),
            passage=answer,
            topic=row.topic,
        )
        yield fact, asked_of(fact, question, answer)


def _beginning(rows: Sequence[SentenceRow], document: str) -> list[SentenceRow]:
    """The first sentences before the next heading; none where they are too short together."""
    below = takewhile(
        lambda row: row.document == document and row.kind is not SentenceKind.HEADING, rows
    )
    found: list[SentenceRow] = []
    words = 0
    for row in below:
        if row.kind not in _TEXT or row.boilerplate or row.text.endswith("?"):
            continue
        words += len(row.text.split())
        if found and words > _MOST_WORDS:
            break
        found.append(row)
        if words >= _FEWEST_WORDS:
            return found
    return found if words >= _FEWEST_WORDS and len(found) > 1 else []
