"""The command line; `main` is the console script's entry point."""

from __future__ import annotations

from . import _calibrate, _demo, _doctor, _eval, _microworld, _report, _route, _score
from ._app import app, main

__all__ = ["app", "main"]

# Importing a command's module registers it with the app.
_COMMANDS = (_calibrate, _demo, _doctor, _eval, _microworld, _report, _route, _score)
