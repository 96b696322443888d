"""Options that several commands take, and options that hold one object as `name=value,…`."""

from __future__ import annotations

from enum import StrEnum
from typing import TypeVar

import typer
from pydantic import BaseModel, ConfigDict, Field

from ...adapters.ray.pool import PoolSize
from ...guard.errors import InputError
from ...guard.read_models import check_model
from ..run import CallLimits
from ..run.calls import RayPool

PORT = typer.Option(min=0, max=65535, help="Of the page on 127.0.0.1; 0: a free one.")
NO_BROWSER = typer.Option("--no-browser", help="Only print the page's address.")
RETRY_FAILED = typer.Option("--retry-failed", help="Ask again for what failed before.")
DRY_RUN = typer.Option("--dry-run", help="Say what it would cost; ask and write nothing.")
FAIL_IF = typer.Option(
    "--fail-if",
    metavar="EXPRESSION",
    help="A gate: exit code 1 where this holds, or is undefined, such as 'abstention_rate<0.9' or "
    "'abstention_rate.low<85%'. NAME OP NUMBER, where NAME is a path in report.json. May be given "
    "more than once. If more than 5 % of the rows of a run failed, that is a failed gate, too, "
    "unless an expression names 'failed'.",
)

PairsT = TypeVar("PairsT", bound=BaseModel)


class Pairs(BaseModel):
    """What an option holds as `name=value,…`."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def parse_pairs(option: str, text: str | None, model: type[PairsT]) -> PairsT:
    """Parse the value of an option `name=value,…`; what is not named has its default.

    Args:
        option: its name.
        text: as given; None for nothing.
        model: what it holds.

    Raises:
        InputError: a name is unknown or given twice, or a value does not fit; names the option.
    """
    hint = f"write {','.join(f'{name}=…' for name in model.model_fields)}, or some of them"
    values: dict[str, str] = {}
    for part in (text or "").split(",") if text else []:
        name, sign, value = (piece.strip() for piece in part.partition("="))
        name = name.replace("-", "_")
        if not sign or name in values:
            what = "is given twice" if sign else "is not a name with a value"
            raise InputError(f"{part.strip()!r} {what}", where=option, hint=hint)
        values[name] = value
    return check_model(model, values, where=option, hint=hint)


class Engine(StrEnum):
    """Where calls are made."""

    LOCAL = "local"
    RAY = "ray"


class CallOptions(Pairs):
    """How calls are made; none of it decides what is asked."""

    concurrency: int = Field(8, ge=1)
    rate: float | None = Field(None, gt=0, allow_inf_nan=False)
    timeout: float | None = Field(None, gt=0, allow_inf_nan=False)
    attempts: int = Field(3, ge=1)
    engine: Engine = Engine.LOCAL
    workers: int = Field(2, ge=1)
    cpus: float = Field(1.0, ge=0, allow_inf_nan=False)
    gpus: float = Field(0.0, ge=0, allow_inf_nan=False)
    address: str | None = None

    @classmethod
    def parse(cls, text: str | None, *, on_ray: bool = False) -> CallOptions:
        """Parse the value of `--calls`.

        Args:
            text: as given.
            on_ray: whether calls can be made by workers of Ray.

        Raises:
            InputError: see `parse_pairs`; or workers are named where there are none.
        """
        found = parse_pairs("--calls", text, cls)
        pool = {"engine", "workers", "cpus", "gpus", "address"} & found.model_fields_set
        if pool and not on_ray:
            raise InputError(
                f"{min(pool)} does not go with this command",
                where="--calls",
                hint="leave it out: calls are made on this machine",
            )
        if pool and found.engine is not Engine.RAY:
            raise InputError(
                f"{min(pool)} goes with engine=ray only", where="--calls", hint="leave it out"
            )
        return found

    def limits(self, *, timeout: float | None = None, attempts: int = 3) -> CallLimits:
        """Return the limits.

        Args:
            timeout: seconds per attempt, where nothing was given.
            attempts: per item, likewise.
        """
        given = self.model_fields_set
        return CallLimits(
            self.concurrency,
            self.rate,
            self.timeout if "timeout" in given else timeout,
            self.attempts if "attempts" in given else attempts,
        )

    def pool(self) -> RayPool | None:
        """Return the workers of `engine=ray`, None for local calls."""
        if self.engine is Engine.LOCAL:
            return None
        size = PoolSize(
            workers=self.workers,
            in_flight=max(1, self.concurrency // self.workers),
            cpus_per_worker=self.cpus,
            gpus_per_worker=self.gpus,
        )
        return RayPool(size, self.address)


_CALLS = "How calls are made: concurrency=8,rate=PER_SECOND,timeout=SECONDS,attempts=3"
CALLS = typer.Option(metavar="NAME=VALUE", help=f"{_CALLS}; any of these.")
CALLS_ON_RAY = typer.Option(
    metavar="NAME=VALUE",
    help=f"{_CALLS}; or by Ray: engine=ray,workers=2,cpus=1,gpus=0,address=HEAD (of each worker; "
    "the address of a running cluster). Any of these.",
)


class ChunkOptions(Pairs):
    """How documents are cut, as `--chunks` names it."""

    size: int = Field(150, ge=1)
    overlap: int = Field(0, ge=0)


CHUNKS = typer.Option(
    metavar="NAME=VALUE",
    help="How documents are cut: size=150 (words at most), overlap=0 (words that a chunk shares "
    "with the one before it).",
)
