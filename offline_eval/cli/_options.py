"""How a function becomes a command: its parameters are options, its docstring their help.

Also options that several commands take, and those that hold one object as `name=value,…`.
"""

from __future__ import annotations

import copy
import functools
import inspect
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import (
    Annotated,
    Any,
    Literal,
    Self,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

import typer
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator
from typer.models import OptionInfo

from ...adapters.ray.pool import PoolSize
from ...guard.errors import InputError, first_fault
from ..run import CallLimits
from ..run.calls import RayPool
from ._console import out

Command = Callable[..., None]
_JSON = Annotated[
    bool,
    typer.Option(
        "--json", help="Print the figures as JSON on standard output, and nothing else there."
    ),
]
Port = Annotated[
    int, typer.Option(min=0, max=65535, help="Of the page on 127.0.0.1; 0: a free one.")
]
FailIf = Annotated[
    list[str] | None,
    typer.Option(
        metavar="EXPRESSION",
        help="A gate: exit code 1 where this holds, or is undefined, such as "
        "'abstention_rate<0.9' or 'abstention_rate.low<85%'. NAME OP NUMBER, where NAME is a path "
        "in report.json. May be given more than once. If more than 5 % of the rows of a run "
        "failed, that is a failed gate, too, unless an expression names 'failed'.",
    ),
]
_HELP = {
    "no_browser": "Only print the page's address.",
    "retry_failed": "Ask again for what failed before.",
    "dry_run": "Say what it would cost; ask and write nothing.",
}
# As in `fit_policy`: below that no number of questions helps.
_LEAST = 1e-9
# An entry of "Args" in a docstring: the name, and what follows up to the next one.
_ARGUMENT = re.compile(r"(?ms)^    (\w+): (.*?)(?=^    \w|\Z)")

PairsT = TypeVar("PairsT")
ValueT = TypeVar("ValueT")


class Pairs(BaseModel):
    """What an option holds as `name=value,…`."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def parse_pairs(
    option: str, text: str | None, model: type[PairsT], *, apart: Collection[str] = ()
) -> PairsT:
    """Parse the value of an option `name=value,…`; what is not named has its default.

    Args:
        option: its name.
        text: as given; None for nothing.
        model: what it holds, a model or dataclass of pydantic.
        apart: fields that have an option of their own.

    Raises:
        InputError: a name is unknown or given twice, or a value does not fit; names the option.
    """
    known: Any = getattr(model, "model_fields", None) or vars(model)["__dataclass_fields__"]
    names = [name for name in known if name not in apart]
    hint = f"write {','.join(f'{name}=…' for name in names)}, or some of them"
    values: dict[str, str] = {}
    for part in (text or "").split(",") if text else []:
        name, sign, value = (piece.strip() for piece in part.partition("="))
        name = name.replace("-", "_")
        if not sign or name in values or name in apart:
            what = "is given twice" if name in values else "is not a name with a value"
            what = f"has an option of its own, --{name}" if name in apart else what
            raise InputError(f"{part.strip()!r} {what}", where=option, hint=hint)
        values[name] = value
    try:
        return TypeAdapter(model).validate_python(values)
    except ValidationError as error:
        raise InputError(first_fault(error), where=option, hint=hint) from None
    except InputError as error:
        raise InputError(error.what, where=option, hint=hint) from None


def separated(texts: Iterable[object]) -> list[str]:
    """Split values that are separated by commas."""
    return [part.strip() for text in texts for part in str(text).split(",") if part.strip()]


def required(value: ValueT | None, option: str, hint: str) -> ValueT:
    """Return the value of an option that must be given.

    Raises:
        InputError: it was not; names the option.
    """
    if value is None:
        raise InputError("is missing", where=option, hint=hint)
    return value


def require_share(options: Mapping[str, float | None], *, may_be_one: bool = False) -> None:
    """Check that options are shares, where they are given.

    Args:
        options: values by parameter.
        may_be_one: whether all is a share, too.

    Raises:
        InputError: one is not above 0, or too large; names it.
    """
    most, between = 1.0 - _LEAST, "between 0 and 1"
    if may_be_one:
        most, between = 1.0, "above 0 and at most 1"
    for name, value in options.items():
        if value is not None and not _LEAST <= value <= most:
            what = f"must be {between}, not {value:g}"
            raise InputError(what, where=option_name(name), hint="name one such as 0.1")


def require_one(*values: object, where: str, hint: str = "name one of both") -> None:
    """Check that exactly one of several options is given.

    Raises:
        InputError: none is, or several are.
    """
    if sum(map(_is_given, values)) != 1:
        raise InputError("exactly one is needed", where=where, hint=hint)


def reject(options: Mapping[str, object], why: str, hint: str = "leave it out") -> None:
    """Reject options that do not go with others, where they are given.

    Args:
        options: values by parameter.
        why: what is wrong.
        hint: what to do.

    Raises:
        InputError: names the first.
    """
    for name, value in options.items():
        if _is_given(value):
            raise InputError(why, where=option_name(name), hint=hint)


def _is_given(value: object) -> bool:
    if isinstance(value, BaseModel):
        return bool(value.model_fields_set)
    return value not in (None, False, [])


class CallOptions(Pairs):
    """How calls are made: concurrency=8,rate=PER_SECOND,timeout=SECONDS,attempts=3.

    Any of these.
    """

    concurrency: int = Field(8, ge=1)
    rate: float | None = Field(None, gt=0, allow_inf_nan=False)
    timeout: float | None = Field(None, gt=0, allow_inf_nan=False)
    attempts: int | None = Field(None, ge=1)

    def limits(self, *, timeout: float | None = None, attempts: int = 3) -> CallLimits:
        """Return the limits.

        Args:
            timeout: seconds per attempt, where nothing was given.
            attempts: per item, likewise.
        """
        most = self.attempts or attempts
        return CallLimits(self.concurrency, self.rate, self.timeout or timeout, most)

    def pool(self) -> RayPool | None:
        """Return the workers that make the calls; None for this process."""
        return None


class RayCallOptions(CallOptions):
    """How calls are made: concurrency=8,rate=PER_SECOND,timeout=SECONDS,attempts=3.

    Or by Ray: engine=ray,workers=2,cpus=1,gpus=0,address=HEAD (of each worker; the address of a
    running cluster). Any of these.
    """

    engine: Literal["local", "ray"] = "local"
    workers: int = Field(2, ge=1)
    cpus: float = Field(1.0, ge=0, allow_inf_nan=False)
    gpus: float = Field(0.0, ge=0, allow_inf_nan=False)
    address: str | None = None

    @model_validator(mode="after")
    def _has_workers(self) -> Self:
        named = {"workers", "cpus", "gpus", "address"} & self.model_fields_set
        if named and self.engine == "local":
            raise ValueError(f"{min(named)} goes with engine=ray only")
        return self

    def pool(self) -> RayPool | None:
        """Return the workers of `engine=ray`, None for local calls."""
        if self.engine == "local":
            return None
        size = PoolSize(
            workers=self.workers,
            in_flight=max(1, self.concurrency // self.workers),
            cpus_per_worker=self.cpus,
            gpus_per_worker=self.gpus,
        )
        return RayPool(size, self.address)


class ChunkOptions(Pairs):
    """How documents are cut, in words: size=150 (at most), overlap=0 (shared with the last)."""

    size: int = Field(150, ge=1)
    overlap: int = Field(0, ge=0)


def documented(
    command: Command, *, figures: bool = False, parameters: Sequence[inspect.Parameter] = ()
) -> Command:
    """Make options of a function's parameters, with the help that its docstring has for them.

    What "Args" says of a parameter is its help, and leaves the command's own. `out_dir` and
    `input_path` are `--out` and `--input`; a switch that is off has no `--no-…`. A parameter of
    a model is an option `name=value,…`. What typer needs besides stands in its annotation.

    Args:
        command: its parameters all have annotations.
        figures: whether there is an option `--json`: what the command gives to `print_figures`,
            once, is then all that it prints on standard output.
        parameters: of a command that takes any keywords, in the order of the help.
    """
    text, own = described(command)
    parameters = parameters or list(own.values())
    hints = {one.name: one.annotation for one in parameters}
    pairs = {name: kind for name, hint in hints.items() if _is_pairs(kind := get_args(hint)[0])}
    options = list(map(_option, parameters))
    if figures:
        keyword = inspect.Parameter.KEYWORD_ONLY
        options.append(inspect.Parameter("as_json", keyword, default=False, annotation=_JSON))

    @functools.wraps(command)
    def run(as_json: bool = False, **given: Any) -> None:
        for name, kind in pairs.items():
            given[name] = parse_pairs(_declared(name, hints[name]), given[name], kind)
        before, out.quiet = out.quiet, out.quiet or as_json
        try:
            command(**given)
        finally:
            out.quiet = before

    run.__doc__ = text
    run.__annotations__ = {one.name: one.annotation for one in options}
    run.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    return run


def described(function: Callable[..., None]) -> tuple[str, dict[str, inspect.Parameter]]:
    """Return a function's docstring without "Args", and its parameters with the help from there."""
    text, _, arguments = (inspect.getdoc(function) or "").partition("\n\nArgs:\n")
    helps = {name: " ".join(words.split()) for name, words in _ARGUMENT.findall(arguments)}
    found = dict(inspect.signature(function).parameters)
    for name, hint in get_type_hints(function, include_extras=True).items():
        if name in found:
            is_bare = get_origin(hint) is not Annotated
            kind, info = (hint, typer.Option()) if is_bare else get_args(hint)
            info = copy.copy(info)
            info.help = helps.get(name) or info.help
            found[name] = found[name].replace(annotation=Annotated[kind, info])
    return text, found


def _declared(name: str, hint: Any) -> str:
    """Return the option of a parameter as its annotation, or else its name, has it."""
    info = get_args(hint)[1]
    # Typer takes what comes first for a default, and sees later what it is.
    named = [info.default, *(getattr(info, "param_decls", None) or ())]
    return next((one for one in named if isinstance(one, str)), option_name(name))


def _is_pairs(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def option_name(parameter: str) -> str:
    """Return the option of a parameter.

    Example:
        >>> option_name("out_dir"), option_name("top_k")
        ('--out', '--top-k')
    """
    name = parameter.removesuffix("_dir").removesuffix("_path")
    return f"--{name.replace('_', '-')}"


def _option(parameter: inspect.Parameter) -> inspect.Parameter:
    """Give a parameter what typer makes an option or an argument of."""
    name, (kind, info), default = parameter.name, get_args(parameter.annotation), parameter.default
    if kind is typer.Context:
        return parameter.replace(annotation=kind)
    info.help = info.help or _HELP.get(name)
    if _is_pairs(kind):
        info.metavar, info.help = "NAME=VALUE", info.help or " ".join(str(kind.__doc__).split())
        kind, default = str | None, None
    renamed = option_name(name) != f"--{name.replace('_', '-')}"
    if isinstance(info, OptionInfo) and not info.param_decls and (renamed or default is False):
        info.param_decls = (option_name(name),)
    return parameter.replace(
        kind=inspect.Parameter.KEYWORD_ONLY, annotation=Annotated[kind, info], default=default
    )


# Makes options of a function's parameters, as `documented`, and one more: `--json`.
prints_figures = functools.partial(documented, figures=True)
