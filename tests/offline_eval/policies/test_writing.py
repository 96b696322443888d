"""Files of a calibration go together."""

from __future__ import annotations

import signal

from knowgate.offline_eval.policies.writing import _signals_held


def test_a_signal_waits_until_the_files_are_there() -> None:
    came: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _frame: came.append(number))
    try:
        with _signals_held():
            signal.raise_signal(signal.SIGTERM)
            assert came == []
        assert came == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)
