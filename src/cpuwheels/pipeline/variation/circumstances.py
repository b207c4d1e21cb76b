"""The circumstances of a second build: everything about it that is not an input of the wheel."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from cpuwheels.config.options import BuildOptions


class NotVariedError(Exception):
    """This machine cannot change something; the message says why, as a clause."""


@dataclass(frozen=True)
class User:
    """A user that a process takes itself for, in a user namespace.

    Attributes:
        name: Name of the user and of the group.
        number: Of both.
    """

    name: str
    number: int


@dataclass(frozen=True)
class Circumstances:
    """How a second build is run. What is not set is as in the first.

    Attributes:
        options: Of the build.
        umask: Of the driver.
        variables: Of the driver; None for one that is removed.
        loaded: Settings of the library that every command loads; without any it is not loaded.
        elsewhere: Whether stores, output, this program and the project's files have other paths.
        longer: Whether these paths are much longer.
        cold: Whether the stores hold only what was fetched.
        home: Whether the home folder is another, empty one.
        python: Interpreter that runs the driver.
        user: Another user.
        hostname: Another name of the machine.
        personality: Flags of personality(2).
        cpus: CPUs that may be used.
    """

    options: BuildOptions
    umask: int
    variables: Mapping[str, str | None] = field(default_factory=dict)
    loaded: Mapping[str, str] = field(default_factory=dict)
    elsewhere: bool = False
    longer: bool = False
    cold: bool = False
    home: bool = False
    python: Path | None = None
    user: User | None = None
    hostname: str | None = None
    personality: int = 0
    cpus: frozenset[int] | None = None

    def with_variables(self, **variables: str | None) -> Circumstances:
        """Return these circumstances with other variables of the driver."""
        return replace(self, variables={**self.variables, **variables})

    def with_loaded(self, name: str, value: int) -> Circumstances:
        """Return these circumstances with a setting of the library that every command loads."""
        return replace(self, loaded={**self.loaded, name: str(value)})

    def with_options(self, **changes: Any) -> Circumstances:  # noqa: ANN401  (whatever an option has)
        """Return these circumstances with other options of the build."""
        return replace(self, options=replace(self.options, **changes))
