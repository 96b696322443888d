"""Generate a set of questions from a graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...._version import CREATED_BY
from ....guard.files import AnyPath, new_folder, write_json
from ...run.calls import OnStep
from ._drawing import Material, Twins, groups_of, seeded
from ._wording import UnfitTextError, Writer, Written
from .graph import KnowledgeGraph
from .items import ChoiceItem, QuestionType, UaqItem
from .layout import TASKS, UaqData, write_layout
from .properties import GenerationSettings, PropertyProfile
from .question_templates import Templates

MANIFEST = "generation.json"
# So many failures in a row, and a property is taken to give no more questions.
_MOST_MISSES = 500


@dataclass(frozen=True, slots=True)
class GeneratedSet:
    """Generated questions.

    Attributes:
        data: the questions, in all languages, with examples.
        shortfalls: sentences that say where the graph gives less than asked for.
        left_out: why drafts were dropped while they were worded → how many.
        material: what they were made from.
    """

    data: UaqData
    shortfalls: tuple[str, ...]
    left_out: dict[str, int]
    material: Material

    @property
    def profiles(self) -> list[PropertyProfile]:
        """All properties of the graph."""
        return self.material.properties

    def counts(self) -> dict[str, Any]:
        """Return the numbers of questions by task, language, type and kind, without zeros."""
        examples = Counter[str]()
        for (language, _), rows in self.data.examples.items():
            examples[language] += len(rows)
        return {**self.data.nested_counts(), "examples": dict(examples)}

    def write(self, folder: AnyPath) -> Path:
        """Write the questions in the UAQFact layout, with `generation.json` beside them.

        Args:
            folder: a new or empty one; it appears whole, or not at all.

        Raises:
            InputError: there is something in the folder, or it cannot be written.
        """
        graph, used = self.material.graph, [one for one in self.profiles if one.usable]
        manifest = {
            "schema_version": 1,
            "kind": "uaqfact questions",
            "created_by": CREATED_BY,
            "graph": {"name": graph.source, "sha256": graph.digest, "triples": graph.triples},
            "settings": self.material.settings.model_dump(mode="json"),
            "templates": dict(sorted(self.material.templates.sha256.items())),
            "tasks": list(TASKS),
            "counts": self.counts(),
            "shortfalls": list(self.shortfalls),
            "left_out": self.left_out,
            "properties": [
                {name: getattr(one, name) for name in ("iri", "labels", "facts", "dated")}
                | {"values_per_subject": round(one.values_per_subject, 4)}
                for one in used
            ],
            "closed_world": "what the graph does not say is taken not to be so",
        }
        with new_folder(folder, last=MANIFEST) as made:
            write_layout(self.data, made)
            write_json(made / MANIFEST, manifest)
        return Path(folder)


def graph_properties(
    graph: KnowledgeGraph,
    settings: GenerationSettings,
    templates: Templates | None = None,
) -> list[PropertyProfile]:
    """List the properties of a graph, with the reason where one is left out.

    Raises:
        InputError: as `generate_questions`.
    """
    return Material(graph, settings, templates or Templates()).properties


def generate_questions(
    graph: KnowledgeGraph,
    settings: GenerationSettings | None = None,
    *,
    templates: Templates | None = None,
    on_progress: OnStep | None = None,
) -> GeneratedSet:
    """Generate questions whose facts, or whose lack of an answer, the graph shows.

    The world is taken to be closed: what the graph does not say is not so.

    Args:
        graph: loaded with the names of all the languages in `settings`.
        settings: how many, of what; the defaults by default.
        templates: wordings; the bundled ones by default.
        on_progress: called with (done, all) pairs of questions.

    Raises:
        InputError: a language without templates, or a property that the graph lacks.
    """
    material = Material(graph, settings or GenerationSettings(), templates or Templates())
    settings, drawing = material.settings, _Drawing(material, on_progress)
    wanted, half = settings.per_type, settings.examples // 2
    # Examples of all types come first: what they stand on is kept from all the others.
    examples = {kind: drawing.take(kind, half, "dev_") for kind in QuestionType}
    found = {kind: drawing.take(kind, wanted, "") for kind in QuestionType}
    shortfalls = []
    for kind in QuestionType:
        made, shown = len(found[kind]), len(examples[kind])
        if made < wanted:
            shortfalls.append(
                f"{kind.value}: {made} of {wanted} pairs of an answerable and an unanswerable "
                "question: no more were found in the graph"
            )
        if shown < half:
            shortfalls.append(f"{kind.value}: {2 * shown} of {2 * half} few-shot examples")
    left_out = dict(sorted(drawing.left_out.items()))
    return GeneratedSet(_data(settings, found, examples), tuple(shortfalls), left_out, material)


# By type, twins in all languages.
_Found = dict[QuestionType, list[list[Written]]]


class _Drawing:
    def __init__(self, material: Material, on_progress: OnStep | None) -> None:
        self._material, self._on_progress = material, on_progress
        self._seed = material.settings.seed
        self._writers = [Writer(material, language) for language in material.settings.languages]
        self._streams = {kind: self._stream(kind) for kind in QuestionType}
        # Draws of a group that gave nothing, or twins that were dropped, in a row.
        self._misses: Counter[object] = Counter()
        self._seen: set[tuple[str, str]] = set()
        self._reserved: set[tuple[str, str]] = set()
        self.left_out: Counter[str] = Counter()
        self._done = 0

    def _stream(self, kind: QuestionType) -> Iterator[tuple[object, Twins]]:
        """Yield twins from all groups in turn, so that no property prevails.

        A group of which too many draws in a row gave nothing, or were dropped, is given up.
        """
        groups = groups_of(kind, self._material)
        seeded(self._seed, "groups", kind.value).shuffle(groups)
        active = {(kind, place): group() for place, group in enumerate(groups)}
        while active:
            for name, drawn in list(active.items()):
                twins: Twins | tuple[()] | None = None
                while twins is None and self._misses[name] <= _MOST_MISSES:
                    twins = next(drawn, ())
                    self._misses[name] += 1
                if twins:
                    yield name, twins
                else:
                    del active[name]

    def take(self, kind: QuestionType, wanted: int, prefix: str) -> list[list[Written]]:
        """Return so many twins in all languages; those with a prefix are examples."""
        found: list[list[Written]] = []
        for group, twins in self._streams[kind] if wanted else ():
            one, other, facts = twins
            keys = {(part.prop, part.key) for part in (*one.parts, *other.parts)}
            if keys & self._reserved:
                self.left_out["the fact stands in an example"] += 1
                continue
            # Of two pairs in a row, one has the right option first, the other has it second.
            block = seeded(self._seed, "place", prefix, len(found) // 2).random() < 0.5
            options = one.options[:: -1 if block is (len(found) % 2 == 0) else 1]
            turned = one._replace(options=options), other, facts
            written = self._written(turned, f"{prefix}{len(found) + 1}")
            if written is None:
                continue
            self._misses[group] = 0
            found.append(written)
            if prefix:
                self._reserved |= keys
            elif self._on_progress is not None:
                self._done += 1
                self._on_progress(self._done, wanted * len(QuestionType))
            if len(found) == wanted:
                break
        return found

    def _written(self, twins: Twins, number: str) -> list[Written] | None:
        try:
            written = [writer.write(twins, number) for writer in self._writers]
        except UnfitTextError as error:
            self.left_out[str(error)] += 1
            return None
        texts = {(item.language, item.question) for both, _ in written for item in both}
        if len(texts) < 2 * len(written) or texts & self._seen:
            self.left_out["the question was there already"] += 1
            return None
        self._seen |= texts
        return written


def _data(settings: GenerationSettings, found: _Found, examples: _Found) -> UaqData:
    items: list[UaqItem] = []
    choices: list[ChoiceItem] = []
    shots: dict[tuple[str, QuestionType], tuple[UaqItem, ...]] = {}
    for at, language in enumerate(settings.languages):
        for kind in QuestionType:
            rows = [written[at] for written in found[kind]]
            items += [both[1] for both, _ in rows] + [both[0] for both, _ in rows]
            choices += _shared([choice for _, own in rows for choice in own])
            rng = seeded(settings.seed, "examples", kind.value)
            shots[language, kind] = tuple(
                item
                for written in examples[kind]
                for item in written[at][0][:: 1 if rng.random() < 0.5 else -1]
            )
    bare = {key: tuple(replace(one, clues=()) for one in row) for key, row in shots.items()}
    return UaqData(tuple(items), tuple(choices), bare, shots)


def _shared(choices: Sequence[ChoiceItem]) -> list[ChoiceItem]:
    """Every fact once, linked to all the questions that need it."""
    found: dict[tuple[str, str], ChoiceItem] = {}
    for choice in choices:
        known = found.setdefault((choice.question, choice.target), choice)
        linked = tuple(dict.fromkeys((*known.relevant, *choice.relevant)))
        found[choice.question, choice.target] = known.model_copy(update={"relevant": linked})
    return list(found.values())
