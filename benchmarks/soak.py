"""Ask a guard for half an hour, in process and over HTTP, and look at every answer.

    python benchmarks/soak.py [--minutes 30] [--callers 8] [--out soak.json]

The embedded scorer serves two ways at once, half of the callers each:

- `GuardedRAG.ainvoke` in this process;
- the OpenAI-compatible proxy of `knowgate serve` in another process, over real HTTP.

Every question names a town and a number of its own; the retrieved passages hold the answer in
two of three questions, and speak of another town in the third. The model behind both ways
repeats the prompt that it was given. So each answer shows whose it is. Counted are calls, and
what must not happen: a call without an answer, an answer to another question, and an answer of
the model where the guard was to abstain. Memory of both processes is read every few seconds;
printed is its change from the end of the first tenth, in which caches fill, to the end.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import multiprocessing
import os
import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda
from prometheus_client import CollectorRegistry

from knowgate.adapters.langchain import GuardedRAG
from knowgate.adapters.serve import ProxyOptions, Upstream, bound_socket, create_app, serve
from knowgate.guard import Guard

TOWNS = ("Alder", "Birch", "Cedar", "Damson", "Elm", "Fir", "Hazel", "Juniper", "Larch", "Maple")
ABSTAINED = "I do not know."
# Distinct questions; they come again and again, so that memory can settle.
QUESTIONS = 500
_READ_SECONDS = 5.0


def case(number: int) -> tuple[str, list[str], bool]:
    """Question `number`, its passages, and whether they hold the answer."""
    number %= QUESTIONS
    town, other = TOWNS[number % 10], TOWNS[(number + 3) % 10]
    question = f"What does parking permit {number} cost in {town}?"
    answered = number % 3 != 0
    facts = [
        f"The town hall of {other} opens at nine and closes at five on weekdays.",
        f"Buses in {other} leave from the market square every ten minutes.",
        f"The library of {other} lends up to ten books for four weeks.",
    ]
    if answered:
        facts.append(f"In {town} parking permit {number} costs {number + 7} euros a year.")
    return question, facts, answered


def verdict(number: int, reply: str) -> str:
    """What an answer shows."""
    question, _, answered = case(number)
    if reply == ABSTAINED:
        return "abstained" if not answered else "abstained falsely"
    if question not in reply:
        return "crossed"
    return "answered" if answered else "unguarded"


def resident(process: int) -> float:
    """Memory of a process in MiB (Linux)."""
    lines = Path(f"/proc/{process}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


def echo(request: httpx.Request) -> httpx.Response:
    """An upstream model that repeats its prompt."""
    asked = json.loads(request.content)["messages"][-1]["content"]
    message = {"role": "assistant", "content": asked}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    body = {"id": "1", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]}
    return httpx.Response(200, json=body)


def run_server(pipe: Any) -> None:
    """Serve the proxy until SIGTERM."""
    upstream = Upstream("http://model/v1", transport=httpx.MockTransport(echo))
    app = create_app(
        Guard.default(),
        proxy=ProxyOptions(upstream),
        replies=ABSTAINED,
        registry=CollectorRegistry(),
    )
    listening = bound_socket("127.0.0.1", 0, has_token=False)
    pipe.send(listening.getsockname()[1])
    serve(app, listening)


def chain() -> Any:
    """The guarded chain of this process."""
    by_question = {case(number)[0]: case(number)[1] for number in range(QUESTIONS)}
    return GuardedRAG(
        guard=Guard.default(),
        retriever=RunnableLambda(
            lambda question: [Document(text) for text in by_question[question]]
        ),
        with_context=RunnableLambda(lambda given: f"{given['question']} {given['context']}"),
        closed_book=RunnableLambda(lambda given: str(given["question"])),
        replies=ABSTAINED,
    )


async def soak(minutes: float, callers: int, port: int, server: int) -> dict[str, Any]:
    """Ask until the time is over; returns counts, memory and calls."""
    found: Counter[str] = Counter()
    numbers, ends = itertools.count(), time.monotonic() + minutes * 60
    guarded = chain()

    async def in_process(number: int) -> str:
        return str((await guarded.ainvoke(case(number)[0])).answer)

    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:

        async def over_http(number: int) -> str:
            question, facts, _ = case(number)
            body = {
                "model": "m",
                "messages": [{"role": "user", "content": question}],
                "knowgate": {"passages": facts},
            }
            reply = (await client.post("/v1/chat/completions", json=body)).raise_for_status()
            return str(reply.json()["choices"][0]["message"]["content"])

        async def caller(way: Any, name: str) -> None:
            while time.monotonic() < ends:
                number = next(numbers)
                try:
                    found[f"{name}: {verdict(number, await way(number))}"] += 1
                except Exception as error:  # noqa: BLE001 - each is a lost call
                    found[f"{name}: lost ({type(error).__name__})"] += 1

        async def watch() -> list[tuple[float, float]]:
            read = []
            while time.monotonic() < ends:
                await asyncio.sleep(min(_READ_SECONDS, minutes * 6))
                read.append((resident(os.getpid()), resident(server)))
            return read

        ways = [(in_process, "chain"), (over_http, "HTTP")]
        jobs = [caller(*ways[n % 2]) for n in range(callers)]
        memory, *_ = await asyncio.gather(watch(), *jobs)
    settled, last = memory[len(memory) // 10], memory[-1]
    return {
        "minutes": minutes,
        "calls": sum(found.values()),
        "found": dict(sorted(found.items())),
        "memory_mib": {"chain": [settled[0], last[0]], "HTTP": [settled[1], last[1]]},
        "memory_change": {
            "chain": last[0] / settled[0] - 1,
            "HTTP": last[1] / settled[1] - 1,
        },
    }


def main() -> None:
    """Run and print; exit with 1 if anything happened that must not."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--callers", type=int, default=8)
    parser.add_argument("--out", type=Path, help="also write the figures as JSON")
    given = parser.parse_args()
    spawning = multiprocessing.get_context("spawn")
    here, there = spawning.Pipe()
    server = spawning.Process(target=run_server, args=(there,))
    server.start()
    try:
        port = here.recv()
        found = asyncio.run(soak(given.minutes, given.callers, port, server.pid or 0))
    finally:
        server.terminate()
        server.join(30)
    print(f"{found['calls']} calls in {found['minutes']:g} minutes")
    for name, count in found["found"].items():
        print(f"  {name:32} {count}")
    for name, (first, last) in found["memory_mib"].items():
        change = found["memory_change"][name]
        print(f"memory of {name}: {first:.1f} → {last:.1f} MiB ({change:+.1%})")
    if given.out:
        given.out.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    wrong = [name for name in found["found"] if any(w in name for w in ("lost", "crossed", "ung"))]
    raise SystemExit(1 if wrong else 0)


if __name__ == "__main__":
    main()
