"""`knowgate measure` and `knowgate eval …`: commands made of the settings of a suite.

A setting that names something is an option; the numbers and switches that few people change are
given as `--set name=value`.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from enum import Enum
from functools import partial
from pathlib import Path
from shlex import quote
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import typer
from pydantic import ValidationError, create_model
from pydantic.fields import FieldInfo
from typer.core import TyperGroup

from ...guard.errors import InputError
from ..suites import ModelChoice, Suite, SuiteSettings, find_suite, run_suite
from ..suites.driver import plan_suite
from ..suites.ookb import MEASURE, folder_name
from ..suites.parts import Overview, RunOptions
from ..suites.registry import suite_names
from ._app import command_of
from ._console import (
    HELP_MODE,
    call_progress,
    err,
    out,
    print_document,
    print_figures,
    print_table,
    tell,
)
from ._options import (
    CallOptions,
    Command,
    Pairs,
    RayCallOptions,
    described,
    documented,
    parse_pairs,
    reject,
    require_share,
    required,
    separated,
)

_OF_SYSTEMS: Any = typer.Option(rich_help_panel="Systems under test")
_NO_OUT = "name the run folder, or --dry-run"
# Numbers that have an option of their own.
_COMMON = ("limit", "seed", "top_k")
_SECONDS_PER_CALL = 120.0
AnySuite = Suite[Any, Any, Any, Any]

SettingsT = TypeVar("SettingsT", bound=SuiteSettings)


class SuiteGroup(TyperGroup):
    """The group `eval`: a command for every suite that is found."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands."""
        return suite_names()

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command; that of a suite is made when it is asked for."""
        if cmd_name in suite_names() or cmd_name.startswith("python:"):
            return command_of(suite_function(find_suite(cmd_name), cmd_name), cmd_name)
        return super().get_command(ctx, cmd_name)


eval_app = typer.Typer(cls=SuiteGroup, no_args_is_help=True, rich_markup_mode=HELP_MODE)


@eval_app.callback()
def eval_() -> None:
    """Run a suite of cases into a run folder."""


def suite_function(suite: AnySuite, named: str = "") -> Command:
    """Make the function of the command of a suite.

    Args:
        suite: its settings become options; its docstring is the help.
        named: what the suite was found by, which the report of a run needs where it is a module.
    """

    shared = _shared_options(suite)

    def command(**given: Any) -> None:
        of_run = {name: given[name] for name in shared}
        _run(suite, settings_of(suite.settings, given), named, **of_run)

    command.__doc__ = inspect.getdoc(type(suite))
    options = {**setting_options(suite.settings), **shared}
    return documented(command, figures=True, parameters=list(options.values()))


# -- options from settings ----------------------------------------------------------


def setting_options(model: type[SuiteSettings]) -> dict[str, inspect.Parameter]:
    """Return an option for each field of the settings, and one for the further numbers."""
    further = _further(model)
    # Those of all suites come last.
    names = sorted(model.model_fields, key=lambda name: name in SuiteSettings.model_fields)
    options = {
        name: _option(name, model.model_fields[name]) for name in names if name not in further
    }
    if further:
        texts = [
            f"{_option_name(name, field)[2:]}: {(field.description or '').rstrip('.')}"
            + (f" [{field.default}]" if field.default is not None else "")
            for name, field in further.items()
        ]
        text = f"Further settings as name=value: {'; '.join(texts)}."
        options["further"] = _parameter("further", list[str] | None, text, option="--set")
    return options


def _further(model: type[SuiteSettings]) -> dict[str, FieldInfo]:
    """The settings that are numbers or switches with a default."""
    return {
        name: field
        for name, field in model.model_fields.items()
        if item_type(field.annotation) in [(int, False), (float, False), (bool, False)]
        and not (name in _COMMON or field.is_required())
    }


def item_type(annotation: Any) -> tuple[Any, bool]:
    """Return the type of a value, without `None` and `Annotated`, and whether it is a list."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return item_type(inner[0])
    if origin in (Union, UnionType):
        kinds = [one for one in inner if one is not type(None)]
        return item_type(kinds[0]) if len(kinds) == 1 else (str, False)
    if origin in (list, tuple, set, frozenset):
        return item_type(inner[0])[0], True
    return annotation, False


def _option(name: str, field: FieldInfo) -> inspect.Parameter:
    item, several = item_type(field.annotation)
    help_text = field.description or ""
    choices = _choices(item)
    if choices:
        help_text = f"{help_text.rstrip('.')}: {', '.join(choices)}." if help_text else ""
    default = field.get_default(call_default_factory=True)
    if several:
        help_text += " Repeatable."
        if default:
            help_text += f"  [default: {', '.join(str(_plain(one)) for one in default)}]"
    kind: Any = item if item in (int, float, bool, Path) else str
    if several:
        kind = list[Path] if item is Path else list[str]
    must = field.is_required()
    if not must and (several or default is None):
        kind, default = kind | None, None
    default = inspect.Parameter.empty if must else _plain(default)
    panel = _extra(field, "panel")
    return _parameter(name, kind, help_text.strip(), default, panel, _option_name(name, field))


def _extra(field: FieldInfo, name: str) -> Any:
    extra = field.json_schema_extra
    return extra.get(name) if isinstance(extra, dict) else None


def _option_name(name: str, field: FieldInfo) -> str:
    return str(_extra(field, "option") or f"--{name.replace('_', '-')}")


def _parameter(
    name: str,
    kind: Any,
    help_text: str,
    default: Any = None,
    panel: str | None = None,
    option: str | None = None,
) -> inspect.Parameter:
    info = typer.Option(*filter(None, [option]), help=help_text, rich_help_panel=panel)
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, info]
    )


def _choices(item: Any) -> list[str]:
    if get_origin(item) is Literal:
        return [str(one) for one in get_args(item)]
    if isinstance(item, type) and issubclass(item, Enum):
        return [str(one.value) for one in item]
    return []


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, Enum) else value


def settings_of(model: type[SettingsT], given: Mapping[str, Any]) -> SettingsT:
    """Make settings of the values of options; None is an option that was not given.

    Args:
        model: of the settings.
        given: options of the command, those of the settings among them.

    Raises:
        InputError: a value cannot be used; names the option.
    """
    values: dict[str, Any] = {}
    for name, field in model.model_fields.items():
        value = given.get(name)
        if value is not None:
            item, several = item_type(field.annotation)
            values[name] = separated(value) if several and item not in (str, Path) else value
    if given.get("further"):
        fields: Any = {name: (field.annotation, field) for name, field in _further(model).items()}
        further = create_model("Further", __base__=Pairs, **fields)
        named = parse_pairs("--set", ",".join(given["further"]), further)
        values |= named.model_dump(exclude_unset=True)
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise _bad_value(model, error) from None


def _bad_value(model: type[SuiteSettings], error: ValidationError) -> InputError:
    fault, where = error.errors(include_url=False)[0], "options"
    what, _, hint = fault["msg"].removeprefix("Value error, ").partition(" — ")
    if fault["loc"]:
        name = str(fault["loc"][0])
        where = _option_name(name, model.model_fields[name])
    if fault["type"] != "value_error":
        what = f"{what}, not {str(fault['input'])[:60]!r}"
    return InputError(what, where=where, hint=hint or "see --help")


# -- options of every suite -----------------------------------------------------------


def _shared_options(suite: AnySuite) -> dict[str, inspect.Parameter]:
    _, found = described(_run)
    calls = RayCallOptions if suite.on_ray else CallOptions
    found["calls"] = found["calls"].replace(annotation=Annotated[calls, typer.Option()])
    default = suite.default_model or inspect.Parameter.empty
    found["model"] = found["model"].replace(default=default)
    names = ["out_dir", "dry_run", "retry_failed", "calls"]
    names += ["model", "guard", "scorer"] * suite.takes_model
    return {name: found[name] for name in names}


# -- what the command does --------------------------------------------------------------


def _run(
    suite: AnySuite,
    settings: SuiteSettings,
    named: str = "",
    *,
    out_dir: Path | None = None,
    dry_run: bool = False,
    retry_failed: bool = False,
    calls: CallOptions,
    model: Annotated[str, _OF_SYSTEMS] = "",
    guard: Annotated[list[str] | None, _OF_SYSTEMS] = None,
    scorer: Annotated[str | None, _OF_SYSTEMS] = None,
) -> None:
    """Run a suite, or count its cases.

    Args:
        suite: what is run.
        settings: of it.
        named: see `suite_function`.
        out_dir: Run folder; resumed if it exists.
        dry_run: Count the cases; ask and write nothing.
        retry_failed: Ask again for rows with an error.
        calls: how calls are made.
        model: embedded, smollm2, a model folder, gguf:FILE, provider:model,
            python:module:attribute, or replay.
        guard: premise, a policy.json, the folder of a calibrated run, or
            python:module:attribute, to put in front of the model. Repeatable.
        scorer: Scorer of the guards: a name, folder, hf:MODEL, judge:MODEL or
            python:module:attribute.  [default: what each policy names]
    """
    # Whole batches have no deadline of their own unless one is asked for.
    asks_one_by_one = inspect.iscoroutinefunction(suite.answer)
    limits = calls.limits(timeout=_SECONDS_PER_CALL if asks_one_by_one else None)
    choice = ModelChoice(model, tuple(guard or ()), scorer, limits)
    if dry_run:
        _show(plan_suite(suite, settings, choice))
        return
    folder = required(out_dir, "--out", _NO_OUT)
    if not guard:
        reject({"scorer": scorer}, "is for guards", "add --guard, or leave it out")
    notes: list[str] = []
    with call_progress() as advance:
        options = RunOptions(limits, retry_failed, calls.pool(), advance, notes.append)
        result = run_suite(suite, settings, folder, choice, options)
    ending = suite.ending(result)
    totals = {**asdict(result.totals), "failed": ending.failed, "run": result.folder}
    print_figures({**totals, **ending.values})
    print_table(ending.columns, ending.lines)
    for note in notes:
        out.print(note)
    tell("ran", suite.rows.name, result)
    if ending.failed:
        tell("rows_failed", suite.rows.name, result, ending.failed, to=err)
    then = suite.next_command(result.folder)
    if named.startswith("python:"):
        then += f" --suite {named}"
    all_failed = 0 < result.totals.done <= ending.failed
    following = [] if all_failed else [f"next: {then}"]
    for line in (*following, *ending.notes):
        out.print(line)
    if ending.failed:
        raise typer.Exit(1)


def _show(found: Overview) -> None:
    print_table(found.columns, found.lines)
    for note in found.notes:
        out.print(note)
    print_figures(dict(found.values))


# -- measuring --------------------------------------------------------------------


def _measure_options() -> list[inspect.Parameter]:
    options = {**setting_options(MEASURE.settings), **_shared_options(MEASURE)}
    text = str(MEASURE.settings.model_fields["scorer"].description)
    options["scorer"] = _parameter(
        "scorer", list[str] | None, f"{text} Named several times, the scorers are compared."
    )
    risk = "Of several scorers: the share α of left-out questions that may pass."
    options["risk"] = _parameter("risk", float, risk, 0.05)
    return list(options.values())


@partial(documented, figures=True, parameters=_measure_options())
def measure(**given: Any) -> None:
    """Measure signals to calibrate on: what the guard would see, with the answer and without.

    Each question is asked with its passage in the knowledge base, and with that passage left
    out. With `--scorer` named several times, all of them judge the same retrieved passages, each
    into a run below `--out`: printed are AUROC, false abstention where at most `--risk` of the
    left-out questions pass, time and calls per question, differences with intervals that hold
    for all pairs together, and the cheapest scorer that no other one is shown to be better than.
    Calibrate the chosen one on other questions, or name all these runs to `knowgate calibrate`,
    which divides δ among them. `--scorer mix:NAME+NAME` measures the scorers of a mix in the same
    way; `knowgate calibrate --mix` fits it.

    What was measured is kept: start the command again to continue.

    Example: `knowgate measure --questions kb.jsonl --out run`

    Example: `knowgate measure --questions kb.jsonl --scorer mix:sufficiency+ms-marco --out runs`
    """
    risk, named = given.pop("risk"), given.pop("scorer") or []
    scorers = _parts_of_mix(named)
    settings = settings_of(MEASURE.settings, {**given, "scorer": next(iter(scorers), None)})
    if len(scorers) < 2:
        _run(MEASURE, settings, **{name: given[name] for name in _shared_options(MEASURE)})
        return
    from ..suites.ookb import compare_scorers
    from ..suites.ookb.scorer_comparison import scorers_document

    if given["dry_run"]:
        raise InputError("goes with one --scorer", where="--dry-run", hint="leave one of both out")
    require_share({"risk": risk})
    folder = required(given["out_dir"], "--out", _NO_OUT)
    with call_progress() as advance:
        limits = given["calls"].limits()
        options = RunOptions(limits, retry_failed=given["retry_failed"], on_progress=advance)
        found = compare_scorers(settings, scorers, folder, risk=risk, options=options)
    print_document(scorers_document(found))
    print_figures(found.to_dict())
    out.print(f"report → {folder / 'report.html'}")
    if found.failed:
        tell("cases_failed", found.failed, folder, to=err)
        raise typer.Exit(1)
    if scorers != named:
        each = " ".join(f"--run {quote(str(folder / folder_name(one)))}" for one in scorers)
        out.print(f"next: knowgate calibrate {each} --mix --out policy.json")


def _parts_of_mix(scorers: Sequence[str]) -> list[str]:
    """The scorers that are to be measured for a mix.

    Raises:
        InputError: it is no mix of several scorers, or named beside others.
    """
    from ...guard.signals.relevance.registry import parts_of_mix

    if len(scorers) < 2:
        return [part for one in scorers for part in parts_of_mix(one) or (one,)]
    if any(map(parts_of_mix, scorers)):
        hint = "name its scorers one by one to compare them with others"
        raise InputError("a mix is measured by itself", where="--scorer", hint=hint)
    return list(scorers)
