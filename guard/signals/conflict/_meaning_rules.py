"""What rules can say about two answers, so that no similarity has to guess.

An embedding hardly sees a digit or a "not": 23 and 32, 1990 and 1991, "is required"
and "is not required" lie close together. These are decided here, by what is written.
"""

from __future__ import annotations

from enum import StrEnum

from ...matching import same_answer
from ._vocabulary import (
    AFFIRMED,
    ALTERNATIVES,
    ANTONYM_STEM,
    DATE_WORDS,
    DENIED,
    FOLLOWERS,
    LEAD_INS,
    NEGATING_PREFIXES,
    NEGATORS,
    OPPOSITES_OF,
    PARTICIPLES,
    PRONOUNS,
    VERBS,
    Reading,
    read_answer,
)

# Words from which on two answers that differ in order alone are sentences.
_SENTENCE = 4


class Rule(StrEnum):
    """What the rules found.

    `doubtful` answers differ in a number or a negation that may or may not matter:
    no similarity may call them the same, a model of entailment may.
    """

    SAME = "same"
    DIFFERENT = "different"
    DOUBTFUL = "doubtful"
    OPEN = "open"

    @classmethod
    def between(cls, first: str, second: str) -> Rule:
        """Compare two answers by rules, without any model.

        Example:
            >>> Rule.between("Paris", "It is Paris, the capital of France.").value
            'same'
            >>> Rule.between("It is required", "It is not required").value
            'different'
            >>> Rule.between("the Big Apple", "New York").value
            'open'
        """
        if same_answer(first, second):
            return Rule.SAME
        one, other = read_answer(first), read_answer(second)
        if not one.words or not other.words:
            return Rule.DIFFERENT
        if one.content == other.content:
            return Rule.SAME
        said = _yes_or_no(one, other)
        if said is not None:
            return said
        if _quantities_clash(one, other):
            return Rule.DIFFERENT
        short, long = sorted((one, other), key=lambda answer: (len(answer.words), answer.content))
        if _same_date(short, long) or _same_count(short, long):
            return Rule.SAME
        contained = _contained(short, long)
        if contained is not None:
            return contained
        if _flips(one, other) % 2:
            return Rule.DIFFERENT if _overlap(one, other) >= 0.5 else Rule.DOUBTFUL
        alternatives = [not ALTERNATIVES.isdisjoint(answer.content) for answer in (one, other)]
        quantities = [(answer.numbers, answer.months, answer.weekdays) for answer in (one, other)]
        shares = ["percent" in answer.content for answer in (one, other)]
        swapped = len(short.words) >= _SENTENCE and sorted(short.content) == sorted(long.content)
        unequal = alternatives[0] != alternatives[1] or quantities[0] != quantities[1]
        if swapped or unequal or shares[0] != shares[1]:
            return Rule.DOUBTFUL
        return Rule.OPEN


def _negates(word: str) -> bool:
    return word.replace("'", "") in NEGATORS or word.endswith("n't")


def _negators(words: list[str]) -> int:
    return sum(_negates(word) for word in words)


def _yes_or_no(one: Reading, other: Reading) -> Rule | None:
    """Decide on two answers that begin with yes or no."""
    polarities = [_polarity(one), _polarity(other)]
    if None in polarities:
        return None
    if polarities[0] != polarities[1]:
        return Rule.DIFFERENT
    return Rule.SAME if min(len(one.words), len(other.words)) == 1 else None


def _polarity(answer: Reading) -> bool | None:
    first = answer.words[0]
    # 不 and 是 begin other words too, as do "no one" and "right side".
    follows = answer.words[1].text if len(answer.words) > 1 else ""
    ends = not follows or follows in PRONOUNS or _breaks(answer, 1)
    if not ends:
        return None
    return True if first.text in AFFIRMED else False if first.text in DENIED else None


def _quantities_clash(one: Reading, other: Reading) -> bool:
    """Whether both give numbers, months, weekdays or units that cannot be meant alike."""
    for mine, yours in (
        (one.numbers, other.numbers),
        (one.months, other.months),
        (one.weekdays, other.weekdays),
        (one.units, other.units),
    ):
        if mine and yours and not (mine <= yours or yours <= mine):
            return True
    return False


def _same_date(short: Reading, long: Reading) -> bool:
    """Whether both are dates and nothing else, one at most leaving parts out."""
    for answer in (short, long):
        rest = {word.text for i, word in enumerate(answer.words) if i not in answer.dated}
        if not rest <= DATE_WORDS or not answer.dated:
            return False
    coarse, fine = sorted((short, long), key=lambda answer: (len(answer.dated), answer.content))
    years = {n for n in coarse.numbers if n.isdigit() and len(n) == 4}
    alike = (
        coarse.numbers <= fine.numbers
        and coarse.months <= fine.months
        and coarse.weekdays <= fine.weekdays
    )
    return alike and (bool(years) or coarse.dated == fine.dated)


def _same_count(short: Reading, long: Reading) -> bool:
    """Whether one is a quantity alone, and the other the same with what is counted."""
    return (
        len(short.dated) == len(short.words) < len(long.words)
        and (short.numbers, short.months) == (long.numbers, long.months)
        and short.weekdays == long.weekdays
        and not _negators(long.content)
        and ALTERNATIVES.isdisjoint(long.content)
        # A share is no count: 50 is not 50 %.
        and "percent" not in long.content
    )


def _contained(short: Reading, long: Reading) -> Rule | None:
    """Decide on a short answer that is contained in a longer one."""
    wanted, words, size = short.content, long.content, len(short.words)
    verdict: Rule | None = None
    for start in range(len(words) - size + 1):
        if words[start] != wanted[0] or words[start : start + size] != wanted:
            continue
        end = start + size
        if _negators(words[:start]):
            verdict = Rule.DIFFERENT
        elif _leads_in(long, start) and _follows(long, end):
            aside = _clause_end(long, end)
            return Rule.SAME if not _negators(words[end:aside]) else Rule.DOUBTFUL
    return verdict


def _leads_in(long: Reading, start: int) -> bool:
    before = [word.text for word in long.words[:start]]
    if not before or _breaks(long, start) or set(before) <= LEAD_INS | VERBS:
        return True
    # A noun before it makes another thing of it: the mayor of Paris, red wine.
    verbs = [index for index, word in enumerate(before) if word in VERBS]
    between = before[verbs[-1] + 1 :] if verbs else before
    return bool(verbs) and all(
        word in LEAD_INS or word in PARTICIPLES or word.endswith("ed") for word in between
    )


def _follows(long: Reading, end: int) -> bool:
    if end == len(long.words) or _breaks(long, end):
        return True
    return long.words[end].text in FOLLOWERS


def _breaks(answer: Reading, index: int) -> bool:
    """Whether punctuation stands before word `index`, other than a hyphen or an apostrophe."""
    between = answer.text[answer.words[index - 1].end : answer.words[index].start]
    return any(not c.isalnum() and not c.isspace() and c not in "-'&/" for c in between)


def _clause_end(answer: Reading, start: int) -> int:
    for index in range(start, len(answer.words)):
        if index and _breaks(answer, index):
            return index
    return len(answer.words)


def _flips(one: Reading, other: Reading) -> int:
    """How often the one says the opposite of the other: negations and antonyms."""
    mine, yours = set(one.content), set(other.content)
    pairs = _opposite_pairs(mine - yours, yours - mine)
    negators = abs(_negators(one.content) - _negators(other.content))
    counted = {word for pair in pairs for word in pair}
    return len(pairs) + max(0, negators - sum(_negates(word) for word in counted))


def _opposite_pairs(mine: set[str], yours: set[str]) -> set[frozenset[str]]:
    """Pairs of words, one of each, that say the opposite of each other."""
    pairs = {
        frozenset((word, opposite))
        for word in mine
        for opposite in OPPOSITES_OF.get(word, set()) & yours
    }
    for some, others in ((mine, yours), (yours, mine)):
        pairs |= {
            frozenset((word, prefix + word))
            for word in some
            if len(word) >= ANTONYM_STEM
            for prefix in NEGATING_PREFIXES
            if prefix + word in others
        }
    return pairs


def _overlap(one: Reading, other: Reading) -> float:
    """Share of the shorter answer's words that are in the other, opposites counted as one."""
    mine = {word for word in one.content if not _negates(word)}
    yours = {word for word in other.content if not _negates(word)}
    shared = len(mine & yours) + len(_opposite_pairs(mine - yours, yours - mine))
    return shared / max(1, min(len(mine), len(yours)))
