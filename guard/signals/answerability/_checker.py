"""Find questions with a false premise from what the passages state, without a language model."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from ..._signal import Veto
from ...contracts import Answerability, Premise, PremiseFault, plain
from ...deadlines import call_on_thread
from ...decision import Reason
from ...errors import SignalValueError
from ...fingerprint import Fingerprint
from ...language import compiled
from ...text import Request, clean_text
from ._phrases import Phrase, read_phrase, words_of
from ._statements import (
    LONGEST_LIST,
    Answers,
    Likeness,
    Statement,
    find_answers,
    is_proper,
    likeness,
    nearest,
    plain_text,
    read_statements,
    words_by_passage,
)
from ._when import check_time, impossible_by_itself

_RULE = compiled("premises", "questions")
# Surnames too, or parts of other words: enough to leave a question open, no more.
_MORE_ZH = ("何", "几", "幾", "多少")


def _asks(how: str, text: str) -> bool:
    return _RULE[how].search(text.strip()) is not None


def asks_for_a_thing(text: str) -> bool:
    """Whether a folded question wants someone or something, not a yes, a time or a quantity.

    Example:
        >>> asks_for_a_thing("Which award did Ann win?"), asks_for_a_thing("How long is it?")
        (True, False)
    """
    return _asks("thing", text) and not _asks("another_kind", text)


def asks_openly(text: str) -> bool:
    """Whether a folded text has a question word or ends in 是, so that it wants more than a yes.

    Example:
        >>> asks_openly("Where is Rill"), asks_openly("Is Rill open")
        (True, False)
    """
    text = text.strip()
    return _asks("word", text) or text.endswith("是") or any(w in text for w in _MORE_ZH)


_EDGES = " ,，?？.。"
# Four translators of a book are all of them; five may be the best known.
_SELECTION = 5
# Places at which a question is taken apart.
_MOST = 12
# A condition that is a bare word, "tall" or 作家, holds of more than anybody lists.
_SHORTEST = 2
_SHORTEST_ZH = 3


def half_splits(question: str) -> Iterator[tuple[str, str]]:
    """The ways to take a folded question apart into conditions on one thing.

    Two questions in one, "who wrote A and who wrote B", are not taken apart, nor is what may
    be meant as two: "the capital of A and the capital of B".

    Example:
        >>> list(half_splits("Who is the author of A and also the mother of B?"))
        [('Who is the author of A', 'the mother of B')]
        >>> list(half_splits("Who is the author of A and who is the author of B?"))
        []
    """
    if len(_RULE["word"].findall(question.strip())) != 1:
        return
    text = _RULE["both"].sub(" ", question.strip(_EDGES), count=1)
    both = len(text) < len(question.strip(_EDGES))
    for number, match in enumerate(_RULE["and"].finditer(text)):
        if number >= _MOST:
            return
        first, second = text[: match.start()].strip(_EDGES), text[match.end() :].strip(_EDGES)
        at_once = both or _asks("at_once", match.group() + text[match.end() : match.end() + 2])
        if first and second and at_once:
            yield first, second


def check_halves(
    question: str, statements: Sequence[Statement], *, closed_world: bool
) -> Answerability | None:
    """Whether anything can meet both conditions; None where there are no two.

    Args:
        question: folded.
        statements: of all passages.
        closed_world: see `find_answers`.
    """
    # A place may meet two conditions that two places in it meet: "where was A born, and also B?"
    if not (asks_for_a_thing(question) or (closed_world and _asks("where", question))):
        return None
    cut_at = LONGEST_LIST if closed_world else _SELECTION
    splits = list(half_splits(question))
    found = Answerability(Premise.UNDECIDED) if splits else None
    for parts in splits:
        halves = [read_phrase(part) for part in parts]
        first, second = (
            find_answers(half, statements, closed_world=closed_world, cut_at=cut_at)
            for half in halves
        )
        if first is None or second is None:
            continue
        passages = tuple(sorted({*first.passages, *second.passages}))
        one_source = first.one_source and second.one_source
        alike = max(
            (nearest(name, second.names, one_source=one_source) for name in first.names),
            default=Likeness.MAYBE,
        )
        if alike is Likeness.SAME:
            return Answerability(Premise.ANSWERABLE, passages=passages)
        complete = (
            first.complete
            and second.complete
            and second.names
            and (closed_world or all(map(_is_definite, parts)))
            and not _two_values(question, halves, (first, second))
            and not _told_together(first.names, halves[1], statements)
            and not _told_together(second.names, halves[0], statements)
        )
        if alike is Likeness.DIFFERENT and complete and not _met_at_once(halves, statements):
            found = Answerability(
                Premise.UNANSWERABLE,
                PremiseFault.EMPTY_INTERSECTION,
                passages=passages,
            )
    return found


def _is_definite(part: str) -> bool:
    words = read_phrase(part).texts
    shortest = _SHORTEST if all(word.isascii() for word in words) else _SHORTEST_ZH
    return len(words) >= shortest and _RULE["indefinite"].search(part) is None


def _two_values(question: str, halves: Sequence[Phrase], answers: Sequence[Answers]) -> bool:
    """Whether two values are asked for, as by "what is the height of A and also of B"."""
    if any(_QUANTITY.match(name) for found in answers for name in found.names):
        return True
    asked = [set(half.texts) - half.names for half in halves]
    return bool(_asks("its_value", question) and asked[0] and asked[0] == asked[1])


_QUANTITY = re.compile(r"\W*\d(?![\d.,]*(?:st|nd|rd|th)\b)")


def _told_together(names: Sequence[str], half: Phrase, statements: Sequence[Statement]) -> bool:
    """Whether a sentence names what meets one condition beside what the other is about."""
    answers = [set(words_of(name)) for name in names]
    sentences = (set(words_of(s.text)) for s in statements if s.form == "sentence")
    return bool(half.names) and any(
        half.names <= words and any(name <= words for name in answers) for words in sentences
    )


def _met_at_once(halves: Sequence[Phrase], statements: Sequence[Statement]) -> bool:
    """Whether one passage mentions both conditions, perhaps in words that were not understood."""
    return any(
        all(half.names <= words if half.names else words & {*half.texts} for half in halves)
        for words in words_by_passage(statements)
    )


_COMMA = re.compile(r"[,，:：] ?")
_OPTION_EDGES = " ,，?？.。:："
# A question with more of them offers no two options.
_MOST_OPTIONS = 6


def option_splits(question: str) -> Iterator[tuple[str, str, str]]:
    """The ways to read a folded question as (what is asked, option, option).

    Example:
        >>> list(option_splits("Where is Rill, Arn or Bel?"))
        [('Where is Rill', 'Arn', 'Bel')]
    """
    text = question.strip(_OPTION_EDGES)
    betweens = list(_RULE["or"].finditer(text))
    if not 0 < len(betweens) <= _MOST_OPTIONS:
        return
    for between in betweens:
        left, second = text[: between.start()], text[between.end() :].strip(_OPTION_EDGES)
        commas = list(_COMMA.finditer(left))
        starts = [(comma.start(), comma.end()) for comma in commas[-_MOST_OPTIONS:]]
        if not commas and (copula := _RULE["last_is"].search(left)):
            starts = [(copula.start(), copula.end())]
        for end, start in starts:
            first = left[start:].strip(_OPTION_EDGES)
            if first and second and left[:end].strip(_OPTION_EDGES):
                yield left[:end].strip(_OPTION_EDGES), first, second


def check_options(
    question: str, statements: Sequence[Statement], *, closed_world: bool
) -> Answerability | None:
    """Whether one of the two options can be right; None where none are offered.

    Args:
        question: folded.
        statements: of all passages.
        closed_world: see `find_answers`.
    """
    splits = list(option_splits(question))
    if not splits:
        return None
    seen: list[tuple[Answers, Likeness, Likeness]] = []
    left_open = False
    for stem, *options in splits:
        # "Is it open, mornings or evenings?" may be answered in any words.
        left_open |= _asks("how", stem) or not asks_openly(stem)
        left_open |= not (closed_world or asks_for_a_thing(stem))
        answers = find_answers(read_phrase(stem), statements, closed_world=closed_world)
        if answers is None:
            continue
        # A sentence that has one of them may say so in words not understood.
        left_open = left_open or (not answers.one_source and _spoken_of(options, statements))
        left_open = left_open or not (closed_world or _tells(question, options, answers))
        one_source = closed_world and answers.one_source
        first, second = (_stands(one, answers, one_source=one_source) for one in options)
        seen.append((answers, first, second))
    passages = tuple(sorted({index for answers, _, _ in seen for index in answers.passages}))
    unlike = seen and all(first is second is Likeness.DIFFERENT for _, first, second in seen)
    if unlike and not left_open and all(answers.complete for answers, _, _ in seen):
        return Answerability(Premise.UNANSWERABLE, PremiseFault.FALSE_OPTIONS, passages=passages)
    if any({first, second} == {Likeness.SAME, Likeness.DIFFERENT} for _, first, second in seen):
        return Answerability(Premise.ANSWERABLE, passages=passages)
    return Answerability(Premise.UNDECIDED)


def _spoken_of(options: Sequence[str], statements: Sequence[Statement]) -> bool:
    wanted = [set(words_of(option)) for option in options]
    passages = words_by_passage(statements)
    return any(option and option <= words for words in passages for option in wanted)


def _tells(question: str, options: Sequence[str], answers: Answers) -> bool:
    """Whether what is told in any words can rule two options out.

    Not a place, which may lie in another; not what goes by many words, as common things do
    ("petrol", "the buyer", 买家) and quantities; not what a sentence says by the way.
    """
    if "sentence" in answers.forms or _asks("nested", question):
        return False
    return all(map(is_proper, (*options, *answers.names)))


def _stands(option: str, answers: Answers, *, one_source: bool) -> Likeness:
    """How like the option is to any of the answers, or to a run of words in them."""
    words = words_of(option)
    told = "".join(answers.whole)
    if not (one_source or any(map(str.isdigit, told))) and any(map(str.isdigit, option)):
        # Asked was a number, and a name is told: where for when.
        return Likeness.MAYBE
    for whole in answers.whole:
        if likeness(option, whole) is Likeness.SAME or _contains(words_of(whole), words):
            return Likeness.SAME
    found = nearest(option, answers.names, one_source=one_source)
    if found is Likeness.SAME and any("," in whole for whole in answers.whole):
        return Likeness.SAME
    return found


def _contains(text: tuple[str, ...], words: tuple[str, ...]) -> bool:
    # As whole words only, and none that could be part of another name.
    if len(words) < 2 or len(text) > 400:
        return False
    joined, sought = f"\0{chr(0).join(text)}\0", f"\0{chr(0).join(words)}\0"
    return sought in joined


_Share = Annotated[float, Field(ge=0, le=1, strict=True)]
_Index = Annotated[int, Field(ge=0, strict=True)]
_VERDICT: TypeAdapter[Any] = TypeAdapter(
    tuple[Premise, PremiseFault | None, _Share | None, list[_Index]]
)
_PARTS = "premise", "fault", "probability", "passages"


class AnswerabilityVeto(Veto[Answerability]):
    """Abstains from questions that nothing in the passages can satisfy.

    A detector implements `detect`, and `adetect` where it can be awaited.
    """

    name = "answerability"
    reason = Reason.FALSE_PREMISE.value

    @abstractmethod
    def detect(self, question: str, passages: Sequence[str]) -> Answerability:
        """The verdict on one question; may find it undecided, and often should."""

    async def adetect(self, question: str, passages: Sequence[str]) -> Answerability:
        """As `detect`, by default on another thread: long passages take a while."""
        return await call_on_thread(lambda: self.detect(question, list(passages)))

    def measure(self, request: Request) -> Answerability:
        """The verdict on one question."""
        return self.detect(request.question, request.passages)

    async def ameasure(self, request: Request) -> Answerability:
        """As `measure`, without blocking the event loop."""
        return await self.adetect(request.question, request.passages)

    def check(self, value: Any, request: Request) -> Answerability:
        """The verdict with plain numbers, its passages rising and once each.

        Raises:
            SignalValueError: another type, or values that it cannot have.
        """
        try:
            passages = list(map(plain, value.passages))
            given = [value.premise, value.fault, plain(value.probability), passages]
            premise, fault, probability, indices = _VERDICT.validate_python(given)
        except ValidationError as error:
            part = _PARTS[int(error.errors()[0]["loc"][0])]
            raise self._wrong(f"no verdict has what the detector returned as its {part}") from None
        except (AttributeError, TypeError):
            raise self._wrong(f"the detector returned no verdict: {type(value).__name__}") from None
        if fault is not None and premise is not Premise.UNANSWERABLE:
            raise self._wrong(f"the detector found a fault and {premise.value}")
        if any(index >= len(request.passages) for index in indices):
            raise self._wrong(f"a passage beyond the {len(request.passages)} given")
        return Answerability(premise, fault, probability, tuple(sorted(set(indices))))

    def strength(self, value: Answerability) -> float:
        """1 for an unanswerable question, otherwise 0."""
        return float(value.premise is Premise.UNANSWERABLE)

    def decision_fields(self, value: Answerability, request: Request) -> dict[str, Any]:
        """The verdict, with the positions of its passages among those given."""
        passages = tuple(request.positions[index] for index in value.passages)
        return {"answerability": replace(value, passages=passages)}

    def _wrong(self, detail: str) -> SignalValueError:
        return SignalValueError(self.name, detail)


_VERSION = 2
# A longer question contains material of its own, which is not to be judged.
_LONGEST_QUESTION = 1000
# More statements than one question retrieves in practice; reading on would only cost time.
_MOST_STATEMENTS = 5000
# Words that tell which lines of a passage can be of use.
_SOUGHT = 12


class PremiseChecker(AnswerabilityVeto):
    """Call a question unanswerable only where the passages decide it.

    It takes a question's conditions apart — two options, a period, two conditions that one
    thing must meet — and looks for what the passages state about each. English and Chinese;
    other questions, and those without such conditions, are left undecided.

    Args:
        closed_world: whether sentences and triples are taken to tell all there is: what they
            do not state does not hold. Without it they count as complete only where they say
            so ("the only …"), or where there can be but one (a mother, a birthplace), and two
            options are ruled out by proper names only, never by sentences. A question with its
            answer ("The mother of Ann is? Mary") counts as complete, unless its list is so long
            that it may have been cut: ten answers and more, of two lists five and more without
            a closed world.
        now: the year in which the passages were written, where known. A time that reaches it
            is not ruled out by what has ended before: something else may have begun since.

    Example:
        >>> checker = PremiseChecker()
        >>> found = checker.detect("Who leads Rill and is also the mother of Ann?",
        ...     ["Who leads Rill? Bo Rask", "The mother of Ann is? Mary Lund"])
        >>> found.premise.value, found.fault.value, found.passages
        ('unanswerable', 'empty_intersection', (0, 1))
    """

    def __init__(self, *, closed_world: bool = False, now: int | None = None) -> None:
        self._closed_world = closed_world
        self._now = now

    @property
    def fingerprint(self) -> Fingerprint:
        """What its verdicts depend on."""
        return Fingerprint(
            kind="premise_checker",
            settings={"version": _VERSION, "closed_world": self._closed_world, "now": self._now},
        )

    def detect(self, question: str, passages: Sequence[str]) -> Answerability:
        """The verdict on one question; `undecided` where the passages do not settle it."""
        asked = plain_text(clean_text(question)).replace("\n", " ").strip()
        if not asked or len(asked) > _LONGEST_QUESTION:
            return Answerability(Premise.UNDECIDED)
        texts = [clean_text(passage) for passage in passages]
        if impossible_by_itself(asked, "\n".join(texts)):
            return Answerability(Premise.UNANSWERABLE, PremiseFault.IMPOSSIBLE_TIME)
        read = read_statements(texts, _sought(asked))
        statements = list(islice(read, _MOST_STATEMENTS + 1))
        if len(statements) > _MOST_STATEMENTS:
            return Answerability(Premise.UNDECIDED)
        return self._judged(asked, statements)

    def _judged(self, question: str, statements: Sequence[Statement]) -> Answerability:
        if not statements:
            return Answerability(Premise.UNDECIDED)
        closed = self._closed_world
        found = (
            check_options(question, statements, closed_world=closed),
            check_time(question, statements, closed_world=closed, now=self._now),
            check_halves(question, statements, closed_world=closed),
        )
        by_premise = {one.premise: one for one in reversed(found) if one is not None}
        decided = by_premise.get(Premise.UNANSWERABLE) or by_premise.get(Premise.ANSWERABLE)
        return decided or Answerability(Premise.UNDECIDED)


def _sought(question: str) -> frozenset[str]:
    """The question's longest words, of which every statement of use has one."""
    texts = read_phrase(question).texts
    if not any(text.isascii() for text in texts):
        return frozenset(texts)
    chosen = sorted(dict.fromkeys(texts), key=len, reverse=True)[:_SOUGHT]
    return frozenset(chosen) | {text for text in texts if not text.isascii()}
