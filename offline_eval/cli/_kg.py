"""`knowgate kg …`: from a knowledge graph to questions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...guard.errors import InputError
from ...guard.files import require_new_folder
from ..data.graph.endpoint import EndpointSettings
from ..data.graph.generation import generate_questions, graph_properties
from ..data.graph.graph import KnowledgeGraph
from ..data.graph.loading import load_graph
from ..data.graph.properties import GenerationSettings, PropertyRules
from ..data.graph.question_templates import Templates
from ._console import HELP_MODE, out, print_figures, progress_bar, tell
from ._options import prints_figures, required, separated

kg_app = typer.Typer(no_args_is_help=True, rich_markup_mode=HELP_MODE)


@kg_app.callback()
def kg() -> None:
    """From a knowledge graph to questions for `knowgate eval uaqfact`."""


@kg_app.command()
@prints_figures
def generate(
    graph: Annotated[str, typer.Argument(metavar="GRAPH")],
    *,
    out_dir: Path | None = None,
    lang: str = "en",
    label_fallback: str = "",
    per_type: Annotated[int, typer.Option(min=1)] = 200,
    examples: Annotated[int, typer.Option(min=4)] = 8,
    templates: list[Path] | None = None,
    include: list[str] | None = None,
    exclude: list[str] | None = None,
    properties: PropertyRules,
    seed: int = 0,
    subjects: str = "",
    endpoint: EndpointSettings,
    dry_run: bool = False,
) -> None:
    """Write unanswerable questions, their answerable twins, and the facts behind them.

    Intersections that are empty, times in which nothing holds, and choices between two
    wrong options, each checked against the graph, in the layout that `knowgate eval
    uaqfact` reads.

    Example: `knowgate kg generate graph.ttl --lang en,zh --out questions`

    Args:
        graph: An RDF file (.nt .nq .ttl .trig .n3 .rdf .jsonld, also with .gz), a folder in
            which pyoxigraph keeps a store, the address of a SPARQL endpoint, or microworld.
        out_dir: New folder for the questions.
        lang: Languages, with commas between them; each question in all.
        label_fallback: Languages whose labels stand in for missing ones, in order.
        per_type: Unanswerable questions per type; as many answerable ones.
        examples: Few-shot examples per type, half of them unanswerable.
        templates: TOML file with wordings of your own. Repeatable; the last one wins.
        include: Only these properties, by IRI or its last part. Repeatable.
        exclude: Never these properties, likewise. Repeatable.
        properties: Which others are used: min_facts=5 (fewest facts of a property),
            max_values=5 (most answers of one question), functional=any, only or never (those
            with one value a subject), local_names=false (name those without a label after
            their IRI).
        seed: The same seed gives the same files.
        subjects: Endpoint: SPARQL pattern; facts of these ?s only.
        endpoint: How an endpoint is asked: user-agent=NAME (who asks; put an address to reach
            you in it), pause=0.5 (seconds between two requests),
            timeout=65 (for one request), deadline=1800 (for all), page_size=5000 (rows per
            request), most_facts=20000 (of each property).
        dry_run: List the properties and why some are left out.
    """
    named = {"include": tuple(include or ()), "exclude": tuple(exclude or ())}
    rules, languages = properties.model_copy(update=named), tuple(dict.fromkeys(separated([lang])))
    settings = GenerationSettings(
        languages=languages, per_type=per_type, examples=examples, rules=rules, seed=seed
    )
    texts = Templates(templates or ())
    for language in settings.languages:
        texts.require(language)
    if not dry_run:
        # Before a graph is loaded.
        require_new_folder(required(out_dir, "--out", "name a new folder, or --dry-run"))
    with progress_bar("loading triples") as advance:
        loaded = load_graph(
            graph,
            languages=settings.languages,
            fallback=list(dict.fromkeys(separated([label_fallback]))),
            properties=rules.include,
            endpoint=endpoint.model_copy(update={"subjects": subjects}),
            on_progress=lambda number: advance(number, number),
        )
    if out_dir is None or dry_run:
        _show_properties(loaded, settings, texts)
        return
    with progress_bar("making questions") as advance:
        made = generate_questions(loaded, settings, templates=texts, on_progress=advance)
    if not made.data.items:
        hint = "--dry-run says what was left out"
        raise InputError("the graph gives no questions", where=loaded.source, hint=hint)
    made.write(out_dir)
    counts = made.counts()
    print_figures({**counts, "notes": made.shortfalls, "folder": out_dir})
    tell("generated", counts, made.shortfalls, out_dir)


def _show_properties(graph: KnowledgeGraph, settings: GenerationSettings, texts: Templates) -> None:
    profiles = graph_properties(graph, settings, texts)
    for title, usable in (("used", True), ("left out", False)):
        chosen = [f"  {profile}" for profile in profiles if profile.usable is usable]
        if chosen:
            out.print("\n".join([title, *chosen]))
    used = sum(profile.usable for profile in profiles)
    out.print(f"{graph.triples:,} triples; {used} of {len(profiles)} properties are used")
    print_figures({"properties": [profile.to_json() for profile in profiles]})
