"""`knowgate eval conflict`: what does the model do when a passage contradicts it?"""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Annotated, Any, get_args

import typer

from ...adapters.huggingface import HuggingFaceLM
from ...guard.contracts import LanguageModel
from ...guard.errors import InputError
from ...guard.signals.conflict import CrossEncoderEntailment
from ..suites.conflict import (
    ALL_KINDS,
    ALL_TASKS,
    MICROWORLD,
    AnswerForm,
    BeliefSource,
    ConflictItem,
    ConflictParts,
    ConflictSettings,
    EvidenceKind,
    PassageJudge,
    PromptSet,
    Task,
    conflict_files,
    microworld_items,
    read_conflict_run,
    read_conflict_set,
    read_replies,
    run_conflict,
)
from ..systems import LoggedReplies, load_guards, load_language_model
from ._console import out, progress_bar
from ._eval import suites

_REPLAY = "replay"
# An explanation and then a line with the letter: no stop at the first line's end.
_EXPLAINED_TOKENS = 320


@suites.command()
def conflict(
    data: Annotated[
        str,
        typer.Option(
            help="microworld, or a file or folder: ConflictQA, WikiContradict, or JSON lines with "
            "question and answers."
        ),
    ] = MICROWORLD,
    out_dir: Annotated[
        Path | None, typer.Option("--out", help="Run folder; resumed if it exists.")
    ] = None,
    model: Annotated[
        str,
        typer.Option(
            help="embedded, a model folder, provider:model, python:module:attribute, or replay."
        ),
    ] = "embedded",
    replies: Annotated[
        Path | None, typer.Option(help="With --model replay: logged replies, JSON lines.")
    ] = None,
    beliefs: Annotated[
        str | None,
        typer.Option(
            help="given with the data, asked (yes or no for each answer), or closed_book; given "
            "where the data have them, asked otherwise."
        ),
    ] = None,
    tasks: Annotated[
        str, typer.Option(help="Of KF, CK, PK, PCK, RAG, with commas between them.")
    ] = ",".join(ALL_TASKS),
    evidence: Annotated[
        str, typer.Option(help="Of NC, HPC, HPCE, LPC, with commas between them.")
    ] = ",".join(ALL_KINDS),
    answers: Annotated[
        str | None,
        typer.Option(
            help="letters, likelihood or free; likelihood for a model that scores options and has "
            "no chat template, letters otherwise."
        ),
    ] = None,
    editor: Annotated[
        str | None, typer.Option(help="A model that writes evidence that the data do not have.")
    ] = None,
    judge: Annotated[
        list[str] | None,
        typer.Option(
            help="A model that checks passages; name two. The first reads free answers. Repeatable."
        ),
    ] = None,
    nli: Annotated[
        Path | None, typer.Option(help="Folder of an entailment model that checks passages.")
    ] = None,
    guard: Annotated[
        list[Path] | None,
        typer.Option(
            help="A policy that decides whether PK's passage is removed; what it asks of a model "
            "it asks of --model. Repeatable."
        ),
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="At most that many questions.")] = None,
    seed: Annotated[int, typer.Option(help="Of the options' places.")] = 0,
    prompts: Annotated[
        Path | None, typer.Option(help="Folder with prompts of your own; see the guide.")
    ] = None,
    concurrency: Annotated[int, typer.Option(min=1, help="Calls of a chat model at once.")] = 8,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Read and count the questions; ask nothing.")
    ] = False,
) -> None:
    """Context against memory: beliefs, passages that contradict them, five tasks.

    Killed and started again with the same arguments, the run goes on where it stopped.

    Example: `knowgate eval conflict --data microworld --out run`
    """
    items, quirks, inputs = _items(data)
    settings = ConflictSettings(
        tasks=tuple(Task(name) for name in _chosen(tasks, ALL_TASKS, "--tasks")),
        kinds=tuple(EvidenceKind(name) for name in _chosen(evidence, ALL_KINDS, "--evidence")),
        beliefs=_beliefs(beliefs, items),
        answers=None if answers is None else _one_of(answers, get_args(AnswerForm), "--answers"),
        limit=limit,
        seed=seed,
    )
    if dry_run:
        _show_counts(items[:limit], quirks)
        return
    if out_dir is None:
        raise InputError("is missing", where="--out", hint="name the run folder, or --dry-run")
    texts = PromptSet(prompts)
    asked = _model(model, replies, concurrency, settings)
    loaded = load_guards(guard or [], None if isinstance(asked, LoggedReplies) else asked)
    parts = ConflictParts(
        prompts=texts,
        editor=None if editor is None else _writer(editor, concurrency),
        editor_name=editor or "",
        judges=tuple(PassageJudge(name, _writer(name, concurrency), texts) for name in judge or ()),
        entailment=None if nli is None else CrossEncoderEntailment(nli),
        guards=loaded.guards,
        guard_sha256=loaded.sha256,
        inputs=inputs,
        quirks=quirks,
    )
    with progress_bar("asking questions") as advance:
        run_conflict(asked, items, out_dir, settings=settings, parts=parts, on_progress=advance)
    _say(out_dir)


def _say(out_dir: Path) -> None:
    run = read_conflict_run(out_dir)
    out.print(
        f"{run.manifest.questions} questions, {sum(b.belief is not None for b in run.beliefs)} "
        f"with a belief, {len(run.instances)} with evidence for and against it"
    )
    out.print(f"run → {out_dir}\nnext: knowgate report {quote(str(out_dir))}", markup=False)


def _items(data: str) -> tuple[tuple[ConflictItem, ...], tuple[str, ...], tuple[Path, ...]]:
    if data == MICROWORLD:
        return microworld_items(), (), ()
    found = read_conflict_set(data)
    return found.items, found.quirks, conflict_files(data)


def _beliefs(name: str | None, items: tuple[ConflictItem, ...]) -> Any:
    if name is not None:
        return _one_of(name, get_args(BeliefSource), "--beliefs")
    return "given" if any(item.given is not None for item in items) else "asked"


def _model(
    name: str, replies: Path | None, concurrency: int, settings: ConflictSettings
) -> LanguageModel | LoggedReplies:
    if name == _REPLAY:
        if replies is None:
            raise InputError("is missing", where="--replies", hint="name the logged replies")
        return read_replies(replies)
    if replies is not None:
        raise InputError("is for --model replay", where="--replies", hint="leave it out")
    found = load_language_model(name, max_concurrency=concurrency)
    likelihood = settings.answers in (None, "likelihood")
    if isinstance(found, HuggingFaceLM) and not (likelihood and not found.uses_chat_template):
        return _explaining(name) or found
    return found


def _writer(name: str, concurrency: int) -> LanguageModel:
    return _explaining(name) or load_language_model(name, max_concurrency=concurrency)


def _explaining(name: str) -> HuggingFaceLM | None:
    if not Path(name).is_dir():
        return None
    return HuggingFaceLM(name, max_new_tokens=_EXPLAINED_TOKENS, stop=())


def _show_counts(items: tuple[ConflictItem, ...], quirks: tuple[str, ...]) -> None:
    acceptable = [item.acceptable for item in items]
    out.print(f"questions: {len(items)}")
    out.print(f"acceptable answers: {sum(map(len, acceptable))}")
    out.print(f"beliefs given: {sum(item.given is not None for item in items)}")
    texts = sum(bool(item.answers[i].passages) for item in items for i in item.acceptable)
    out.print(f"answers with a passage: {texts}")
    out.print(f"implausible answers: {sum(any(a.implausible for a in i.answers) for i in items)}")
    for quirk in quirks:
        out.print(f"note: {quirk}", markup=False)


def _chosen(text: str, known: tuple[str, ...], option: str) -> list[str]:
    names = [part.strip().upper() for part in text.split(",") if part.strip()]
    return [name for name in known if name in [_one_of(part, known, option) for part in names]]


def _one_of(name: str, known: tuple[str, ...], option: str) -> Any:
    if name not in known:
        raise InputError(f"there is no {name[:40]!r}", where=option, hint=", ".join(known))
    return name
