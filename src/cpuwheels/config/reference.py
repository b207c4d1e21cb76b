"""Reference pages and JSON schemas, generated from models and docstrings so that they cannot go stale unnoticed."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from cpuwheels.config.debian_lock import DebianLock
from cpuwheels.config.described import described_schema
from cpuwheels.config.matrix import Matrix
from cpuwheels.config.patch_series import Series
from cpuwheels.config.rebuilders import Rebuilders
from cpuwheels.config.remedies import REMEDIES, error_classes
from cpuwheels.core.errors import MatrixError
from cpuwheels.core.filesystem import storage_errors, write_atomic

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import BaseModel

_MODELS: dict[str, tuple[type[BaseModel], str]] = {
    "matrix": (Matrix, "matrix.yaml"),
    "series": (Series, "patches/series.yaml"),
    "lock": (DebianLock, "locks/*.yaml"),
    "rebuilders": (Rebuilders, "rebuilders.yaml"),
}
_NO_OUTPUTS: Mapping[str, type[BaseModel]] = MappingProxyType({})
_NO_FILES: Mapping[Path, str] = MappingProxyType({})

PACKAGES = (
    "core",
    "config",
    "fetch",
    "source",
    "toolchain",
    "sandbox",
    "environment",
    "kernels",
    "wheel",
    "audit",
    "verification",
    "pipeline",
    "attestation",
    "shared",
    "rebuild",
    "farm",
    "image",
    "index",
    "doctor",
    "bisect",
    "cli",
)
"""The packages of ``src/cpuwheels``, each importing only those before it."""

CODE = Path(__file__).parents[1]
"""This package's own folder, which the layout page describes."""


def reference_files(
    root: Path, matrix: Matrix, code: Path = CODE, outputs: Mapping[str, type[BaseModel]] = _NO_OUTPUTS
) -> dict[Path, str]:
    """Return every generated file with the text it should have.

    Args:
        root: The project's folder.
        matrix: The configuration.
        code: The folder of the package ``cpuwheels``.
        outputs: Models of JSON files that commands write, by the name of the file without its ending.

    Raises:
        MatrixError: A package or module has no docstring, `PACKAGES` is not what the folder holds, or a page has no
            place for its table.
    """
    folder = root / "docs" / "reference"
    files = {folder / "exit-codes.md": exit_codes_page(), folder / "layout.md": layout_page(code)}
    read = {name: (described_schema(model), file) for name, (model, file) in _MODELS.items()}
    written = {name: (described_schema(model, "serialization"), f"{name}.json") for name, model in outputs.items()}
    for name, (schema, file) in (read | written).items():
        files[folder / f"{name}.schema.json"] = json.dumps(schema, indent=2, sort_keys=True) + "\n"
        files[folder / f"{name}.md"] = model_page(schema, file)
    for path, what, table in (
        (root / "README.md", "targets", targets_table(matrix)),
        (root / "docs" / "troubleshooting.md", "exit codes", remedies_table()),
    ):
        files[path] = with_table(path.read_text(encoding="utf-8"), table, what, path.name)
    return files


def write_reference(
    root: Path,
    matrix: Matrix,
    *,
    only_check: bool,
    code: Path = CODE,
    outputs: Mapping[str, type[BaseModel]] = _NO_OUTPUTS,
    also: Mapping[Path, str] = _NO_FILES,
) -> list[Path]:
    """Write the generated files that differ and return them.

    The arguments are those of `reference_files`, and ``also`` has other generated files with their texts.

    Raises:
        MatrixError: ``only_check`` is set and a file is stale, or a text cannot be generated.
    """
    files = {**reference_files(root, matrix, code, outputs), **also}
    stale = [path for path, text in files.items() if not path.is_file() or path.read_text(encoding="utf-8") != text]
    if only_check and stale:
        raise MatrixError(
            f"{', '.join(path.relative_to(root).as_posix() for path in stale)} no longer fit models and docstrings",
            where=root,
            next_step="run nox -s schema and commit what it writes",
        )
    for path in [] if only_check else stale:
        with storage_errors(path.parent):
            write_atomic(path, files[path])
    return stale


def exit_codes_page() -> str:
    """Return the page of exit codes: one row for each class of error."""
    rows = [
        f"| {member.exit_code} | `{member.__name__}` | {_first_line(member.__doc__)} |" for member in error_classes()
    ]
    more = "What to do after each is in [troubleshooting](../troubleshooting.md#by-exit-code)."
    return "\n".join(["# Exit codes", "", more, "", "| code | error | meaning |", "|---|---|---|", *rows, ""])


def remedies_table() -> str:
    """Return the table of what to do after each kind of error."""
    rows = [
        f"| {member.exit_code} | {_first_line(member.__doc__)} | {REMEDIES[member]} |" for member in error_classes()
    ]
    return "\n".join(["| exit code | what is wrong | what to do |", "|---|---|---|", *rows])


def model_page(schema: dict[str, object], file: str) -> str:
    """Return the page of one configuration file: a table of keys for each of its models."""
    definitions = schema.get("$defs", {})
    assert isinstance(definitions, dict)  # noqa: S101
    parts = [f"# `{file}`", "", _first_line(str(schema.get("description", ""))), ""]
    parts += _keys_table(schema)
    for name, definition in sorted(definitions.items()):
        parts += [f"## {name}", "", _first_line(str(definition.get("description", ""))), "", *_keys_table(definition)]
    return "\n".join(parts).rstrip() + "\n"


def layout_page(code: Path) -> str:
    """Return the page of packages and modules: the first paragraph of each docstring.

    The files are parsed, never imported.

    Args:
        code: The folder of the package ``cpuwheels``.

    Raises:
        MatrixError: A package or module has no docstring, or `PACKAGES` is not what the folder holds.
    """
    found = {path.parent.name for path in code.glob("*/__init__.py")}
    if differ := found.symmetric_difference(PACKAGES):
        raise MatrixError(
            f"the order of packages and the folder differ: {', '.join(sorted(differ))}",
            where=code,
            next_step="correct PACKAGES in cpuwheels/config/reference.py",
        )
    parts = [
        f"# Layout of `src/{code.name}`",
        "",
        "Each package imports only those above it. [Design](../design.md) explains how they work together.",
        "",
    ]
    for name in PACKAGES:
        parts += _package_section(code / name, code)
    return "\n".join(parts).rstrip() + "\n"


def _package_section(folder: Path, code: Path) -> list[str]:
    name = folder.relative_to(code).as_posix()
    modules, packages = [], []
    for entry in sorted(folder.iterdir()):
        if entry.suffix == ".py" and entry.name != "__init__.py":
            modules.append(entry)
        elif (entry / "__init__.py").is_file():
            packages.append(entry)
        elif entry.is_dir():  # scripts for other interpreters
            modules += sorted(entry.rglob("*.py"))
    listed = [f"- `{module.relative_to(folder).as_posix()}`: {_docstring(module)}" for module in modules]
    section = ["#" * (2 + name.count("/")) + f" `{name}`", "", _docstring(folder / "__init__.py"), "", *listed]
    section += [""] * bool(listed)
    return section + [line for package in packages for line in _package_section(package, code)]


def _docstring(module: Path) -> str:
    if text := ast.get_docstring(ast.parse(module.read_text(encoding="utf-8"))):
        return _first_line(text)
    raise MatrixError(
        f"{module.name} of {module.parent.name}/ has no docstring",
        where=module,
        next_step="begin it with one sentence that says what it does",
    )


def targets_table(matrix: Matrix) -> str:
    """Return the README's table of targets."""
    rows = [
        f"| `{target.id}` | {target.description} | {', '.join(f'`{lib.name}`' for lib in target.libraries)} "
        f"| {target.floor} | {target.status} |"
        for target in matrix.targets
    ]
    return "\n".join(["| target | builds | kernel libraries | floor | state |", "|---|---|---|---|---|", *rows])


def with_table(text: str, table: str, what: str, name: str) -> str:
    """Return a text with the table between its markers.

    Args:
        text: Of the page.
        table: The table.
        what: What it is of.
        name: The page's, for messages.

    Raises:
        MatrixError: The markers are not there.
    """
    begin = f"<!-- {what}: generated by nox -s schema -->"
    before, start, rest = text.partition(begin)
    _, end, after = rest.partition(f"<!-- end of {what} -->")
    if not start or not end:
        raise MatrixError(f"{name} has no place for the table of {what}", where=name, next_step=begin)
    return f"{before}{start}\n{table}\n{end}{after}"


def _keys_table(schema: dict[str, object]) -> list[str]:
    properties = schema.get("properties", {})
    required = schema.get("required", [])
    assert isinstance(properties, dict)  # noqa: S101
    assert isinstance(required, list)  # noqa: S101
    rows = [
        f"| `{name}` | {_type(entry)} | {'yes' if name in required else ''} | {_first_line(entry.get('description'))} |"
        for name, entry in properties.items()
    ]
    return ["| key | type | required | meaning |", "|---|---|---|---|", *rows, ""]


def _type(entry: dict[str, object]) -> str:
    if reference := entry.get("$ref"):
        return str(reference).rsplit("/", 1)[-1]
    if choices := entry.get("enum"):
        assert isinstance(choices, list)  # noqa: S101
        return " or ".join(f"`{choice}`" for choice in choices)
    if options := entry.get("anyOf"):
        assert isinstance(options, list)  # noqa: S101
        return " or ".join(_type(option) for option in options)
    if entry.get("type") == "array":
        items = entry.get("items")
        return f"list of {_type(items)}" if isinstance(items, dict) else "list"
    if entry.get("type") == "object":
        values = entry.get("additionalProperties")
        return f"mapping to {_type(values)}" if isinstance(values, dict) else "mapping"
    return str(entry.get("type", "any"))


def _first_line(text: object) -> str:
    return " ".join(str(text or "").strip().split("\n\n")[0].split()).replace("|", "\\|")
