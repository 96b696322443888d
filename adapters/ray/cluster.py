"""Connect to a Ray cluster, or start one on this machine."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Generic, TypeVar

from ...guard.errors import InputError, KnowgateError, is_transient, optional_import


class WorkerStartError(KnowgateError):
    """A worker could not be started: too few CPUs are free, or its factory failed."""


class NoWorkersLeftError(KnowgateError):
    """All workers died, and no more may be replaced."""


class WorkerLostError(KnowgateError):
    """Several workers in a row died while they processed one item."""


class RemoteCallError(KnowgateError):
    """A call failed in a worker with an error that cannot travel to the driver.

    Args:
        error_type: name of its class.
        is_retryable: whether trying again may help.
    """

    def __init__(self, error_type: str, is_retryable: bool) -> None:
        self.error_type, self.is_retryable = error_type, is_retryable
        super().__init__(f"{error_type} in a worker")

    def __reduce__(self) -> tuple[type[RemoteCallError], tuple[str, bool]]:
        return type(self), (self.error_type, self.is_retryable)


Item = TypeVar("Item")
Result = TypeVar("Result")


class Worker(Generic[Item, Result]):
    """The body of an actor. Errors are returned: Ray would wrap them in a type of its own.

    Args:
        factory: makes the call, in the worker.
    """

    def __init__(self, factory: Callable[[], Callable[[Item], Awaitable[Result]]]) -> None:
        self._factory = factory
        self._call: Callable[[Item], Awaitable[Result]] | None = None

    async def start(self) -> Exception | None:
        """Make the call; returns None, or the error."""
        try:
            self._call = self._factory()
        except Exception as error:  # noqa: BLE001 - the driver decides
            return self._portable(error)
        # Its imports happen now: later they would block calls under way.
        is_transient(ValueError())
        return None

    async def ask(self, item: Item) -> tuple[Result | None, Exception | None]:
        """The result for an item, or the error."""
        assert self._call is not None, "start() comes first"
        try:
            return await self._call(item), None
        except Exception as error:  # noqa: BLE001 - the driver decides
            return None, self._portable(error)

    def _portable(self, error: Exception) -> Exception:
        """The error as it is sent; one that cannot be pickled is replaced by its name."""
        retryable = is_transient(error)  # here, since the cause of an error is not sent
        if arrives(error):
            with contextlib.suppress(AttributeError, TypeError):
                error.is_retryable = retryable  # type: ignore[attr-defined]
            return error
        return RemoteCallError(type(error).__name__, retryable)


def arrives(error: Exception) -> bool:
    """Whether this error can be pickled and unpickled as its own type.

    Exceptions with several arguments often cannot.
    """
    travel = optional_import("ray").cloudpickle
    try:
        return type(travel.loads(travel.dumps(error))) is type(error)
    except Exception:  # noqa: BLE001 - classes of the user's own run here
        return False


# Ray's name for it; elsewhere than on Linux it binds to loopback anyway.
_OFF_LOOPBACK = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
_OBJECT_STORE_BYTES = 128 * 1024 * 1024
_CONNECT_SECONDS = 10.0


@contextlib.contextmanager
def ray_cluster(address: str | None, cpus: int) -> Iterator[Any]:
    """The module `ray`, connected; what was started for it is shut down at the end.

    A connection that this process has already is used and left as it is. No usage
    statistics are sent unless `RAY_USAGE_STATS_ENABLED` says otherwise.

    Args:
        address: of a running cluster, as for `ray.init` (`auto` finds one here); None
            starts one on this machine, on loopback and without its dashboard.
        cpus: of the cluster that is started; how many workers of one CPU find room.

    Raises:
        MissingDependencyError: Ray is not installed.
        InputError: there is no cluster at `address`, or none could be started.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    local = address is None
    with _loopback_only() if local else contextlib.nullcontext():
        ray = optional_import("ray")
        if ray.is_initialized():
            yield ray
            return
        options: dict[str, Any] = {"address": address}
        if local:
            options = {
                "address": "local",
                "num_cpus": cpus,
                "include_dashboard": False,
                "object_store_memory": _OBJECT_STORE_BYTES,
                "_node_ip_address": "127.0.0.1",
            }
        try:
            if address is not None:
                _try_connecting(address)
            with _own_sigterm():
                ray.init(**options, log_to_driver=False, logging_level="ERROR")
        except Exception as error:
            ray.shutdown()
            raise _no_cluster(address, type(error).__name__) from error
    try:
        yield ray
    finally:
        ray.shutdown()


def _try_connecting(address: str) -> None:
    """Connect once, to fail early: Ray itself would try for minutes."""
    place = re.fullmatch(r"(?:ray://)?\[?(?P<host>[^\[\]]+)\]?:(?P<port>\d{1,5})", address)
    if place:
        host, port = place["host"], int(place["port"])
        socket.create_connection((host, port), timeout=_CONNECT_SECONDS).close()


def _no_cluster(address: str | None, detail: str) -> InputError:
    if address is None:
        return InputError(
            f"no local Ray cluster could be started ({detail})",
            where="ray",
            hint="see Ray's logs in its temporary folder, usually /tmp/ray",
        )
    hint = "check the address, or leave it out to start a cluster on this machine"
    return InputError(f"no Ray cluster there ({detail})", where=address, hint=hint)


@contextlib.contextmanager
def _loopback_only() -> Iterator[None]:
    """Make Ray listen on loopback; on Linux it would listen on all interfaces."""
    if "ray" in sys.modules or _OFF_LOOPBACK in os.environ:
        yield
        return
    os.environ[_OFF_LOOPBACK] = "0"
    try:
        yield
    finally:
        os.environ.pop(_OFF_LOOPBACK, None)


@contextlib.contextmanager
def _own_sigterm() -> Iterator[None]:
    """Restore the handler of SIGTERM, which Ray replaces."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if before is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)
