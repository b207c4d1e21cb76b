"""The labels of .github/labels.yml, made or corrected in the repository with `gh`.

    python .ci/labels.py            # print the commands
    python .ci/labels.py --apply    # run them; gh has to be logged in, or GH_TOKEN set

Labels that are not in the file stay.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import yaml
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter

LABELS = Path(__file__).parents[1] / ".github" / "labels.yml"


class Label(BaseModel):
    """A label; GitHub takes descriptions of at most 100 characters."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    name: Annotated[str, StringConstraints(min_length=1, max_length=50)]
    color: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{6}$")]
    description: Annotated[str, StringConstraints(min_length=1, max_length=100)]
    set_by: list[str] = Field(alias="set-by", min_length=1)

    def command(self) -> list[str]:
        """Return the command that makes it, or corrects it if it is there."""
        return ["gh", "label", "create", self.name, "--color", self.color, "--description", self.description, "--force"]


def load_labels(path: Path = LABELS) -> list[Label]:
    """Return the labels of a file."""
    return TypeAdapter(list[Label]).validate_python(yaml.safe_load(path.read_text(encoding="utf-8")))


def main(words: list[str]) -> int:
    """Print the commands, or run them; return the exit code of the first that fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--apply", action="store_true")
    chosen = parser.parse_args(words)
    for label in load_labels():
        command = label.command()
        print(shlex.join(command), flush=True)
        if chosen.apply and (code := subprocess.run(command, check=False).returncode):
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
