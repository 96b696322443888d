"""Reading a confidence that was put into words or numbers, in English or Chinese."""

from __future__ import annotations

import re
import unicodedata

_NUMBER = r"\d+(?:\.\d+)?|\.\d+"
_OF = re.compile(rf"({_NUMBER})\s*(?:/|out of)\s*({_NUMBER})(?![\d.]*\d)")
_RANGE = re.compile(rf"({_NUMBER})\s*%?\s*(?:-|–|—|~|to|and|到|至)\s*({_NUMBER})\s*(?:%|per ?cent)")
_PERCENT = re.compile(rf"(?<![\d.])({_NUMBER})\s*(?:%|per ?cent)")
_CHINESE_DIGITS = "零〇一二两三四五六七八九"
_CHINESE_PERCENT = re.compile(rf"百分之\s*({_NUMBER}|[{_CHINESE_DIGITS}十百]+)")
_TENTHS = re.compile(
    rf"({_NUMBER}|[{_CHINESE_DIGITS}十])成(?!为|功|立|员|果|本|就|分)([{_CHINESE_DIGITS}])?(半)?"
)
_PLAIN = re.compile(rf"(?<![\w.,/\-])({_NUMBER})(?![\w/]|[.,:]\d)")
_NAMED = re.compile(
    r"(?:confiden\w*|probab\w*|certain\w*|sure\w*|likelihood|置信度?|信心|把握|概率|可能性|确定程度)"
    rf"[^\d.]{{0,20}}({_NUMBER})(?![\w/]|[.,:]\d)"
)

_SURE = r"(?:sure|certain|confident)"
# Shares that people mean by such words, rounded from the surveys of Kent 1964 and of Wallsten
# et al. 1986. The first that is found counts, so what negates or strengthens stands first.
_WORDS: tuple[tuple[float, str, str], ...] = (
    (0.1, rf"not (?:at all|in the least) {_SURE}", "完全不确定|毫无把握|没有?把握"),
    (
        0.35,
        rf"(?:not|n't) (?:very|too|so|really|entirely|fully|completely|100) {_SURE}",
        "不(?:太|是很)(?:确定|肯定)|把握不大",
    ),
    (0.3, rf"(?:not|n't) {_SURE}|\b(?:unsure|uncertain)\b", "不确定|不肯定|不知道"),
    (0.1, r"no idea|\bguess(?:ing|ed)?\b", "纯属猜测|瞎猜"),
    (
        0.05,
        "(?:very|highly|extremely) (?:unlikely|improbable|doubtful)|almost no chance",
        "[极很]不可能",
    ),
    (
        0.2,
        r"\b(?:unlikely|improbable|doubtful)\b|(?:low|little) confidence",
        "不太可能|可能性不大",
    ),
    (0.02, r"\bimpossible\b|certainly (?:wrong|not)", "不可能|肯定不"),
    (0.95, rf"(?:almost|nearly|virtually|practically) {_SURE}", "几乎(?:可以)?(?:确定|肯定)"),
    (1.0, "100 (?:sure|certain)", "百分百"),
    (
        0.98,
        rf"(?:absolutely|completely|totally|entirely|fully) {_SURE}|(?:without a|no) doubt",
        "完全(?:确定|肯定)|毫无疑问|绝对",
    ),
    (
        0.9,
        r"(?:very|highly|extremely|quite) (?:sure|certain|confident|likely)|high confidence",
        "(?:非常|十分|很)(?:确定|肯定|有把握|有信心)|很可能|极有可能",
    ),
    (
        0.75,
        "(?:fairly|pretty|reasonably|rather) (?:sure|certain|confident|likely)",
        "(?:比较|相当)(?:确定|肯定|有把握)",
    ),
    (
        0.6,
        "(?:somewhat|moderately) (?:sure|certain|confident|likely)|medium confidence",
        "有一?些把握",
    ),
    (0.5, "fifty[- ]fifty|toss[- ]?up|about even", "一半|五五开"),
    (0.95, r"\b(?:certain|definite(?:ly)?)\b", "肯定|确定"),
    (0.85, r"\b(?:sure|confident)\b", "有把握|有信心"),
    (0.7, r"\b(?:likely|probabl[ey])\b", "大概|应该|可能"),
    (0.5, r"\b(?:maybe|perhaps|possibly|possible)\b", "也许|或许"),
)
_COMPILED = tuple((re.compile(f"{english}|{chinese}"), value) for value, english, chinese in _WORDS)


def spoken_confidence(text: str) -> float | None:
    """The confidence in [0, 1] that a reply states; None where none can be read.

    What names its own scale is read first ("80%", "80/100", "8 out of 10", "百分之八十",
    "八成"), then a number beside a word such as "confidence", then a number that stands
    alone; "0.8" and "1.0" are shares, whole numbers are on the scale 0 to 100 that was
    asked for. Only then words count ("very sure", "不太确定"). Numbers off the scale,
    and several unmarked ones that differ, say nothing: a guess is never made.

    Example:
        >>> [spoken_confidence(text) for text in ("80%", "0.8", "80/100", "八成", "very sure")]
        [0.8, 0.8, 0.8, 0.8, 0.9]
        >>> spoken_confidence("The year was 1987.") is None
        True
    """
    folded = unicodedata.normalize("NFKC", text).casefold().replace("’", "'").strip()
    # A base model replies in the first line and then goes on with a question of its own.
    for part in dict.fromkeys((folded.split("\n")[0], folded)):
        for reading in (_stated_scale, _named_number, _lone_number, _words):
            found = reading(part)
            if found is not None:
                return found
    return None


def _stated_scale(text: str) -> float | None:
    found = _OF.search(text)
    if found:
        value, whole = float(found[1]), float(found[2])
        if whole in (1.0, 5.0, 10.0, 100.0) and value <= whole:
            return value / whole
    found = _RANGE.search(text)
    if found:
        return _within((float(found[1]) + float(found[2])) / 200)
    found = _PERCENT.search(text)
    if found and "-" not in text[max(0, found.start() - 1) : found.start()]:
        return _within(float(found[1]) / 100)
    found = _CHINESE_PERCENT.search(text)
    if found:
        return _within(_chinese_number(found[1]) / 100)
    found = _TENTHS.search(text)
    if found:
        tenths = _chinese_number(found[1])
        extra = _chinese_number(found[2]) / 10 if found[2] else 0.5 if found[3] else 0.0
        return _within((tenths + extra) / 10)
    return None


def _named_number(text: str) -> float | None:
    found = _NAMED.search(text)
    return _on_scale(found[1]) if found else None


def _lone_number(text: str) -> float | None:
    read = {_on_scale(found[1]) for found in _PLAIN.finditer(text)} - {None}
    return read.pop() if len(read) == 1 else None


def _words(text: str) -> float | None:
    return next((value for pattern, value in _COMPILED if pattern.search(text)), None)


def _on_scale(number: str) -> float | None:
    value = float(number)
    return _within(value if "." in number and value <= 1 else value / 100)


def _within(share: float) -> float | None:
    return round(share, 6) if 0.0 <= share <= 1.0 else None


def _chinese_number(text: str) -> float:
    """A number up to 100 in Chinese or Arabic digits, e.g. 八十五."""
    if text[0].isascii():
        return float(text)
    if "百" in text:
        return 100.0
    tens, ten, units = text.partition("十")
    if not ten:
        return float("".join(str(_digit(character)) for character in text))
    return 10.0 * (_digit(tens[-1]) if tens else 1) + (_digit(units[-1]) if units else 0)


def _digit(character: str) -> int:
    if character in "零〇":
        return 0
    return 2 if character == "两" else "一二三四五六七八九".index(character) + 1
