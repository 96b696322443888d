"""Metrics for Prometheus: `python examples/metrics.py [PORT]` serves /metrics on loopback."""

from __future__ import annotations

import sys
from wsgiref.simple_server import WSGIServer

from prometheus_client import start_http_server

from knowgate.guard import Guard, Policy
from knowgate.guard.signals.relevance import LexicalScorer


def main(port: int) -> WSGIServer:
    """Decide three questions, serve the metrics, print the abstention rate."""
    scorer = LexicalScorer()
    guard = Guard(Policy(scorer=scorer.fingerprint, relevance_threshold=0.3), scorer=scorer)
    for question in ("When does the library open?", "Who painted it?", "What does it cost?"):
        guard.decide(question, ["The library does open at nine."])
    server, _ = start_http_server(port, addr="127.0.0.1")
    print(f"http://127.0.0.1:{server.server_port}/metrics")
    if guard.metrics is not None:
        print(f"abstention rate {guard.metrics.abstention_rate():.2f}")
    return server


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 9464)
    if sys.stdin.isatty():
        input("Enter ends it. ")
