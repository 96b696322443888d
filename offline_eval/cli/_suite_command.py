"""`knowgate eval …`: a command for every suite, built from the model of its settings."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, fields, replace
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

import typer
from pydantic import ValidationError
from pydantic.fields import FieldInfo
from typer.core import TyperGroup

from ...guard.errors import InputError
from ..run import RunTotals
from ..suites import (
    DryRun,
    ModelChoice,
    RunOptions,
    Suite,
    SuiteSettings,
    find_suite,
    plan_suite,
    run_suite,
    suite_names,
)
from ._app import app
from ._call_options import RAY_OPTIONS, CallOptions, EngineName
from ._call_progress import call_stages
from ._command_group import with_help_mode
from ._console import err, out, print_figures, print_table, prints_figures
from ._project_file import item_type

_SYSTEMS, _CALLS = "Systems under test", "Calls"
AnySuite = Suite[Any, Any, Any, Any]

SettingsT = TypeVar("SettingsT", bound=SuiteSettings)


class SuiteGroup(TyperGroup):
    """The group `eval`: a command for every suite that is found."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands."""
        del ctx
        return suite_names()

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command; that of a suite is made when it is asked for."""
        if cmd_name in suite_names() or cmd_name.startswith("python:"):
            return suite_command(find_suite(cmd_name), cmd_name)
        return super().get_command(ctx, cmd_name)


suites = typer.Typer(
    cls=SuiteGroup, no_args_is_help=True, help="Run a suite of cases into a run folder."
)
app.add_typer(suites, name="eval")


def suite_command(suite: AnySuite, name: str) -> Any:
    """Make the command of a suite.

    Args:
        suite: see `suite_function`.
        name: of the command.
    """
    holder = typer.Typer(rich_markup_mode="markdown", add_completion=False)
    holder.command(name)(suite_function(suite))
    return with_help_mode(typer.main.get_command(holder))


def suite_function(suite: AnySuite) -> Callable[..., None]:
    """Make the function of the command of a suite.

    Args:
        suite: its settings become options; its docstring is the help.
    """
    options = setting_options(suite.settings)
    shared = _shared_options(suite)

    def command(**given: Any) -> None:
        own = {field: given.pop(field) for field in options}
        _run(suite, settings_of(suite.settings, own), given)

    return prints_figures(
        with_options(command, [*options.values(), *shared], inspect.getdoc(type(suite)))
    )


def with_options(
    command: Callable[..., None], options: Iterable[inspect.Parameter], doc: str | None
) -> Callable[..., None]:
    """Give a function the options of a command, and its help.

    Args:
        command: takes the values as keyword arguments.
        options: in the order of the help, but required ones first.
        doc: the help.
    """
    # Required options first: Python wants it so.
    parameters = sorted(options, key=lambda one: one.default is not inspect.Parameter.empty)
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in parameters}
    command.__doc__ = doc
    return command


# -- options from settings ----------------------------------------------------------


def setting_options(model: type[SuiteSettings]) -> dict[str, inspect.Parameter]:
    """Return an option for each field of the settings, by field."""
    own = [name for name in model.model_fields if name not in SuiteSettings.model_fields]
    names = [*own, *SuiteSettings.model_fields]
    return {name: _option(name, model.model_fields[name]) for name in names}


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
    required = field.is_required()
    if not required and (several or default is None):
        kind, shown = kind | None, None
    else:
        shown = _plain(default)
    extra = field.json_schema_extra
    panel: Any = extra.get("panel") if isinstance(extra, dict) else None
    info = typer.Option(option_of(name, field), help=help_text.strip(), rich_help_panel=panel)
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if required else shown,
        annotation=Annotated[kind, info],
    )


def option_of(name: str, field: FieldInfo) -> str:
    """Return the name of the option of a field."""
    extra = field.json_schema_extra
    given = extra.get("option") if isinstance(extra, dict) else None
    return str(given) if given else f"--{name.replace('_', '-')}"


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

    Raises:
        InputError: a value cannot be used; names the option.
    """
    values = {}
    for name, value in given.items():
        if value is None:
            continue
        item, several = item_type(model.model_fields[name].annotation)
        values[name] = _split(value) if several and item not in (str, Path) else value
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise _bad_value(model, error) from None


def _bad_value(model: type[SuiteSettings], error: ValidationError) -> InputError:
    fault = error.errors(include_url=False)[0]
    hint = "see --help"
    if not fault["loc"]:
        return InputError(fault["msg"].removeprefix("Value error, "), where="options", hint=hint)
    name = str(fault["loc"][0])
    field = model.model_fields[name]
    choices = _choices(item_type(field.annotation)[0])
    if choices and fault["type"] != "value_error":
        what, hint = f"there is no {str(fault['input'])[:60]!r}", ", ".join(choices)
    else:
        what, _, own_hint = fault["msg"].removeprefix("Value error, ").partition(" — ")
        if fault["type"] != "value_error":
            what = f"{what}, not {str(fault['input'])[:60]!r}"
        hint = own_hint or hint
    return InputError(what, where=option_of(name, field), hint=hint)


def _split(texts: Iterable[object]) -> list[str]:
    """Split values that are separated by commas."""
    return [part.strip() for text in texts for part in str(text).split(",") if part.strip()]


# -- options of every suite -----------------------------------------------------------


def _shared_options(suite: AnySuite) -> list[inspect.Parameter]:
    found = [
        shared("out_dir", Path | None, "--out", "Run folder; resumed if it exists."),
        shared("dry_run", bool, "--dry-run", "Count the cases; ask and write nothing.", False),
        shared("retry_failed", bool, "--retry-failed", "Ask again for rows with an error.", False),
        shared("timeout", float | None, "--timeout", "Seconds per case.", None, _CALLS),
        shared("concurrency", int, "--concurrency", "Calls at once.", 8, _CALLS),
    ]
    if inspect.iscoroutinefunction(suite.answer):
        found += [
            shared("rate", float | None, "--rate", "Calls per second at most.", None, _CALLS),
            shared("max_attempts", int | None, "--max-attempts", "Attempts per call.", 3, _CALLS),
        ]
    if suite.on_ray:
        default = {"engine": EngineName.LOCAL}
        found += [
            shared(name, kind, option, text, default.get(name), _CALLS)
            for name, (kind, option, text) in RAY_OPTIONS.items()
        ]
    if suite.takes_model:
        model = suite.default_model
        found += [
            shared(
                "model",
                str,
                "--model",
                "embedded, smollm2, a model folder, gguf:FILE, provider:model, "
                "python:module:attribute, or replay.",
                model or inspect.Parameter.empty,
                _SYSTEMS,
            ),
            shared(
                "guard",
                list[str] | None,
                "--guard",
                "premise, a policy.json, the folder of a calibrated run, or "
                "python:module:attribute, to put in front of the model. Repeatable.",
                None,
                _SYSTEMS,
            ),
            shared(
                "scorer",
                str | None,
                "--scorer",
                "Scorer of the guards: a name, folder, hf:MODEL or judge:MODEL.  [default: what "
                "each policy names]",
                None,
                _SYSTEMS,
            ),
        ]
    return found


def shared(
    name: str, kind: Any, option: str, help_text: str, default: Any = None, panel: str | None = None
) -> inspect.Parameter:
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[kind, typer.Option(option, help=help_text, rich_help_panel=panel)],
    )


# -- what the command does --------------------------------------------------------------


def _run(suite: AnySuite, settings: SuiteSettings, given: Mapping[str, Any]) -> None:
    names = {one.name for one in fields(CallOptions)}
    calls = CallOptions(**{name: value for name, value in given.items() if name in names})
    limits, pool = calls.limits(), calls.pool()
    if not inspect.iscoroutinefunction(suite.answer):
        # Whole batches have no deadline of their own unless one is asked for.
        limits = replace(limits, timeout=given["timeout"])
    guards = tuple(given.get("guard") or ())
    choice = ModelChoice(given.get("model", ""), guards, given.get("scorer"), limits)
    if given["dry_run"]:
        _show(plan_suite(suite, settings, choice))
        return
    if given["out_dir"] is None:
        raise InputError("is missing", where="--out", hint="name the run folder, or --dry-run")
    if choice.scorer is not None and not guards:
        raise InputError("is for guards", where="--scorer", hint="add --guard, or leave it out")
    notes: list[str] = []
    with call_stages() as advance:
        options = RunOptions(limits, given["retry_failed"], pool, advance, notes.append)
        result = run_suite(suite, settings, given["out_dir"], choice, options)
    ending = suite.ending(result)
    totals = {**asdict(result.totals), "failed": ending.failed, "run": result.folder}
    print_figures({**totals, **ending.values})
    print_table(ending.columns, ending.lines)
    for note in (*notes, *_totals(suite, result.totals), f"run → {result.folder}"):
        out.print(note, markup=False)
    if ending.failed:
        rows = f"{ending.failed} of {result.totals.already + result.totals.stored}"
        err.print(
            f"{rows} {suite.rows.name} failed: see `error` in {suite.rows.name}.jsonl; add "
            "--retry-failed to the same command to ask again",
            markup=False,
        )
    for line in (f"next: {suite.next_command(result.folder)}", *ending.notes):
        out.print(line, markup=False)
    if ending.failed:
        raise typer.Exit(1)


def _totals(suite: AnySuite, totals: RunTotals) -> list[str]:
    """Return how many rows there are, and what they cost."""
    lines = [f"{totals.total} {suite.rows.name} ({totals.already} were there before)"]
    if totals.calls:
        tokens = f", {totals.input_tokens} tokens in, {totals.output_tokens} out"
        lines.append(f"{totals.calls} calls{tokens if totals.input_tokens else ''}")
    return lines


def _show(found: DryRun) -> None:
    print_table(found.columns, found.lines)
    for note in found.notes:
        out.print(note, markup=False)
    print_figures(dict(found.values))
