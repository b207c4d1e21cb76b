"""The models that are made on the spot, and the questions to which transformers has a clear answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cpuwheels.core.errors import ServeError
from cpuwheels.core.models import parse_as
from cpuwheels.verification.serving.models import MADE, Model
from cpuwheels.verification.serving.setting import run_script

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from cpuwheels.verification.serving.setting import Setting

LEAST_LEAD = {"float32": 0.001, "bfloat16": 0.05, "float16": 0.01}
"""Of questions that are asked, in standard deviations of the scores. In bfloat16 the scores of the small models are off
by 0.01 (root mean square, against float32), mostly the step of the format at their size, 2^-8 of 3. Where a model's
errors are larger, resources/reference.py finds them and requires more."""

_CANDIDATES = 120
"""Texts of each length among which the clearest are taken; one of about twenty answers of 16 tokens is clear enough."""

_FEW_CANDIDATES = 8
"""For a model that is not small: it takes longer, and it is trained, so most of its answers are clear."""

_EMULATED = 24
"""Where transformers is emulated. More answers are clear, as they have 8 tokens."""

TOKENS = {False: 16, True: 8}
"""Of an answer; fewer where everything is emulated, and as few as the model says."""

TEXTS = {False: ("6,40,170,450", "2"), True: ("6,170", "1")}
"""Characters of the texts, and texts of each length and kind; fewer where everything is emulated. The longest are
several chunks, and fill a block of the KV cache and more. See resources/reference.py."""

_SMALL = 64 << 20
"""Bytes of weights."""

_FEWEST = {"text": 12, "embedding": 8}
"""What a model that is made is asked at least: two of each kind and length (resources/reference.py), that is 16, but
for those to which no answer is clear enough."""

_FEWEST_EMULATED = {"text": 3, "embedding": 8}
"""The same where everything is emulated, of 4 and 8."""


def make_models(setting: Setting, names: Sequence[str]) -> dict[str, Path]:
    """Make the models that are made on the spot, and return their folders by name.

    Raises:
        ServeError: They cannot be made.
    """
    folder = setting.work / "models"
    if names:
        run_script(setting, "tiny_models.py", folder, *names)
    return {name: folder / name for name in names}


def questions_for(setting: Setting, model: str, folder: Path, dtype: str) -> Path:
    """Ask transformers, and return the file with the questions whose answers are clear.

    Raises:
        ServeError: transformers cannot run the model, or too few of its answers are clear.
    """
    output = setting.work / f"{model}-{dtype}-questions.json"
    known = MADE.get(model, Model())
    task = known.task
    if task == "embedding":
        run_script(setting, "reference_vectors.py", folder, dtype, output, *TEXTS[False])
    else:
        size = sum(path.stat().st_size for path in folder.glob("*.safetensors"))
        many = _EMULATED if setting.emulated else _CANDIDATES
        candidates = many if 0 < size <= _SMALL else _FEW_CANDIDATES
        tokens = str(min(TOKENS[setting.emulated], known.tokens))
        asked = (str(candidates), str(LEAST_LEAD[dtype]), output, tokens, *TEXTS[setting.emulated])
        run_script(setting, "reference.py", folder, dtype, *asked)
    count = len(parse_as(list[Any], output.read_bytes(), output))
    fewest = (_FEWEST_EMULATED if setting.emulated else _FEWEST)[task]
    if model in MADE and count < fewest:
        raise ServeError(f"only {count} of {fewest} questions have a clear answer", where=output)
    return output
