"""Statements that others wrote: read without believing them, and compared with the wheel that they are about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from cpuwheels.attestation.own_release import WHEELS
from cpuwheels.core.errors import MalformedDataError, ProvenanceError
from cpuwheels.core.parse import parse_json
from cpuwheels.pipeline.in_toto import SLSA, ProvenanceStatement, Statement

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

PUBLISH = "https://docs.pypi.org/attestations/publish/v1"
"""Type of the statement that a file was published by somebody."""


def check_statement(
    content: bytes, name: str, sha256: str, where: str | Path, kinds: Mapping[str, frozenset[str]] = WHEELS
) -> Statement:
    """Return a statement about a wheel.

    Args:
        content: The statement.
        name: File name of the wheel.
        sha256: Digest of the wheel.
        where: What has the statement, for the message.
        kinds: Build types that count, each with the names of its parameters.

    Raises:
        ProvenanceError: It is no statement, one of another type, or about something else.
    """
    data = _parsed(content, where)
    kind = data.get("predicateType")
    try:
        # By the names that the specification has, and no others: every reader then sees the same.
        model = ProvenanceStatement if kind == SLSA else Statement
        found = model.model_validate(data, by_alias=True, by_name=False)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        place = ".".join(map(str, fault["loc"])) or "the whole"
        raise _refused(f"it is no statement: {place}: {fault['msg']}", where) from error
    if kind not in {SLSA, PUBLISH}:
        raise _refused(f"its type is {found.predicate_type}, not {SLSA} or {PUBLISH}", where)
    if isinstance(found, ProvenanceStatement):
        _check_parameters(found, kinds, where)
    subjects = [(subject.name, subject.digest.get("sha256")) for subject in found.subject]
    if subjects != [(name, sha256)]:
        said = ", ".join(f"{one} with sha256 {digest}" for one, digest in subjects)
        raise _refused(f"it is about {said}, not about {name} with sha256 {sha256}", where)
    return found


def check_build(
    content: bytes, name: str, sha256: str, where: str | Path, kinds: Mapping[str, frozenset[str]] = WHEELS
) -> ProvenanceStatement:
    """Return a statement of how a wheel was built; the arguments are those of `check_statement`.

    Raises:
        ProvenanceError: As for `check_statement`, or it says something else about the wheel.
    """
    found = check_statement(content, name, sha256, where, kinds)
    if not isinstance(found, ProvenanceStatement):
        raise _refused(f"its type is {found.predicate_type}, which does not say how the wheel was built", where)
    return found


def _check_parameters(found: ProvenanceStatement, kinds: Mapping[str, frozenset[str]], where: str | Path) -> None:
    """Refuse another kind of build, and parameters whose meaning is not known."""
    definition = found.predicate.build_definition
    if definition.build_type not in kinds:
        raise _refused(f"its build type is {definition.build_type}, not {' or '.join(kinds)}", where)
    if unknown := sorted(definition.external_parameters.keys() - kinds[definition.build_type]):
        raise _refused(f"it has external parameters that this version does not know: {', '.join(unknown)}", where)


def _parsed(content: bytes, where: str | Path) -> dict[str, Any]:
    try:
        data = parse_json(content, where)
    except MalformedDataError as error:
        raise _refused(f"it is {error.what}", where) from error
    if not isinstance(data, dict):
        raise _refused("it is no JSON object", where)
    return data


def _refused(why: str, where: str | Path) -> ProvenanceError:
    return ProvenanceError(
        f"the statement is refused: {why}",
        where=where,
        next_step="do not trust the wheel for it; get wheel and statement again from where they were published",
    )
