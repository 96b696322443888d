"""`knowgate check` and `knowgate init`: the check before a release, and a project's options."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from ...guard.errors import InputError
from ...guard.files import read_text, write_text
from ...guard.fingerprint import default_aggregator
from ...guard.policy import Policy
from ...guard.signals.relevance.registry import scorer_name
from ._calibrate import MissingAnswers
from ._console import collected_figures, out, print_figures, tell
from ._options import documented, prints_figures, required
from ._project_file import FILE_NAME


@prints_figures
def check(
    ctx: typer.Context,
    questions: Path | None = None,
    chain: str | None = None,
    documents: Path | None = None,
    scorer: str | None = None,
    unanswerable: Path | None = None,
    missing: MissingAnswers | None = None,
    risk: float | None = None,
    policy: Path | None = None,
    accept_generated: bool = False,
    fail_if: Annotated[list[str] | None, typer.Option(metavar="EXPRESSION")] = None,
    formats: Annotated[str | None, typer.Option("--format")] = None,
    write_anyway: bool = False,
    out_dir: Path = Path("knowgate-check"),
) -> None:
    """Check a release: measure, calibrate or take a policy, report, and check gates.

    Does what `knowgate measure`, `calibrate` and `report` do, with the options and sections that
    knowgate.toml has for them; options given to `check` win. Exit code 1 where a gate fails, 3
    where no policy is written; the report is written all the same, and says why. A check that is
    killed continues when it is started again.

    Example: `knowgate init --questions kb.csv && knowgate check`

    Args:
        questions: As for `knowgate measure`, like the next three.
        chain: module:attribute of what is served.
        documents: A folder of documents.
        scorer: Scorer by name or folder.  [default: that of --policy, if it is given]
        unanswerable: As for `knowgate measure`, too.
        missing: As for `knowgate calibrate`, like all up to --write-anyway but --policy.
        risk: Bound α of the promise.
        accept_generated: Also where rules or a model made the questions.
        write_anyway: Write the policy whatever speaks against it.
        policy: Judge by this policy, as it stands, in place of calibrating one; the policy of
            an earlier check is removed from the folder.
        fail_if: A gate, as for `knowgate report`.
        formats: As for `knowgate report`.
        out_dir: Folder for run, policy and report; continued.
    """
    of_file = _of_file(ctx, "measure")
    if "questions" not in of_file:
        required(questions, "--questions", "name a file, or write one with `knowgate init`")
    scorers = of_file.get("scorer", ()) if scorer is None else [scorer]
    if any(one.startswith("mix:") for one in scorers):
        raise InputError(
            "a mix is measured and calibrated by two commands",
            where="--scorer",
            hint="`knowgate measure --scorer mix:…`, then `knowgate calibrate --mix`",
        )
    run, report, path = out_dir / "run", out_dir / "report", out_dir / "policy.json"
    taken = None if policy is None else Policy.load(policy)
    found: dict[str, Any] = {}
    measuring = {
        "questions": questions, "chain": chain, "documents": documents, "scorer": scorer,
        "unanswerable": unanswerable,
    }  # fmt: skip
    if taken is not None and not scorers:
        measuring |= _as_measured(taken)
    _, found["measure"] = _run(ctx, "measure", **measuring, out=run)
    if taken is not None and policy is not None:
        from ..policies.writing import judge_by

        judge_by(run, taken)
        certified, found["policy"] = 0, policy
        # The policy of an earlier check: the report beside it is about another one.
        if path.exists() and not path.samefile(policy):
            path.unlink()
    else:
        promised = {
            "risk": risk, "missing": missing, "accept-generated": accept_generated,
            "write-anyway": write_anyway,
        }  # fmt: skip
        with _replaced(path, run / "calibration.json", run / "refusal.json"):
            certified, calibrated = _run(ctx, "calibrate", **promised, run=run, out=path)
        found["calibrate"], found["policy"] = calibrated, calibrated["policy"]
    gates = [part for one in _gates(ctx, fail_if or ()) for part in ("--fail-if", one)]
    asked = {"format": formats, "out": report}
    failed, found["report"] = _run(ctx, "report", str(run), *gates, **asked)
    print_figures(found)
    tell("check", found, taken is not None)
    if certified or failed:
        raise typer.Exit(certified or failed)


def _as_measured(policy: Policy) -> dict[str, str]:
    """The options of `measure` that measure what a policy judges by.

    Raises:
        InputError: its scorer has no name.
    """
    found = {"scorer": scorer_name(policy.scorer)}
    if policy.aggregator != default_aggregator(policy.scorer.kind):
        found["aggregator"] = policy.aggregator
    return found


@contextmanager
def _replaced(*paths: Path) -> Iterator[None]:
    """Take files of an earlier check away, and put them back only where the input is rejected.

    A calibration that certifies nothing, or is of a cascade, does not write all of them again:
    the old ones would be taken for its result.
    """
    before = {path: read_text(path) for path in paths if path.exists()}
    for path in before:
        path.unlink()
    try:
        yield
    except InputError:
        for path, text in before.items():
            write_text(path, text)
        raise


def _gates(ctx: typer.Context, given: Sequence[str]) -> Sequence[str]:
    """Return the gates of the command line, else all that the file has for check and report."""
    source = ctx.get_parameter_source("fail_if")
    if source is not None and source.name == "COMMANDLINE":
        return given
    return list(dict.fromkeys([*given, *_of_file(ctx, "report").get("fail_if", ())]))


def _of_file(ctx: typer.Context, command: str) -> Mapping[str, Any]:
    """Return the parameters of a command that knowgate.toml has."""
    root: Any = ctx.parent
    root.command.resolve_command(root, [command])
    found: Mapping[str, Any] = (root.default_map or {}).get(command, {})
    return found


def _run(ctx: typer.Context, name: str, *arguments: str, **options: object) -> tuple[int, Any]:
    """Run a command with what knowgate.toml has for it; return exit code and figures."""
    given = [name, *arguments]
    for option, value in options.items():
        if value is not None and value is not False:
            given += [f"--{option}"] if value is True else [f"--{option}", str(value)]
    root: Any = ctx.parent
    _, command, rest = root.command.resolve_command(root, given)
    with collected_figures() as found, command.make_context(name, rest, parent=root) as inner:
        try:
            command.invoke(inner)
            code = 0
        except typer.Exit as ended:
            code = ended.exit_code
    return code, found[0]


@documented
def init(
    questions: Path = Path("questions.jsonl"),
    chain: str | None = None,
    unanswerable: Path | None = None,
    out_path: Path = Path(FILE_NAME),
) -> None:
    """Write a commented knowgate.toml, which all commands read.

    Example: `knowgate init --questions kb.csv --chain my_app:chain`

    Args:
        questions: File of questions.
        chain: module:attribute of your chain or retriever.
        unanswerable: File of questions that your documents do not answer.
        out_path: File to write; it must not exist.
    """
    if out_path.exists():
        raise InputError(
            "exists already", where=str(out_path), hint="edit it, or name another --out"
        )
    text = Path(__file__).with_name("project_file.toml").read_text(encoding="utf-8")
    examples = {"chain": "my_app:chain", "unanswerable": "unanswerable.jsonl"}
    given = {"chain": chain, "unanswerable": unanswerable}
    for key, example in examples.items():
        if given[key] is not None:
            text = text.replace(f'# {key} = "{example}"', f"{key} = {_quoted(given[key])}")
    write_text(out_path, text.replace('"questions.jsonl"', _quoted(questions)))
    out.print(f"project file → {out_path}\nnext: knowgate check")


def _quoted(value: object) -> str:
    # A JSON string is one of TOML, too.
    return json.dumps(str(value), ensure_ascii=False)
