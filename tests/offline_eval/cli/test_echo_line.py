"""What `calibrate` prints of cases in which a passage repeats the question."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from knowgate.offline_eval.cli._calibration_output import echo_lines


def test_how_many_pass_is_one_line_and_none_where_none_were_measured() -> None:
    def found(*echoes: float) -> Any:
        return SimpleNamespace(
            measured=SimpleNamespace(echoes=echoes), echoes_passing=lambda: len(echoes) - 1
        )

    assert echo_lines(found()) == []
    assert echo_lines(found(0.5, 0.25)) == [
        "passes when a passage repeats the question: 1 of 2 left-out questions"
    ]
