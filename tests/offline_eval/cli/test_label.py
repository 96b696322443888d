"""`knowgate label`: refusals, agreement, export, and the page as a process serves it."""

from __future__ import annotations

import csv
import http.client
import json
import re
import signal
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from knowgate.offline_eval.judging.labelling import Labels
from knowgate.offline_eval.judging.labelling.session import LabelSession
from knowgate.offline_eval.run import RepliesRun
from tests.offline_eval.cli.commands import Knowgate, refused
from tests.offline_eval.judging.labelling.toy_replies import toy_run
from tests.support.commands import command
from tools.attack.pages import cookie_of


@pytest.fixture
def run(tmp_path: Path) -> RepliesRun:
    return toy_run(tmp_path / "run")


def label_all(run: RepliesRun, name: str, outcome: str, tier: str = "tier_1") -> None:
    session = LabelSession.annotate(run, name, size=6)
    for position in range(len(session)):
        chosen = outcome if position % 2 else "no"
        session.label(position, "abstention", chosen)
        if chosen == "no":
            session.label(position, "factuality", tier)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "exactly one is needed"),
        (["--annotator", "anna", "--agreement"], "exactly one is needed"),
        (["--agreement", "--sample", "5"], "--sample: goes with --annotator only"),
        (["--agreement", "--criterion", "abstention"], "--criterion: goes with"),
        (["--annotator", "anna", "--show-names"], "--show-names: goes with --consensus"),
        (["--annotator", "a/b"], "annotator's name"),
        (["--annotator", "anna", "--criterion", "truth"], "no such criterion"),
        (["--agreement"], "nobody has labelled"),
        (["--export", "labels.txt"], ".csv or .jsonl"),
    ],
)
def test_what_cannot_be_done_is_refused_and_leaves_nothing(
    knowgate: Knowgate, run: RepliesRun, arguments: list[str], words: str
) -> None:
    before = sorted(path.name for path in run.folder.iterdir())

    refused(knowgate("label", run.folder, *arguments), words)
    assert sorted(path.name for path in run.folder.iterdir()) == before


def test_a_folder_without_replies_is_refused(knowgate: Knowgate, tmp_path: Path) -> None:
    refused(knowgate("label", tmp_path / "nowhere", "--agreement"), "no run in this folder")


def test_agreement_is_printed_with_intervals(knowgate: Knowgate, run: RepliesRun) -> None:
    label_all(run, "anna", "yes")
    label_all(run, "bob", "yes", tier="tier_2")
    outcome = knowgate("label", run.folder, "--agreement")

    assert outcome.code == 0
    for words in (
        "Cohen's kappa, anna and bob",
        "Fleiss' kappa",
        "Krippendorff's alpha, ordinal",
        "6 replies labelled by at least one of 2",
    ):
        assert words in outcome.out
    assert re.search(r"\d\.\d{3} to \d\.\d{3}", outcome.out)


def test_a_name_with_brackets_is_printed_as_it_is(knowgate: Knowgate, run: RepliesRun) -> None:
    label_all(run, "anna", "yes")
    label_all(run, "bert", "no")
    folder = run.folder / "labels"
    (folder / "bert.jsonl").rename(folder / "[red]:x:.jsonl")

    assert "Cohen's kappa, [red]:x: and anna" in knowgate("label", run.folder, "--agreement").out


def test_labels_are_exported(knowgate: Knowgate, run: RepliesRun, tmp_path: Path) -> None:
    label_all(run, "anna", "yes")
    outcome = knowgate("label", run.folder, "--export", tmp_path / "labels.csv")

    assert (outcome.code, outcome.out) == (0, f"6 replies → {tmp_path / 'labels.csv'}\n")
    with (tmp_path / "labels.csv").open(encoding="utf-8", newline="") as stream:
        assert len(list(csv.DictReader(stream))) == 6


def test_without_disagreements_there_is_nothing_to_settle(
    knowgate: Knowgate, run: RepliesRun
) -> None:
    label_all(run, "anna", "yes")
    outcome = knowgate("label", run.folder, "--consensus", "carol")

    assert outcome.code == 0
    assert "nothing to settle" in outcome.out


@pytest.mark.slow
def test_the_command_serves_until_interrupted_and_goes_on_later(
    run: RepliesRun, socket_enabled: None
) -> None:
    for done in (0, 1):
        options = ("--annotator", "anna", "--no-browser", *(() if done else ("--sample", "5")))
        with command("label", run.folder, *options) as server:
            first = server.first_line()
            assert first.startswith(f"{done} of 5 replies labelled — http://127.0.0.1:")
            parts = urlsplit(first.split()[-1])
            connection = http.client.HTTPConnection("127.0.0.1", parts.port, timeout=60)
            connection.request(
                "POST",
                f"/label/replies/{done}/label",
                json.dumps({"criterion": "abstention", "outcome": "yes"}),
                {"Content-Type": "application/json"} | cookie_of(first.split()[-1]),
            )
            assert connection.getresponse().status == 200
            connection.close()
            server.signal(signal.SIGINT)
            assert (server.wait(), server.err) == (0, "")
            assert server.out.endswith(f"{done + 1} of 5 replies labelled\n")
    labels = Labels.read(run.folder)
    assert labels.sample is not None
    assert len(labels.sample.replies) == 5
    assert len(labels.votes("abstention")) == 2
