"""`knowgate measure`: signals to calibrate on."""

from __future__ import annotations

from ..suites.ookb import MEASURE
from ._app import app
from ._suite_command import suite_function

app.command("measure")(suite_function(MEASURE))
