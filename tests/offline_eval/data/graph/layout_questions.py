"""A small set of questions, made by hand."""

from __future__ import annotations

from knowgate.offline_eval.data.graph.items import (
    Answer,
    Answerability,
    ChoiceItem,
    Clue,
    QuestionType,
    Triple,
    UaqItem,
)
from knowgate.offline_eval.data.graph.layout import UaqData

UA, AB = Answerability.UNANSWERABLE, Answerability.ANSWERABLE
INTER, TIME, DILEMMA = QuestionType.INTER, QuestionType.TIME, QuestionType.DILEMMA


def item(
    qid: str,
    kind: Answerability,
    question_type: QuestionType = INTER,
    *,
    language: str = "en",
    question: str = "Who is the father of Bo and the mayor of Rill?",
    answer: str = "Ann Li",
    options: tuple[str, ...] = (),
    steps: tuple[tuple[str, str], ...] = (),
    triples: tuple[Triple, ...] = (),
) -> UaqItem:
    clues: tuple[Clue, ...]
    if steps:
        clues = tuple(Clue(question, (answer,)) for question, answer in steps)
    elif question_type is INTER:
        clues = (Clue("Who is the father of Bo?", ("Ann Li",)), Clue("Who is mayor?", ("Cy", "Di")))
    elif question_type is TIME:
        clues = (Clue("When did it begin?", ("1990",)), Clue("When did it end?", ("1995",)))
    else:
        clues = (Clue("what does Bo hold?", ("a prize", "a medal")),)
    return UaqItem(
        qid=qid,
        language=language,
        type=question_type,
        kind=kind,
        question=question,
        answers=(Answer("Q1", answer),) if kind is AB else (),
        options=options,
        clues=clues,
        triples=triples,
    )


def small_set(language: str = "en") -> UaqData:
    """One question of each type and kind, with examples and the facts behind them."""
    between = "还是" if language == "zh" else " or "
    items, choices, examples, clue_examples = [], [], {}, {}
    for question_type in (INTER, TIME, DILEMMA):
        name = question_type.value
        made = []
        for kind in (UA, AB):
            options: tuple[str, ...] = ()
            question, answer = f"Who {name}?", "Ann Li"
            if question_type is DILEMMA:
                options = ("a prize", "a cup") if kind is AB else ("a hat", "a cup")
                answer = "a prize"
                question = f"what does Bo hold, {between.join(options)} ?"
            made.append(
                item(
                    f"{name}_{kind.value}_1",
                    kind,
                    question_type,
                    language=language,
                    question=question,
                    answer=answer,
                    options=options,
                )
            )
        items += made
        examples[language, question_type] = clue_examples[language, question_type] = tuple(made)
        choices.append(
            ChoiceItem(
                qid=f"fact_{name}",
                language=language,
                type=question_type,
                question="When did it begin?",
                options=("1990", "1991", "1992", "1993"),
                target="1991",
                relevant=(f"{name}_ua_1",),
            )
        )
    return UaqData(tuple(items), tuple(choices), examples, clue_examples)
