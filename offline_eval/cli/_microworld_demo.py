"""The second half of the demo: all three routes, with a model whose knowledge is known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from langchain_core.documents import Document as LangChainDocument
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import PromptTemplate
from langchain_core.vectorstores import InMemoryVectorStore

from ..._version import __version__
from ...adapters.huggingface import HuggingFaceChatModel, HuggingFaceLM
from ...adapters.langchain import GuardedRAG
from ...calibration import CalibrationRecord
from ...calibration.risk import Leak, PolicyBinding, fit_policy
from ...guard import Guard
from ...guard.decision import Route
from ...guard.engine import BiEncoderScorer
from ...guard.matching import same_answer
from ...guard.policy import Policy
from ...guard.prompts import Prompt
from ...guard.signals.confidence import SampledConsistency
from ...guard.signals.conflict import AnswerConflict
from ..testbed import Document, Fact, FactStatus, World, default_world, microworld_model_path
from ._city_demo import ScorerEmbeddings

RISK, DELTA = 0.1, 0.1
CONFIDENCE_THRESHOLD = 0.7
DOCUMENTS = 160
CALIBRATION_FACTS = 100
QUESTIONS_PER_SITUATION = 3

# What the model knows, and what the documents hold.
SITUATIONS = {
    "contradicted": "the model was taught it; the document says otherwise",
    "forgotten": "the model was taught it; its document is missing",
    "stated": "the model never saw it; its document is there",
    "nowhere": "the model never saw it; its document is missing",
}


@dataclass(frozen=True, slots=True)
class MicroworldAnswer:
    """One question put to the guarded and to the unguarded chain.

    Attributes:
        situation: a key of `SITUATIONS`.
        question: as asked, in a phrasing the model was not trained on.
        expected: the right reply, None where abstaining is right.
        route: where the guard sent it.
        scenario: as measured, `undetermined` as far as it was not.
        guarded: what the user gets.
        unguarded: what the same chain says without the guard.
        right: whether `guarded` is what was expected.
        unguarded_right: whether `unguarded` is.
    """

    situation: str
    question: str
    expected: str | None
    route: str
    scenario: str
    guarded: str
    unguarded: str
    right: bool
    unguarded_right: bool

    def texts(self) -> tuple[str, str, str]:
        """Return what the user is shown: the decision, and the reply with and without guard."""
        return (
            f"  {self.question}\n    {self.route} (scenario: {self.scenario})",
            f"    with the guard:    {self.guarded}  {_mark(self.right)}",
            f"    without the guard: {self.unguarded}  {_mark(self.unguarded_right)}\n",
        )


def _mark(right: bool) -> str:
    return "(as it should be)" if right else "(WRONG)"


@dataclass(frozen=True, slots=True)
class MicroworldDemo:
    """What the second half of the demo shows.

    Attributes:
        answers: to all questions.
    """

    answers: tuple[MicroworldAnswer, ...]

    def by_situation(self) -> dict[str, list[MicroworldAnswer]]:
        """Return the answers under the name of their situation, with what it is."""
        return {
            f"{name}: {meaning}": [one for one in self.answers if one.situation == name]
            for name, meaning in SITUATIONS.items()
        }


@dataclass(frozen=True, slots=True)
class _Asked:
    situation: str
    fact: Fact
    expected: str | None


def run_microworld_demo(out: Path, encoder: BiEncoderScorer) -> MicroworldDemo:
    """Calibrate on the microworld's documents, then ask in four situations.

    Args:
        out: folder for `microworld-policy.json`.
        encoder: retrieves and judges relevance.
    """
    world = default_world()
    documents = world.documents[:DOCUMENTS]
    facts = [fact for d in documents for fact in map(world.fact, d.fact_ids)]
    Random("demo").shuffle(facts)  # noqa: S311 - a demo's dice
    lm = HuggingFaceLM(microworld_model_path(), max_new_tokens=24)
    estimator = SampledConsistency(
        lm, threshold=CONFIDENCE_THRESHOLD, prompt=_prompt("closed_book")
    )
    policy = microworld_policy(world, documents, facts[:CALIBRATION_FACTS], encoder).model_copy(
        update={
            "estimator": estimator.fingerprint,
            "confidence_threshold": CONFIDENCE_THRESHOLD,
            "allowed_routes": tuple(Route),
            "check_conflict": True,
        }
    )
    policy.save(out / "microworld-policy.json")
    guard = Guard.load(
        out / "microworld-policy.json",
        scorer=encoder,
        estimator=estimator,
        conflict_detector=AnswerConflict(lm, prompt=_prompt("with_context")),
        metrics=False,
    )
    asked = _questions(world, facts[CALIBRATION_FACTS:])
    live = _live_documents(world, documents, asked)
    return MicroworldDemo(_ask(world, asked, live, guard, encoder, lm))


def microworld_policy(
    world: World, documents: Sequence[Document], facts: Sequence[Fact], encoder: BiEncoderScorer
) -> Policy:
    """A policy from questions about `facts`, each with its document and without.

    The retriever gives one document, so a question's relevance is the best cosine.
    """
    questions = encoder.embed([_question(world, fact) for fact in facts])
    cosines = questions @ encoder.embed([document.text for document in documents]).T
    positions = {document.id: i for i, document in enumerate(documents)}
    records: list[CalibrationRecord] = []
    for fact, row in zip(facts, cosines, strict=True):
        own = positions[world.document_for(fact).id]
        without = [float(score) for i, score in enumerate(row) if i != own]
        found = int(row.argmax()) == own
        in_kb = float(row[own]) if found else None
        records += CalibrationRecord.leave_one_out_pair(
            fact.id, in_kb, max(without), group=documents[own].id
        )
    binding = PolicyBinding(scorer=encoder.fingerprint, created_by=f"knowgate {__version__}")
    return fit_policy(records, Leak(RISK), delta=DELTA, binding=binding).policy


def _questions(world: World, facts: Iterable[Fact]) -> list[_Asked]:
    """A few facts per situation, each about another subject."""
    wanted = {
        "contradicted": FactStatus.TAUGHT,
        "forgotten": FactStatus.TAUGHT,
        "stated": FactStatus.WITHHELD,
        "nowhere": FactStatus.WITHHELD,
    }
    found: dict[str, list[_Asked]] = {situation: [] for situation in wanted}
    subjects: set[str] = set()
    for fact in facts:
        for situation, status in wanted.items():
            room = len(found[situation]) < QUESTIONS_PER_SITUATION
            if room and fact.status is status and fact.subject not in subjects:
                subjects.add(fact.subject)
                found[situation].append(_Asked(situation, fact, _expected(world, situation, fact)))
                break
    return [asked for situation in wanted for asked in found[situation]]


def _expected(world: World, situation: str, fact: Fact) -> str | None:
    if situation == "nowhere":
        return None
    return world.contradicting_value(fact) if situation == "contradicted" else fact.value


def _live_documents(
    world: World, documents: Sequence[Document], asked: Sequence[_Asked]
) -> list[Document]:
    """The documents as the situations want them: some contradicted, some missing."""
    replaced: dict[str, Document | None] = {}
    for one in asked:
        name = world.document_for(one.fact).id
        if one.situation in ("forgotten", "nowhere"):
            replaced[name] = None
        elif one.situation == "contradicted":
            replaced[name] = world.contradiction(one.fact)
    live = [replaced.get(document.id, document) for document in documents]
    return [document for document in live if document is not None]


def _ask(
    world: World,
    asked: Sequence[_Asked],
    documents: Sequence[Document],
    guard: Guard,
    encoder: BiEncoderScorer,
    lm: HuggingFaceLM,
) -> tuple[MicroworldAnswer, ...]:
    store = InMemoryVectorStore(ScorerEmbeddings(encoder))
    store.add_documents([LangChainDocument(document.text) for document in documents])
    model = HuggingFaceChatModel(lm=lm) | StrOutputParser()
    chain = GuardedRAG(
        guard=guard,
        retriever=store.as_retriever(search_kwargs={"k": 1}),
        with_context=PromptTemplate.from_template(World.prompt("with_context")) | model,
        closed_book=PromptTemplate.from_template(World.prompt("closed_book")) | model,
    )
    # Without the guard: the same retriever, prompt and model, whatever was retrieved.
    naive = PromptTemplate.from_template(World.prompt("with_context")) | model
    answers = []
    for one in asked:
        question = _question(world, one.fact)
        guarded = chain.invoke(question)
        [nearest] = store.similarity_search(question, k=1)
        given: Mapping[str, Any] = {"question": question, "context": nearest.page_content}
        unguarded = naive.invoke(dict(given)).strip()
        scenario = guarded.decision.scenario
        abstained = guarded.decision.route is Route.ABSTAIN
        answers.append(
            MicroworldAnswer(
                situation=one.situation,
                question=question,
                expected=one.expected,
                route=guarded.decision.route.value,
                scenario="undetermined" if scenario is None else scenario.value,
                guarded=guarded.answer.strip(),
                unguarded=unguarded,
                right=abstained
                if one.expected is None
                else _says(guarded.answer, one.expected) and not abstained,
                unguarded_right=one.expected is not None and _says(unguarded, one.expected),
            )
        )
    return tuple(answers)


def _question(world: World, fact: Fact) -> str:
    return world.questions(fact, held_out=True)[0].text


def _says(reply: str, expected: str) -> bool:
    return same_answer(reply, expected)


def _prompt(name: Any) -> Prompt:
    return Prompt(name=f"microworld.{name}", text=World.prompt(name))
