"""Cases of `sufficiency.py`: questions with passages that suffice and passages that do not.

Passages are chosen by a retriever, so the choice is adversarial to scorers that work as it does:
the sets name theirs. The shared data folder is read as published; nothing of it is written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from knowgate.guard import InputError
from knowgate.guard.engine import BiEncoderScorer
from knowgate.guard.files import read_json, read_jsonl
from knowgate.guard.matching import normalise_answer
from knowgate.guard.signals.relevance import LexicalScorer
from knowgate.offline_eval.testbed import World, default_world
from knowgate.offline_eval.testbed.entities import Fact

TOP = 5
FAQ = "FAQ-"
# Rules that settle a question only together with the user's circumstances: no FAQ site.
NO_SITE = "orsharc"
MICROWORLD_QUESTIONS, SEED = 300, 0
Floats = NDArray[np.float64]
# (questions, passages) -> similarities of shape (len(questions), len(passages))
Retriever = Callable[[Sequence[str], Sequence[str]], Floats]


@dataclass(frozen=True)
class Case:
    """One question.

    Attributes:
        question: its text.
        positives: passages that suffice together; none where only insufficient ones are known.
        negatives: passages that do not; none where only sufficient ones are known.
    """

    question: str
    positives: tuple[str, ...]
    negatives: tuple[str, ...]


@dataclass(frozen=True)
class CaseSet:
    """Cases that are averaged over.

    Attributes:
        name: as given to `--sets`.
        title: what is told apart.
        cases: one per question.
        unit: `set` judges a case's passages together, `passage` each by itself.
        adaptable: whether it comes of one knowledge base that a scorer can adapt itself to.
        lacks: what the insufficient passages are: `off_answer`, they answer something else;
            `on_topic`, they speak of what is asked and lack what answers it.
        pooled: whether it is one of the policy-like domains, whose figures are averaged.
        verdicts: per logged judge one value a case: 1 sufficient, 0 not, 0.5 neither said.
    """

    name: str
    title: str
    cases: tuple[Case, ...]
    unit: Literal["set", "passage"] = "set"
    adaptable: bool = False
    lacks: Literal["off_answer", "on_topic"] = "off_answer"
    pooled: bool = False
    verdicts: Mapping[str, tuple[float, ...]] = field(default_factory=dict)


class Builder:
    """Builds the sets by name; embeddings are computed once.

    Args:
        data: the folder of public data.
        retrieval: the embedded bi-encoder.
        most: questions per set at most, a seeded sample; None for all.
    """

    def __init__(self, data: Path, retrieval: BiEncoderScorer, most: int | None = None) -> None:
        self._data = data
        self._most = most
        self._bi_encoder = retrieval
        self._sets: dict[str, Callable[[str], CaseSet]] = {
            "BTT-answers": self._policy,
            "BTT-questions": self._policy,
            "CPF-answers": self._policy,
            "CPF-questions": self._policy,
            "XQuAD-en": self._xquad,
            "XQuAD-en-tfidf": self._xquad,
            "XQuAD-en-top5": self._xquad,
            "RGB-en": self._rgb,
            "RGB-en-passages": self._rgb,
            "microworld-subject": self._microworld,
            "microworld-relation": self._microworld,
            "XQuAD-zh": self._xquad,
            "RGB-zh": self._rgb,
            "NoMIRACL-en": self._nomiracl,
            **{f"{FAQ}{site}": self._faq for site in faq_sites(data)},
        }

    @property
    def names(self) -> tuple[str, ...]:
        """All names, in the order of the report."""
        return tuple(self._sets)

    def build(self, name: str) -> CaseSet:
        """The set called `name`.

        Raises:
            InputError: there is none, or its data is not there.
        """
        if name not in self._sets:
            raise InputError(f"unknown set {name!r}", hint=f"any of: {', '.join(self._sets)}")
        return self._sets[name](name)

    def _sample(self, cases: list[Case]) -> tuple[Case, ...]:
        if self._most is None or len(cases) <= self._most:
            return tuple(cases)
        return tuple(Random(SEED).sample(cases, self._most))

    def _dense(self, questions: Sequence[str], passages: Sequence[str]) -> Floats:
        found = self._bi_encoder.embed(questions) @ self._bi_encoder.embed(passages).T
        return np.asarray(found, dtype=np.float64)

    def _policy(self, name: str) -> CaseSet:
        domain, kind = name.split("-")
        path = self._data / "policybench" / "questions" / f"{domain}.json"
        rows = read_json(path)["questions"]
        questions = [row["question"] for row in rows]
        alone = kind == "answers"
        passages = [
            row["answer"] if alone else f"{row['question']}\n{row['answer']}" for row in rows
        ]
        kinds = "answers" if alone else "questions and answers"
        return self._left_out(
            name, f"PolicyBench {domain}, {kinds}", questions, passages, pooled=alone
        )

    def _faq(self, name: str) -> CaseSet:
        site = name.removeprefix(FAQ)
        rows = [row for _, row in read_jsonl(self._data / "faq_pack" / f"{site}.jsonl")]
        questions, answers = ([row[key] for row in rows] for key in ("question", "answer"))
        return self._left_out(name, f"FAQ site {site}, answers", questions, answers, pooled=True)

    def _left_out(
        self,
        name: str,
        title: str,
        questions: Sequence[str],
        passages: Sequence[str],
        *,
        pooled: bool,
    ) -> CaseSet:
        """Each question with its passage among the best five, and without it."""
        similar = self._dense(questions, passages)
        cases = []
        for at, question in enumerate(questions):
            others = [i for i in range(len(passages)) if passages[i] != passages[at]]
            cases.append(top_sets(question, passages, at, others, similar[at]))
        return CaseSet(
            name,
            f"{title}: top five with the source, top five without it",
            self._sample(cases),
            adaptable=True,
            pooled=pooled,
        )

    def _xquad(self, name: str) -> CaseSet:
        language, _, kind = name.removeprefix("XQuAD-").partition("-")
        path = self._data / "xquad" / f"xquad.{language}.even.json"
        paragraphs = [p for article in read_json(path)["data"] for p in article["paragraphs"]]
        texts = [paragraph["context"] for paragraph in paragraphs]
        asked = [
            (row["question"], row["answers"][0]["text"], at)
            for at, paragraph in enumerate(paragraphs)
            for row in paragraph["qas"]
        ]
        # The embedded English model cannot read Chinese; TF-IDF of words cannot split it.
        lexical = characters if language == "zh" else tf_idf
        retriever, by = (
            (lexical, "TF-IDF" if language == "en" else "shared character pairs")
            if kind == "tfidf" or language == "zh"
            else (self._dense, "bi-encoder")
        )
        similar = retriever([question for question, _, _ in asked], texts)
        plain = [normalise_answer(text) for text in texts]
        cases = []
        for row, (question, answer, own) in enumerate(asked):
            wanted = normalise_answer(answer)
            others = [i for i in range(len(texts)) if i != own and wanted not in plain[i]]
            if kind == "top5":
                cases.append(top_sets(question, texts, own, others, similar[row]))
            else:
                best = ranked(others, similar[row])[0]
                cases.append(Case(question, (texts[own],), (texts[best],)))
        what = (
            "top five with the own paragraph, top five without the answer"
            if kind == "top5"
            else "own paragraph, best other without the answer"
        )
        return CaseSet(name, f"XQuAD {language}: {what} (by {by})", self._sample(cases))

    def _rgb(self, name: str) -> CaseSet:
        language, _, kind = name.removeprefix("RGB-").partition("-")
        path = self._data / "rgb" / f"{language}_fact.first_half.jsonl"
        cases = [
            Case(row["query"], tuple(row["positive"]), tuple(row["negative"]))
            for _, row in read_jsonl(path)
            if row["positive"] and row["negative"]
        ]
        if kind:
            title = "positive snippets, negative snippets, each by itself"
        else:
            title = "as many positive snippets as negative ones, all together"
            cases = [alike_in_size(case) for case in cases]
        return CaseSet(
            name,
            f"RGB {language}: {title}",
            self._sample(cases),
            unit="passage" if kind else "set",
            lacks="on_topic",
        )

    def _nomiracl(self, name: str) -> CaseSet:
        rows = [row for _, row in read_jsonl(self._data / "nomiracl" / "en_even.jsonl")]
        if self._most is not None and len(rows) > self._most:
            rows = Random(SEED).sample(rows, self._most)
        said = {"yes": 1.0, "no": 0.0}
        return CaseSet(
            name,
            "NoMIRACL: ten retrieved passages, judged by people; questions are other ones",
            tuple(
                Case(row["question"], tuple(row["passages"]), ())
                if row["sufficient"]
                else Case(row["question"], (), tuple(row["passages"]))
                for row in rows
            ),
            lacks="on_topic",
            verdicts={
                judge: tuple(said.get(row["verdicts"][judge], 0.5) for row in rows)
                for judge in rows[0]["verdicts"]
            },
        )

    def _microworld(self, name: str) -> CaseSet:
        kind = name.removeprefix("microworld-")
        against = (
            "the same document without that statement"
            if kind == "subject"
            else "a document that states the same relation of another subject"
        )
        cases = microworld_cases(default_world(), same_subject=kind == "subject")
        title = f"microworld: document that states the answer, {against}"
        lacks: Literal["off_answer", "on_topic"] = "on_topic" if kind == "subject" else "off_answer"
        return CaseSet(name, title, self._sample(cases), lacks=lacks)


def faq_sites(data: Path) -> list[str]:
    """The sites of the FAQ pack; none where the pack is not there."""
    found = sorted(path.stem for path in (data / "faq_pack").glob("*.jsonl"))
    return [site for site in found if not site.startswith(NO_SITE)]


def alike_in_size(case: Case) -> Case:
    """The case with as many positives as negatives, so that the number tells nothing."""
    size = min(len(case.positives), len(case.negatives))
    return Case(case.question, case.positives[:size], case.negatives[:size])


def ranked(places: Sequence[int], similar: Floats) -> list[int]:
    """The places, most similar first; ties in their order."""
    return sorted(places, key=lambda place: -float(similar[place]))


def top_sets(
    question: str, passages: Sequence[str], source: int, others: Sequence[int], similar: Floats
) -> Case:
    """The best five passages with the source among them, against the best five of `others`.

    Where the source is not among the best five it takes the place of the fifth.
    """
    best = ranked(range(len(passages)), similar)[:TOP]
    if source not in best:
        best[-1] = source
    return Case(
        question,
        tuple(passages[i] for i in best),
        tuple(passages[i] for i in ranked(others, similar)[:TOP]),
    )


def tf_idf(questions: Sequence[str], passages: Sequence[str]) -> Floats:
    """Cosines of TF-IDF vectors of words, fitted on the passages."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer: Any = TfidfVectorizer()
    of_passages = vectorizer.fit_transform(passages)
    return np.asarray((vectorizer.transform(questions) @ of_passages.T).toarray())


def characters(questions: Sequence[str], passages: Sequence[str]) -> Floats:
    """Lexical coverage, which counts pairs of Chinese characters as words."""
    scorer = LexicalScorer()
    return np.stack([scorer.score(question, passages) for question in questions])


def microworld_cases(world: World, *, same_subject: bool) -> list[Case]:
    """A seeded sample of facts, each asked for in one phrasing that documents do not use.

    Args:
        world: where the facts come from.
        same_subject: the insufficient passage is the sufficient one without the sentence that
            states the fact; otherwise it states the same relation of another subject.
    """
    rng = Random(SEED)
    facts = list(world.facts)
    rng.shuffle(facts)
    cases: list[Case] = []
    for fact in facts:
        question = rng.choice(world.questions(fact, held_out=True)).text
        document = world.document_for(fact).text
        try:
            other = (
                without_fact(world, fact)
                if same_subject
                else world.irrelevant_document(fact, "similar", rng).text
            )
        except LookupError:
            continue
        cases.append(Case(question, (document,), (other,)))
        if len(cases) == MICROWORLD_QUESTIONS:
            break
    return cases


def without_fact(world: World, fact: Fact) -> str:
    """The document about the fact's subject without the sentence that states the fact.

    Raises:
        LookupError: the value stands elsewhere in the document, too.
    """
    document = world.document_for(fact).text
    for phrasing in range(len(world.relation(fact).statements)):
        before, stated, after = document.partition(world.statement(fact, phrasing=phrasing))
        if stated:
            rest = " ".join(f"{before} {after}".split())
            if normalise_answer(fact.value) in normalise_answer(rest):
                break
            return rest
    raise LookupError(f"{fact.id} cannot be left out")
