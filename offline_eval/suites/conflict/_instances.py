"""From questions with evidence to what the tasks show: four options in balanced places."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random

from ....guard.matching import canonical_answer
from .._prompts import WindowedModel
from ._evidence import Believed
from ._items import CONFLICTS, Candidate, EvidenceKind
from ._rows import EvidenceRow, Instance, Option, Role, Shown, answering_sentences, sentences_of

_OPTIONS = 4
# Answers of other questions that are looked at for one place.
_LENDERS = 256


def make_instances(
    believed: Sequence[Believed], evidence: Sequence[EvidenceRow], seed: int
) -> list[Instance]:
    """The instances: questions with a used passage that agrees and one that contradicts.

    The options are the belief, the plausible rival, the implausible answer, and wrong answers
    for what is missing: the item's own distractors, its further answers, or those of other
    questions. Of every four instances in a row each part stands in each place once, so that
    each letter is right equally often in every task over every kind that all of them have.

    Args:
        believed: questions in order.
        evidence: their passages; those that are not accepted are left out.
        seed: of places, borrowed answers and the order of passages in RAG.
    """
    used: dict[str, dict[EvidenceKind, EvidenceRow]] = {}
    for row in evidence:
        if row.accepted:
            used.setdefault(row.key, {})[row.kind] = row
    ready = [
        one
        for one in believed
        if EvidenceKind.NC in (found := used.get(one.item.key, {}))
        and any(kind in found for kind in CONFLICTS)
    ]
    lenders = [answer for one in believed for answer in one.item.answers if not answer.implausible]
    parts = [_parts(one, used[one.item.key], lenders, seed) for one in ready]
    instances = []
    rng = Random(f"{seed}/places")  # noqa: S311 - a draw, no secret
    order, firsts = list(range(_OPTIONS)), [True, False]
    for number, (one, options) in enumerate(zip(ready, parts, strict=True)):
        if number % _OPTIONS == 0:
            rng.shuffle(order)
        if number % len(firsts) == 0:
            rng.shuffle(firsts)
        # Turned by one place each: a Latin square per four instances.
        places = [order[(place + number) % _OPTIONS] for place in range(_OPTIONS)]
        instances.append(
            Instance(
                key=one.item.key,
                question=one.item.question,
                options=tuple(options[place] for place in places),
                evidence={kind: _shown(row) for kind, row in used[one.item.key].items()},
                agreeing_first=firsts[number % len(firsts)],
            )
        )
    return instances


def _parts(
    one: Believed,
    rows: Mapping[EvidenceKind, EvidenceRow],
    lenders: Sequence[Candidate],
    seed: int,
) -> list[Option]:
    found = [_option(one.own.text, one.own.aliases, "belief")]
    plausible = rows.get(EvidenceKind.HPC) or rows.get(EvidenceKind.HPCE)
    role: Role
    for row, role in ((plausible, "plausible"), (rows.get(EvidenceKind.LPC), "implausible")):
        if row is not None and row.answer is not None:
            found.append(_option(row.answer, row.aliases, role))
    rng = Random(f"{seed}/{one.item.key}/options")  # noqa: S311 - a draw, no secret
    own = [Candidate(text) for text in one.item.distractors]
    rng.shuffle(own)
    more = [answer for answer in one.item.answers if answer is not one.own]
    strangers = rng.sample(list(lenders), min(len(lenders), _LENDERS))
    # Of those that were drawn the likest first: an answer to quite another thing is none.
    strangers.sort(key=lambda answer: -len(_words(answer.text) & _words(one.own.text)))
    taken = {canonical_answer(name) for option in found for name in (option.text, *option.aliases)}
    for answer in (*own, *more, *strangers):
        if len(found) == _OPTIONS:
            break
        if taken.isdisjoint(map(canonical_answer, answer.names)):
            found.append(_option(answer.text, answer.aliases, "distractor"))
            taken.update(map(canonical_answer, answer.names))
    while len(found) < _OPTIONS:
        # A set of one or two questions has nobody to borrow from.
        found.append(_option(f"none of these ({len(found)})", (), "distractor"))
    return found


def _words(text: str) -> frozenset[str]:
    return frozenset(text.casefold().split())


def _option(text: str, aliases: tuple[str, ...], role: Role) -> Option:
    return Option(text=text, aliases=aliases, role=role)


def _shown(row: EvidenceRow) -> Shown:
    names = (row.answer or "", *row.aliases)
    return Shown(
        passage=row.passage,
        second=row.second,
        sentences=answering_sentences(row.passage, names),
        plausibility=row.plausibility,
    )


def fitted(
    fill: Callable[[Sequence[str]], str],
    passages: Sequence[str],
    kept: Sequence[Sequence[str]],
    lm: object,
    answer_tokens: int,
) -> tuple[str, bool]:
    """A prompt that fits the model's window, and whether passages were cut for it.

    Sentences are left out from the end of the longest passage, those that answer only where
    nothing else is left, and never the last of a passage: a prompt can stay too long, and the
    model then says so.

    Args:
        fill: makes the prompt from as many passages.
        passages: in full.
        kept: per passage, sentences that are to stay.
        lm: where it states its window, prompts are cut to it.
        answer_tokens: kept free for the answer.
    """
    prompt = fill(passages)
    if not isinstance(lm, WindowedModel) or lm.context_window is None:
        return prompt, False
    room = lm.context_window - answer_tokens
    if len(lm.token_ids(prompt)) <= room:
        return prompt, False
    texts = [list(sentences_of(passage)) for passage in passages]
    drops = _drops(texts, kept)

    def without(count: int) -> str:
        gone: list[set[int]] = [set() for _ in texts]
        for passage, sentence in drops[:count]:
            gone[passage].add(sentence)
        return fill(
            [
                " ".join(text for place, text in enumerate(sentences) if place not in mine)
                for sentences, mine in zip(texts, gone, strict=True)
            ]
        )

    # Counting a prompt's tokens costs most: halving finds the fewest drops that do.
    least, most = 1, len(drops)
    while least < most:
        middle = (least + most) // 2
        if len(lm.token_ids(without(middle))) <= room:
            most = middle
        else:
            least = middle + 1
    return without(most), True


def _drops(texts: Sequence[Sequence[str]], kept: Sequence[Sequence[str]]) -> list[tuple[int, int]]:
    """Which sentence of which text goes first, second, …: one of the longest text each time."""
    orders = []
    for sentences, stay in zip(texts, map(set, kept), strict=True):
        last_first = range(len(sentences) - 1, -1, -1)
        spare = [place for place in last_first if sentences[place] not in stay]
        answering = [place for place in last_first if sentences[place] in stay]
        # One sentence of each text stays; the next to go stands last.
        orders.append([*spare, *answering][:-1][::-1])
    sizes = [sum(map(len, sentences)) for sentences in texts]
    drops = []
    while any(orders):
        longest = max((n for n, order in enumerate(orders) if order), key=lambda n: sizes[n])
        place = orders[longest].pop()
        sizes[longest] -= len(texts[longest][place])
        drops.append((longest, place))
    return drops
