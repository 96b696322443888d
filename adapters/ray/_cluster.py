"""Joining a Ray cluster, or starting one on this machine."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from typing import Any

from ...guard import InputError
from ...guard._optional_imports import optional_import

# Ray's name for it; elsewhere than on Linux it binds to loopback anyway.
_OFF_LOOPBACK = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
_OBJECT_STORE_BYTES = 128 * 1024 * 1024
_KNOCK_SECONDS = 10.0


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
                _knock(address)
            with _own_sigterm():
                ray.init(**options, log_to_driver=False, logging_level="ERROR")
        except Exception as error:
            ray.shutdown()
            raise _no_cluster(address, type(error).__name__) from error
    try:
        yield ray
    finally:
        ray.shutdown()


def _knock(address: str) -> None:
    """Whether anybody listens there: Ray itself would try for minutes."""
    place = re.fullmatch(r"(?:ray://)?\[?(?P<host>[^\[\]]+)\]?:(?P<port>\d{1,5})", address)
    if place:
        host, port = place["host"], int(place["port"])
        socket.create_connection((host, port), timeout=_KNOCK_SECONDS).close()


def _no_cluster(address: str | None, detail: str) -> InputError:
    if address is None:
        return InputError(
            f"no local Ray cluster could be started ({detail})",
            where="ray",
            mend="see Ray's logs in its temporary folder, usually /tmp/ray",
        )
    return InputError(
        f"no Ray cluster there ({detail})",
        where=address,
        mend="check the address, or leave it out to start a cluster on this machine",
    )


@contextlib.contextmanager
def _loopback_only() -> Iterator[None]:
    """While Ray is imported and started: on Linux it would listen on all interfaces."""
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
    """Ray takes SIGTERM for itself; this gives it back to whoever had it."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if before is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)
