"""The command line; `main` is the console script's entry point."""

from __future__ import annotations

from . import (
    _abstained,
    _calibrate,
    _demo,
    _doctor,
    _drift,
    _export,
    _import,
    _judge,
    _kb,
    _kb_filter,
    _kg,
    _label,
    _measure,
    _microworld,
    _recalibrate,
    _report,
    _route,
    _score,
    _suite_command,
    _tune,
    _tune_scenarios,
)
from ._app import app, main

__all__ = ["app", "main"]


# Importing a command's module registers it with the app.
_COMMANDS = (
    _abstained,
    _calibrate,
    _demo,
    _doctor,
    _drift,
    _export,
    _import,
    _judge,
    _kb,
    _kb_filter,
    _kg,
    _label,
    _measure,
    _microworld,
    _recalibrate,
    _report,
    _route,
    _score,
    _suite_command,
    _tune,
    _tune_scenarios,
)
