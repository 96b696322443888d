"""Threads of calls."""

from __future__ import annotations

import threading

from knowgate.offline_eval.run.event_loop import DaemonThreads


def test_stuck_calls_hold_no_more_threads_than_were_allowed() -> None:
    before, release, pool = set(threading.enumerate()), threading.Event(), DaemonThreads(3)

    calls = [pool.submit(release.wait, 60) for _ in range(50)]

    assert len(set(threading.enumerate()) - before) <= 3
    release.set()
    assert all(call.result(60) for call in calls)
