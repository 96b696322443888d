"""The published layout, version 1.0: which file holds what.

task1/<type>_<kind>_<language>.json           questions and answers
task1/dev/<type>_<language>_dev.json          few-shot examples
task2/<type>_task2_<language>_choice.json     four-option questions on the facts
task3/<type>/<type>_sup_logic_<kind>_<language>.json    reasoning clues
task3/dev/shuffled/<type>_<language>.json     few-shot examples with clues
"""

from __future__ import annotations

import os
from pathlib import Path

from ...guard import InputError
from ._items import LANGUAGES, Answerability, QuestionType

_MEND = "fetch the data set whole, or name fewer --tasks or --lang"
# In task 1 two of the three types carry another name or a version.
_TASK1_NAMES = {
    QuestionType.INTER: "inter_{kind}_{language}.json",
    QuestionType.TIME: "timeqa_{kind}_{language}_v2.json",
    QuestionType.DILEMMA: "dilemma_{kind}_{language}_v2.json",
}


class Layout:
    """A folder in the published layout.

    Args:
        folder: the one that holds `task1`, or one that holds it as `1.0` or `data/1.0`.

    Raises:
        InputError: there is no such folder, or no `task1` in it.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        root = Path(folder)
        if not root.is_dir():
            what = "is a file, not a folder" if root.exists() else "there is no such folder"
            raise InputError(what, where=str(root), mend="name the folder that holds task1")
        for candidate in (root, root / "1.0", root / "data" / "1.0"):
            if (candidate / "task1").is_dir():
                self.root = candidate
                return
        raise InputError(
            "no folder task1 in it",
            where=str(root),
            mend="name the folder that holds task1, task2 and task3 (`1.0` in the published set)",
        )

    def questions(self, question_type: QuestionType, kind: Answerability, language: str) -> Path:
        """Questions of task 1."""
        name = _TASK1_NAMES[question_type].format(kind=kind.value, language=language)
        return self.root / "task1" / name

    def examples(self, question_type: QuestionType, language: str) -> Path:
        """Few-shot examples of task 1."""
        return self.root / "task1" / "dev" / f"{question_type.value}_{language}_dev.json"

    def choices(self, question_type: QuestionType, language: str) -> Path:
        """Questions of task 2."""
        return self.root / "task2" / f"{question_type.value}_task2_{language}_choice.json"

    def clues(self, question_type: QuestionType, kind: Answerability, language: str) -> Path:
        """Questions of task 3."""
        name = question_type.value
        file = f"{name}_sup_logic_{kind.value}_{language}.json"
        return self.root / "task3" / name / file

    def clue_examples(self, question_type: QuestionType, language: str) -> Path:
        """Few-shot examples of task 3."""
        name = f"{question_type.value}_{language}.json"
        return self.root / "task3" / "dev" / "shuffled" / name

    def present_languages(self) -> tuple[str, ...]:
        """Languages of which task 1 has a file; the two published ones first."""
        found = {
            language
            for path in (self.root / "task1").glob("inter_ua_*.json")
            for language in [path.stem.removeprefix("inter_ua_")]
        }
        known = [language for language in LANGUAGES if language in found]
        return (*known, *sorted(found - set(known)))

    def needed(self, language: str, tasks: tuple[int, ...]) -> list[Path]:
        """The files that `tasks` need in one language."""
        paths = []
        for question_type in QuestionType:
            for kind in Answerability:
                paths.append(self.questions(question_type, kind, language))
                if 3 in tasks:
                    paths.append(self.clues(question_type, kind, language))
            if 1 in tasks:
                paths.append(self.examples(question_type, language))
            if 2 in tasks:
                paths.append(self.choices(question_type, language))
            if 3 in tasks:
                paths.append(self.clue_examples(question_type, language))
        return paths

    def require(self, language: str, tasks: tuple[int, ...]) -> None:
        """Refuse a partial folder.

        Raises:
            InputError: a file is missing; names the first and says how many.
        """
        needed = self.needed(language, tasks)
        missing = [path for path in needed if not path.is_file()]
        if missing:
            raise InputError(
                f"{len(missing)} of {len(needed)} files for language {language!r} and tasks "
                f"{','.join(map(str, tasks))} are missing, the first is "
                f"{missing[0].relative_to(self.root)}",
                where=str(self.root),
                mend=_MEND,
            )
