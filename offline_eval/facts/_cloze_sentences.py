"""Which sentences say something by themselves, found by rules."""

from __future__ import annotations

import re

from ._artefacts import SentenceKind, SentenceRow
from ._checks import lacks_antecedent, refers_to_document
from ._sentences import language_of

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
    r"means?|indicates?|be|to|should|similar to|failure to|there (?:is|are)|other|including|only|"
    r"alternatively|remember|notice)\b",
    re.IGNORECASE,
)
# A clause without its main clause: "When the car in front turns."
_SUBORDINATE = re.compile(
    r"^(?:when|if|while|before|after|as|unless|until|although|though|because|since|where|within|"
    r"once|on|in|at|for|by|during|with|without|under)\b[^,]*$",
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
