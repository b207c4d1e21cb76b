"""Core metadata (a ``METADATA`` file) read into one frozen value, and written as a ``[project]`` table."""

from __future__ import annotations

import configparser
import dataclasses
import email.utils
from dataclasses import dataclass
from typing import Any

from packaging.metadata import parse_email
from packaging.specifiers import InvalidSpecifier, SpecifierSet

from cpuwheels.core.errors import WheelError
from cpuwheels.wheel.requirements import MovedRequirement, sort_requirements

_README_NAMES = {"text/markdown": "README.md", "text/x-rst": "README.rst", "text/plain": "README.txt"}

# How the file was written, not what the distribution is.
_IGNORED_FIELDS = {"metadata_version", "dynamic", "platforms"}

_KNOWN_FIELDS = _IGNORED_FIELDS | {
    "name",
    "version",
    "summary",
    "description",
    "description_content_type",
    "requires_python",
    "license",
    "license_expression",
    "license_files",
    "author",
    "author_email",
    "maintainer",
    "maintainer_email",
    "keywords",
    "classifiers",
    "project_urls",
    "home_page",
    "requires_dist",
    "provides_extra",
}

Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Project:
    """Everything a distribution declares about itself.

    Attributes:
        name: Distribution name.
        version: With its local label.
        summary: One line.
        readme: Long description.
        readme_type: Its content type.
        requires_python: Python versions, as a PEP 440 range in canonical order.
        license_expression: SPDX expression, or empty.
        license_text: The older free-text licence field, or empty.
        license_files: Paths as declared, below ``<dist-info>/licenses``.
        authors: Name and address, either may be empty.
        maintainers: Likewise.
        keywords: In the order declared.
        classifiers: In the order declared.
        urls: Label and URL.
        requirements: Those without an extra.
        extras: Extra → requirements, sorted by extra.
        entry_points: Group → name and object, all sorted.
        moved: URL requirements that were made plain.
    """

    name: str
    version: str
    summary: str
    readme: str
    readme_type: str
    requires_python: str
    license_expression: str
    license_text: str
    license_files: tuple[str, ...]
    authors: Pairs
    maintainers: Pairs
    keywords: tuple[str, ...]
    classifiers: tuple[str, ...]
    urls: Pairs
    requirements: tuple[str, ...]
    extras: tuple[tuple[str, tuple[str, ...]], ...]
    entry_points: tuple[tuple[str, Pairs], ...]
    moved: tuple[MovedRequirement, ...] = ()

    @property
    def readme_name(self) -> str:
        """File name that suits the long description's type."""
        return _README_NAMES.get(self.readme_type.partition(";")[0].strip(), "README.txt")


def read_project(metadata: bytes, entry_points: str = "") -> Project:
    """Return what a ``METADATA`` and an ``entry_points.txt`` say; URL requirements are made plain.

    Raises:
        WheelError: A field is not one of the core metadata, or would be lost in a ``[project]`` table.
    """
    raw, unparsed = parse_email(metadata)
    fields: dict[str, Any] = dict(raw)
    lost = sorted([*unparsed, *(set(fields) - _KNOWN_FIELDS)])
    if lost:
        raise WheelError(
            f"metadata field {lost[0]} has no place in the wheel's project table",
            where="METADATA of the source",
            next_step="extend cpuwheels/wheel/project.py; nothing upstream declares may get lost",
        )
    if not fields.get("name") or not fields.get("version"):
        raise WheelError("metadata without a name or a version", where="METADATA")
    urls = dict(fields.get("project_urls", {}))
    if fields.get("home_page"):
        urls.setdefault("Homepage", fields["home_page"])
    requirements = sort_requirements(fields.get("requires_dist", ()), fields.get("provides_extra", ()))
    return Project(
        name=fields["name"],
        version=fields["version"],
        summary=fields.get("summary", ""),
        readme=fields.get("description", "").strip("\n"),
        readme_type=fields.get("description_content_type", "text/plain"),
        requires_python=_specifiers(fields.get("requires_python", "")),
        license_expression=fields.get("license_expression", ""),
        license_text=fields.get("license", ""),
        license_files=tuple(fields.get("license_files", ())),
        authors=_people(fields, "author"),
        maintainers=_people(fields, "maintainer"),
        keywords=tuple(fields.get("keywords", ())),
        classifiers=tuple(fields.get("classifiers", ())),
        urls=tuple(sorted(urls.items())),
        requirements=requirements.always,
        extras=requirements.extras,
        entry_points=read_entry_points(entry_points),
        moved=requirements.moved,
    )


def _specifiers(text: str) -> str:
    try:
        return str(SpecifierSet(text))
    except InvalidSpecifier as error:
        raise WheelError(f"metadata with a Requires-Python that is none: {error}", where="METADATA") from error


def read_entry_points(text: str) -> tuple[tuple[str, Pairs], ...]:
    """Return the groups of an ``entry_points.txt``, sorted.

    Raises:
        WheelError: They cannot be read.
    """
    parser = configparser.RawConfigParser(delimiters=("=",), strict=True)
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # names are case-sensitive
    try:
        parser.read_string(text)
    except configparser.Error as error:
        raise WheelError(f"entry points cannot be read: {error}", where="entry_points.txt") from error
    return tuple((group, tuple(sorted(parser.items(group)))) for group in sorted(parser.sections()))


def project_table(project: Project) -> dict[str, Any]:
    """Return the ``[project]`` table that says the same, nothing dynamic."""
    groups = {group: dict(pairs) for group, pairs in project.entry_points}
    table: dict[str, Any] = {
        "name": project.name,
        "version": project.version,
        "description": project.summary,
        "readme": {"file": project.readme_name, "content-type": project.readme_type} if project.readme else None,
        "requires-python": project.requires_python,
        "license": project.license_expression or ({"text": project.license_text} if project.license_text else None),
        "license-files": list(project.license_files),
        "authors": [_person(*pair) for pair in project.authors],
        "maintainers": [_person(*pair) for pair in project.maintainers],
        "keywords": list(project.keywords),
        "classifiers": list(project.classifiers),
        "urls": dict(project.urls),
        "dependencies": list(project.requirements),
        "optional-dependencies": {extra: list(lines) for extra, lines in project.extras},
        "scripts": groups.pop("console_scripts", {}),
        "gui-scripts": groups.pop("gui_scripts", {}),
        "entry-points": groups,
    }
    if project.license_text and not project.license_expression:
        # The older form of the licence excludes declared files; the backend finds them by name.
        del table["license-files"]
    return {key: value for key, value in table.items() if value}


def differences(declared: Project, written: Project) -> list[str]:
    """Return the fields in which a written wheel's metadata differ from the declared ones.

    Both have had their URL requirements made plain, so the list of moved ones is not compared.
    """
    return [
        f"{field.name}: declared {before!r:.200}, written {after!r:.200}"
        for field in dataclasses.fields(Project)
        if field.name != "moved"
        and (before := getattr(declared, field.name)) != (after := getattr(written, field.name))
    ]


def _people(fields: dict[str, Any], kind: str) -> Pairs:
    people = email.utils.getaddresses([fields.get(f"{kind}_email", "")])
    named = [(name.strip(), "") for name in fields.get(kind, "").split(",")]
    return tuple(pair for pair in [*named, *people] if any(pair))


def _person(name: str, address: str) -> dict[str, str]:
    return {key: value for key, value in (("name", name), ("email", address)) if value}
