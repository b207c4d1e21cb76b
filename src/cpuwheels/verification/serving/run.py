"""Models served one after another: each is made, answered by transformers, and served in each way that is wanted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cpuwheels.core.errors import ServeError
from cpuwheels.verification.serving.case import serve_case
from cpuwheels.verification.serving.models import MADE, Model
from cpuwheels.verification.serving.questions import make_models, questions_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from cpuwheels.verification.serving.case import Wanted
    from cpuwheels.verification.serving.result import Case
    from cpuwheels.verification.serving.setting import Setting


def serve_models(
    setting: Setting,
    models: Mapping[str, Path | None],
    dtypes: Sequence[str],
    wanted: Callable[[str, Path, str], Sequence[Wanted]],
) -> Iterator[Case]:
    """Serve each model in each data type that it has, with one set of questions for all its cases.

    Args:
        setting: Of the run.
        models: Their folders by name; None if a model is made on the spot.
        dtypes: The data types.
        wanted: Returns the cases of a model, its folder, and a data type.
    """
    made = make_models(setting, [name for name, folder in models.items() if folder is None])
    for name, folder in models.items():
        place, kind = folder or made[name], MADE.get(name, Model())
        for dtype in (each for each in dtypes if each in kind.dtypes):
            cases = wanted(name, place, dtype)
            yield from (one.not_served() for one in cases if one.absent)
            if not (served := [one for one in cases if not one.absent]):
                continue
            try:
                questions = questions_for(setting, name, place, dtype)
            except ServeError as error:
                yield from (one.not_served(error.what) for one in served)
                continue
            yield from (serve_case(setting, one, questions) for one in served)
