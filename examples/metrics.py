"""Metrics for Prometheus: `python examples/metrics.py [PORT]` serves /metrics on loopback."""

from __future__ import annotations

import sys
from wsgiref.simple_server import WSGIServer

from prometheus_client import REGISTRY, start_http_server

from knowgate.guard import Guard, Policy
from knowgate.guard.relevance import LexicalScorer


def main(port: int) -> WSGIServer:
    """Decide three questions, serve the metrics, print the abstention rate."""
    scorer = LexicalScorer()
    guard = Guard(Policy(scorer=scorer.fingerprint, relevance_threshold=0.3), scorer=scorer)
    for question in ("When does the library open?", "Who painted it?", "What does it cost?"):
        guard.decide(question, ["The library does open at nine."])
    server, _ = start_http_server(port, addr="127.0.0.1")
    families = [family for family in REGISTRY.collect() if family.name == "knowgate_decisions"]
    counts = [sample for sample in families[0].samples if sample.name.endswith("_total")]
    abstained = sum(sample.value for sample in counts if sample.labels["route"] == "abstain")
    print(f"http://127.0.0.1:{server.server_port}/metrics")
    print(f"abstention rate {abstained / sum(sample.value for sample in counts):.2f}")
    return server


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 9464)
    if sys.stdin.isatty():
        input("Enter ends it. ")
