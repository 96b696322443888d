"""`knowgate eval uaqfact`: does the model know when a question has no answer?"""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import typer
from rich.table import Table

from ...guard.errors import InputError
from ...guard.files import write_json
from ..data.uaqfact import ALL_TASKS, UaqData, read_layout
from ..suites.uaqfact import (
    TASK3_FORMS,
    Form,
    Prompts,
    UaqParts,
    UaqSettings,
    embedded_prompts,
    limited,
    read_replies,
    run_uaqfact,
)
from ..systems import EMBEDDED, LoggedReplies, load_guards, load_language_model
from ._console import out, progress_bar
from ._eval import suites

_REPLAY = "replay"


@suites.command()
def uaqfact(
    data: Annotated[
        Path, typer.Option(help="Folder with task1, task2, task3; published or generated.")
    ],
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
    tasks: Annotated[str, typer.Option(help="Of 1, 2, 3, with commas between them.")] = "1,2,3",
    lang: Annotated[
        str | None, typer.Option(help="en, zh, or both with a comma; all there are by default.")
    ] = None,
    forms: Annotated[
        str, typer.Option(help="Of task 3: clue, facts, retrieved, with commas between them.")
    ] = "clue",
    guard: Annotated[
        list[Path] | None,
        typer.Option(
            help="`premise` (looks at the question's premise alone), a policy.json, or the folder "
            "of a calibrated run, to put in front of the model in task 3. Repeatable."
        ),
    ] = None,
    scorer: Annotated[
        str | None,
        typer.Option(
            help="Scorer of the guards, by name or folder.  [default: what each policy names]"
        ),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(min=1, help="At most that many questions of each type, kind and language."),
    ] = None,
    shots: Annotated[int, typer.Option(min=0, help="Few-shot examples per prompt.")] = 4,
    prompts: Annotated[
        Path | None, typer.Option(help="Folder with prompts of your own; see the guide.")
    ] = None,
    concurrency: Annotated[int, typer.Option(min=1, help="Calls of a chat model at once.")] = 8,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Read and count the questions; ask nothing.")
    ] = False,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="With --dry-run: the counts as JSON.")
    ] = None,
) -> None:
    """Unanswerable factual questions (UAQFact), and their answerable twins.

    Task 1 asks the questions, task 2 the facts behind them, task 3 the questions together
    with those facts. Killed and started again with the same arguments, the run goes on where
    it stopped.

    Example: `knowgate eval uaqfact --data uaqfact/1.0 --tasks 1,2,3 --lang en,zh --out run`
    """
    settings = UaqSettings(
        tasks=_tasks(tasks),
        languages=None if lang is None else _languages(lang),
        forms=_forms(forms),
        shots=shots,
        limit=limit,
        # It was never taught letters.
        choose_by="text" if model == EMBEDDED else "letter",
    )
    # Before a model is loaded, which takes seconds: what is wrong with the data.
    read = limited(read_layout(data, languages=settings.languages, tasks=settings.tasks), limit)
    if dry_run:
        _show_counts(read, json_file)
        return
    if json_file is not None:
        raise InputError("is for --dry-run", where="--json", hint="add --dry-run or leave it out")
    if out_dir is None:
        raise InputError("is missing", where="--out", hint="name the run folder, or --dry-run")
    if guard and 3 not in settings.tasks:
        raise InputError("stands before task 3", where="--guard", hint="add 3 to --tasks")
    if scorer is not None and not guard:
        raise InputError("is for guards", where="--scorer", hint="add --guard, or leave it out")
    asked = _model(model, replies, concurrency)
    loaded = load_guards(
        guard or [], None if isinstance(asked, LoggedReplies) else asked, scorer=scorer
    )
    parts = UaqParts(
        prompts=_prompts(model, prompts), guards=loaded.guards, guard_sha256=loaded.sha256
    )
    with progress_bar("asking questions") as advance:
        run_uaqfact(asked, data, out_dir, settings=settings, parts=parts, on_progress=advance)
    out.print(f"run → {out_dir}\nnext: knowgate report {quote(str(out_dir))}", markup=False)


def _prompts(model: str, folder: Path | None) -> Prompts:
    return embedded_prompts() if model == EMBEDDED and folder is None else Prompts(folder)


def _model(name: str, replies: Path | None, concurrency: int) -> Any:
    if name == _REPLAY:
        if replies is None:
            raise InputError("is missing", where="--replies", hint="name the logged replies")
        return read_replies(replies)
    if replies is not None:
        raise InputError("is for --model replay", where="--replies", hint="leave it out")
    return load_language_model(name, max_concurrency=concurrency)


def _show_counts(data: UaqData, json_file: Path | None) -> None:
    table = Table("task", "type", "kind", "language", "questions", box=None, pad_edge=False)
    counts: dict[str, Any] = {}
    total = dict.fromkeys(data.languages, 0)
    for task, question_type, kind, language, number in data.counts():
        table.add_row(task, question_type, kind or "–", language, str(number))
        by_type = counts.setdefault(task, {}).setdefault(language, {})
        if kind:
            by_type.setdefault(question_type, {})[kind] = number
        else:
            by_type[question_type] = number
        if task == "task1":
            total[language] += number
    out.print(table)
    for language, number in total.items():
        out.print(f"total {language}: {number}")
    for quirk in data.quirks:
        out.print(f"note: {quirk}", markup=False)
    if json_file is not None:
        write_json(json_file, {"total": total, "counts": counts, "quirks": list(data.quirks)})


def _tasks(text: str) -> tuple[int, ...]:
    found = []
    for part in _parts(text):
        if not part.isdecimal() or int(part) not in ALL_TASKS:
            raise InputError(f"there is no task {part!r}", where="--tasks", hint="of 1,2,3")
        found.append(int(part))
    return tuple(dict.fromkeys(found))


def _languages(text: str) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(_parts(text)))
    if not found:
        raise InputError("names no language", where="--lang", hint="en, zh, or en,zh")
    return found


def _forms(text: str) -> tuple[Form, ...]:
    chosen = _parts(text)
    strangers = [name for name in chosen if name not in TASK3_FORMS]
    if strangers:
        raise InputError(
            f"there is no form {strangers[0]!r}", where="--forms", hint=", ".join(TASK3_FORMS)
        )
    return tuple(form for form in TASK3_FORMS if form in chosen)


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
