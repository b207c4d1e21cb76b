"""In place of the script that makes a model with transformers."""

import sys
from pathlib import Path

folder = Path(sys.argv[1]) / sys.argv[2]
folder.mkdir(parents=True)
(folder / "config.json").write_text("{}")
