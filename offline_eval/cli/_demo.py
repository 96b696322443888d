"""`knowgate demo`: the whole way from a knowledge base to guarded answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import PromptTemplate
from langchain_core.runnables import Runnable, RunnableLambda
from langchain_core.vectorstores import InMemoryVectorStore
from rich.text import Text
from sentencex import segment

from ...adapters.huggingface import HuggingFaceChatModel, HuggingFaceLM
from ...adapters.langchain import GuardedRAG
from ...calibration.risk import Leak
from ...guard import Guard, GuardOptions
from ...guard.decision import Route
from ...guard.engine import BiEncoderScorer
from ...guard.files import write_text
from ...guard.matching import same_answer
from ...guard.prompts import Prompt
from ...guard.signals.confidence import SampledConsistency
from ...guard.signals.conflict import AnswerConflict
from ...guard.signals.relevance import load_scorer
from ..data.questions import PassageKind, QuestionRecord
from ..policies import Calibrated, calibrate_records, write_calibrated
from ..policies.records import CalibrationSet
from ..suites import ModelChoice, run_suite, write_report
from ..suites.ookb import MEASURE, OokbSuite
from ..suites.parts import RunOptions
from ..systems.factory import load_chat_model
from ..testbed import FactStatus, World, default_world, sample_knowledge_base_path
from ..testbed.check import microworld_model_path
from ..testbed.entities import Fact
from ._calibration_output import rate_text
from ._console import (
    call_progress,
    json_line,
    out,
    print_figures,
    print_table,
)
from ._options import prints_figures

DELTA = 0.1
# Calibrated together; the one that abstains least serves.
SCORERS = ("sufficiency", "late_interaction")
RISK = 0.2
# Articles that the live help desk does not have, so that their questions must be abstained from.
MISSING_ARTICLES = 5
LIVE_QUESTIONS = 12
# Of the microworld.
MICROWORLD_RISK, CONFIDENCE_THRESHOLD = 0.1, 0.7
DOCUMENTS, CALIBRATION_FACTS, QUESTIONS_PER_SITUATION = 160, 100, 3
SITUATIONS = {
    "contradicted": "the model was taught it; the document says otherwise",
    "forgotten": "the model was taught it; its document is missing",
    "stated": "the model never saw it; its document is there",
    "nowhere": "the model never saw it; its document is missing",
}
# No deadline: how busy the machine is must not change what the demo shows.
_PATIENT: Mapping[str, float | None] = {"relevance": None}


@dataclass(frozen=True, slots=True)
class Answer:
    """One question put to the guarded chain, and to the same chain without a guard.

    Attributes:
        question: as asked.
        situation: what the knowledge base holds of it.
        route: where the guard sent it.
        relevance: calibrated probability that what was retrieved suffices.
        scenario: as measured; None as far as it was not.
        guarded: what the user gets.
        unguarded: what the same chain says without the guard.
    """

    question: str
    situation: str
    route: str
    relevance: float | None
    scenario: str | None
    guarded: str
    unguarded: str


@prints_figures
def demo(
    out_dir: Path = Path("knowgate-demo"),
    model: str | None = None,
) -> None:
    """Guard a small RAG chain, calibrate it and report: offline, without a key.

    Example: `knowgate demo --out knowgate-demo`

    Args:
        out_dir: Folder for run, policy and report.
        model: A language model that reads the articles, with and without the guard, e.g.
            smollm2 (minutes of CPU time).
    """
    if model is not None:
        load_chat_model(model)  # before anything is measured: it may be missing
    questions = sample_knowledge_base_path()
    records = QuestionRecord.read(questions)
    articles = len({record.source for record in records})
    out.print(
        f"Measuring {len(records)} questions on {articles} city articles, each with its article "
        "and without …"
    )
    found = measured_and_calibrated(
        questions, out_dir, SCORERS, Leak(RISK), passage=PassageKind.TITLED
    )
    policy, chosen = out_dir / "policy.json", found.measured.name
    write_calibrated(found, policy)
    report = write_report(out_dir / chosen).html
    if found.policy.guarantee is not None:
        out.print(f"\n{found.policy.guarantee.statement}\n", markup=False)
    out.print(
        f"Of {' and '.join(SCORERS)}, {chosen} abstains least: from "
        f"{rate_text(found.false_abstention)} of the questions whose article is there.\n",
        markup=False,
    )
    if model is None:
        guard = Guard.load(policy, options=GuardOptions(deadlines=_PATIENT), metrics=False)
        answers = live_answers(guard, records)
        for one in answers:
            _show(one, f"its article is {one.situation}; relevance {one.relevance or 0:.2f}")
        figures: dict[str, Any] = {"answers": answers, "situations": _microworld(out_dir)}
    else:
        figures = _read_by(model, questions, out_dir, chosen)
    print_figures({**figures, "policy": policy, "report": report})
    out.print(f"\npolicy → {policy}\nreport → {report} (open it in a browser)", markup=False)


def measured_and_calibrated(
    questions: Path,
    folder: Path,
    scorers: Iterable[str],
    risk: Leak,
    *,
    confidence_threshold: float | None = None,
    **settings: Any,
) -> Calibrated:
    """Measure questions by some scorers, each into a run of its name, and calibrate the best."""
    names = tuple(scorers)
    with call_progress() as advance:
        for name in names:
            asked = MEASURE.settings(questions=questions, scorer=name, **settings)
            options = RunOptions(on_progress=advance)
            run_suite(MEASURE, asked, folder / name, ModelChoice(""), options)
    return calibrate_records(
        [CalibrationSet.of_run(folder / name) for name in names],
        risk,
        delta=DELTA,
        counted=True,
        confidence_threshold=confidence_threshold,
    )


# -- the help desk ------------------------------------------------------------------


class EmbeddedEncoder(Embeddings):
    """LangChain embeddings from the bundled bi-encoder."""

    def __init__(self) -> None:
        self._encoder = BiEncoderScorer()

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return unit-length embeddings of texts."""
        vectors: list[list[float]] = self._encoder.embed(texts).tolist() if texts else []
        return vectors

    def embed_query(self, text: str) -> list[float]:
        """Return the unit-length embedding of a text."""
        return self.embed_documents([text])[0]


def extractive_reader() -> Runnable[Any, str]:
    """Return a runnable that answers with the sentence of the context nearest to the question."""
    encoder = EmbeddedEncoder()

    def read(given: Mapping[str, Any]) -> str:
        lines = [
            line for text in str(given["context"]).splitlines() for line in segment("en", text)
        ]
        # A title answers nothing.
        sentences = [one.strip() for one in lines if one.strip().endswith((".", "!", "?"))] or lines
        question, *vectors = encoder.embed_documents([str(given["question"]), *sentences])
        nearest: str = sentences[int(np.argmax(np.array(vectors) @ np.array(question)))]
        return nearest

    return RunnableLambda(read)


def help_desk(guard: Guard, records: Sequence[QuestionRecord]) -> GuardedRAG:
    """Return a chain over the articles of some questions, as a user would build it."""
    texts = dict.fromkeys((record.source or "", record.passage or "") for record in records)
    documents = [Document(f"{title}\n{text}", metadata={"source": title}) for title, text in texts]
    return _chain(guard, documents, extractive_reader(), k=5)


def _chain(
    guard: Guard,
    documents: Sequence[Document],
    reader: Runnable[Any, str],
    *,
    k: int,
    closed_book: Runnable[Any, str] | None = None,
) -> GuardedRAG:
    store = InMemoryVectorStore(EmbeddedEncoder())
    store.add_documents(list(documents))
    retriever = store.as_retriever(search_kwargs={"k": k})
    return GuardedRAG(
        guard=guard, retriever=retriever, with_context=reader, closed_book=closed_book
    )


def live_answers(guard: Guard, records: Sequence[QuestionRecord]) -> list[Answer]:
    """Ask a help desk that lacks some articles; half of the questions are about those."""
    articles = list(dict.fromkeys(record.source for record in records))
    missing = set(articles[:: len(articles) // MISSING_ARTICLES][:MISSING_ARTICLES])
    there, gone = (
        [record for record in records if (record.source in missing) is is_gone]
        for is_gone in (False, True)
    )
    half = LIVE_QUESTIONS // 2
    # At even distances, so that they come from different articles.
    asked = [
        (some[place * len(some) // half].question, situation)
        for some, situation in ((there, "in the knowledge base"), (gone, "missing"))
        for place in range(half)
    ]
    return _ask(help_desk(guard, there), asked)


def _ask(chain: GuardedRAG, asked: Sequence[tuple[str, str]]) -> list[Answer]:
    """Ask the chain, and the same chain with a guard that only watches."""
    watching = GuardOptions(mode="shadow", deadlines=_PATIENT)
    free = chain.with_parts(guard=Guard.default(options=watching, metrics=False))
    questions = [question for question, _ in asked]
    return [
        Answer(
            question,
            situation,
            guarded.decision.route.value,
            guarded.decision.relevance,
            None if guarded.decision.scenario is None else guarded.decision.scenario.value,
            guarded.answer.strip(),
            unguarded.answer.strip(),
        )
        for (question, situation), guarded, unguarded in zip(
            asked, chain.batch(questions), free.batch(questions), strict=True
        )
    ]


def _show(answer: Answer, facts: str, *marks: str) -> None:
    """Print what the guard decided, and the replies with and without it."""
    guarded, unguarded = marks or ("", "")
    out.print(
        Text(answer.question, style="bold"),
        Text(f"({facts} → {answer.route})"),
        Text(f"  with the guard:    {answer.guarded}{guarded}"),
        Text(f"  without the guard: {answer.unguarded}{unguarded}\n", style="dim"),
        sep="\n",
    )


def _read_by(model: str, questions: Path, folder: Path, chosen: str) -> dict[str, Any]:
    """Let a model answer all questions, with the guard and without, and write the report."""
    out.print(f"Now {model} reads the articles, each question with its article and without …")
    settings = OokbSuite.settings(
        questions=(questions,),
        models=(model,),
        guards=("off", str(folder / chosen)),
        passage=PassageKind.TITLED,
        top_k=2,
    )
    replies = folder / "replies"
    with call_progress() as advance:
        result = run_suite(
            OokbSuite(), settings, replies, ModelChoice(""), RunOptions(on_progress=advance)
        )
    page = write_report(replies).html
    out.print(f"replies with and without the guard → {page}", markup=False)
    return {"replies": asdict(result.totals), "replies_report": page}


# -- all three routes, with a model of which it is known what it knows ----------------


def _microworld(folder: Path) -> dict[str, dict[str, int]]:
    """Ask in four situations, print the answers, and return how many are right."""
    out.print("Now with a language model, on the microworld: a region that does not exist …\n")
    counts: dict[str, dict[str, int]] = {}
    for situation, answers in microworld_answers(folder).items():
        out.print(Text(f"{situation}: {SITUATIONS[situation]}", style="bold"))
        right, unguarded_right = 0, 0
        for one, expected in answers:
            abstained = one.route == Route.ABSTAIN.value
            rights = (
                abstained if expected is None else same_answer(one.guarded, expected),
                expected is not None and same_answer(one.unguarded, expected),
            )
            marks = ("  (as it should be)" if is_right else "  (WRONG)" for is_right in rights)
            _show(one, f"scenario: {one.scenario or 'undetermined'}", *marks)
            right, unguarded_right = right + rights[0], unguarded_right + rights[1]
        counts[situation] = {
            "questions": len(answers),
            "right_with_guard": right,
            "right_without": unguarded_right,
        }
    print_table(
        ("situation", "questions", "right with the guard", "right without it"),
        [(name, *map(str, row.values())) for name, row in counts.items()],
    )
    return counts


def microworld_answers(folder: Path) -> dict[str, list[tuple[Answer, str | None]]]:
    """Calibrate on the microworld's documents, then ask in each of `SITUATIONS`.

    Returns:
        By situation the answers, each with the right reply; None where abstaining is right.
    """
    world = default_world()
    documents = world.documents[:DOCUMENTS]
    facts = [fact for document in documents for fact in map(world.fact, document.fact_ids)]
    Random("demo").shuffle(facts)  # noqa: S311 - a demo's dice
    reader = HuggingFaceLM(microworld_model_path(), max_new_tokens=24)
    guard = _microworld_guard(world, facts[:CALIBRATION_FACTS], reader, folder / "microworld")
    chosen = _situations(facts[CALIBRATION_FACTS:])
    texts = {document.id: document.text for document in documents}
    expected: dict[str, tuple[str, str | None]] = {}
    for situation, some in chosen.items():
        for fact in some:
            name, right = world.document_for(fact).id, fact.value
            if situation == "contradicted":
                texts[name], right = world.contradiction(fact).text, world.contradicting_value(fact)
            elif situation != "stated":
                del texts[name]
            expected[_question(world, fact)] = (
                situation,
                None if situation == "nowhere" else right,
            )
    parts = {
        name: PromptTemplate.from_template(World.prompt(name))
        | HuggingFaceChatModel(lm=reader)
        | StrOutputParser()
        for name in ("with_context", "closed_book")
    }
    chain = _chain(
        guard,
        [Document(text) for text in texts.values()],
        parts["with_context"],
        k=1,
        closed_book=parts["closed_book"],
    )
    answers = _ask(chain, [(question, name) for question, (name, _) in expected.items()])
    return {
        situation: [
            (one, expected[one.question][1]) for one in answers if one.situation == situation
        ]
        for situation in SITUATIONS
    }


def _microworld_guard(
    world: World, facts: Sequence[Fact], lm: HuggingFaceLM, folder: Path
) -> Guard:
    """Return a guard that may answer from memory, calibrated on questions about some facts."""
    folder.mkdir(parents=True, exist_ok=True)
    questions = folder / "questions.jsonl"
    rows = (
        {
            "id": fact.id,
            "question": _question(world, fact),
            "answer": fact.value,
            "passage": world.document_for(fact).text,
        }
        for fact in facts
    )
    write_text(questions, "".join(map(json_line, rows)))
    found = measured_and_calibrated(
        questions,
        folder,
        ["bi_encoder"],
        Leak(MICROWORLD_RISK),
        confidence_threshold=CONFIDENCE_THRESHOLD,
        top_k=1,
    )
    estimator = SampledConsistency(
        lm, threshold=CONFIDENCE_THRESHOLD, prompt=_prompt("closed_book")
    )
    policy = found.policy.model_copy(
        update={"estimator": estimator.fingerprint, "check_conflict": True}
    )
    return Guard(
        policy,
        scorer=load_scorer("bi_encoder"),
        estimator=estimator,
        conflict_detector=AnswerConflict(lm, prompt=_prompt("with_context")),
        metrics=False,
    )


def _situations(facts: Iterable[Fact]) -> dict[str, list[Fact]]:
    """Choose a few facts per situation, each about another subject."""
    taught = {"contradicted": True, "forgotten": True, "stated": False, "nowhere": False}
    found: dict[str, list[Fact]] = {situation: [] for situation in SITUATIONS}
    subjects: set[str] = set()
    for fact in facts:
        status = {FactStatus.TAUGHT: True, FactStatus.WITHHELD: False}.get(fact.status)
        for situation, some in found.items():
            has_room = len(some) < QUESTIONS_PER_SITUATION
            if taught[situation] is status and has_room and fact.subject not in subjects:
                subjects.add(fact.subject)
                some.append(fact)
                break
    return found


def _question(world: World, fact: Fact) -> str:
    """Ask in a phrasing that the model was not trained on."""
    return world.questions(fact, held_out=True)[0].text


def _prompt(name: Any) -> Prompt:
    return Prompt(name=f"microworld.{name}", text=World.prompt(name))
