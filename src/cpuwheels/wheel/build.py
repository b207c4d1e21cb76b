"""The overlay built into a wheel, audited and brought into canonical form."""

from __future__ import annotations

import json
import zipfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cpuwheels.errors import CommandError, WheelError
from cpuwheels.keys import file_digest
from cpuwheels.process import closed_environment, run
from cpuwheels.storage import remove_tree, storage_errors
from cpuwheels.wheel.canonical import dist_info_of
from cpuwheels.wheel.project import differences, read_project

if TYPE_CHECKING:
    from pathlib import Path

    from cpuwheels.wheel.overlay import Overlay
    from cpuwheels.wheel.project import Project
    from cpuwheels.wheel.requirements import MovedRequirement
