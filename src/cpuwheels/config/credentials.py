"""Credentials in an environment: what upstream's code must never see, as names, patterns and forms of values.

Whoever gets a commit built runs code on this machine. A process can read the environment of those that started it
(``/proc/<pid>/environ``), so a variable is no secret from it, even if it is not passed on.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from cpuwheels.core.urls import without_userinfo

if TYPE_CHECKING:
    from collections.abc import Mapping

CREDENTIALS = (
    # Clouds, with everything that leads to an identity there
    "AWS_*",
    "AZURE_*",
    "ARM_CLIENT_*",
    "GOOGLE_*CREDENTIALS*",
    "GOOGLE_OAUTH_*",
    "CLOUDSDK_*",
    "B2_APPLICATION_KEY*",
    "R2_*",
    "S3_*",
    # Package indexes and registries
    "PYPI_*",
    "TWINE_*",
    "UV_PUBLISH_*",
    "FLIT_PASSWORD",
    "HATCH_INDEX_AUTH",
    "HATCH_INDEX_USER",
    "DOCKER_CONFIG",
    "DOCKER_AUTH_CONFIG",
    "DOCKER_HOST",
    "REGISTRY_AUTH*",
    "CARGO_REGISTRIES_*",
    "HUGGING_FACE_HUB_TOKEN",
    "HF_TOKEN*",
    # Forges and their CI
    "GITHUB_TOKEN",
    "GITHUB_PAT",
    "GH_*TOKEN",
    "GITLAB_*TOKEN",
    "CI_JOB_*TOKEN*",
    "CI_JOB_JWT*",
    "CI_DEPLOY_*",
    "CI_REGISTRY_*",
    "ACTIONS_ID_TOKEN_REQUEST_*",
    "ACTIONS_RUNTIME_*",
    "ACTIONS_RESULTS_URL",
    "ACTIONS_CACHE_URL",
    "BUILDKITE_AGENT_*",
    "VAULT_*",
    # Of this machine's user
    "SSH_AUTH_SOCK",
    "SSH_AGENT_PID",
    "SSH_ASKPASS",
    "GIT_ASKPASS",
    "GIT_CONFIG*",
    "GIT_SSH*",
    "GPG_AGENT_INFO",
    "GNUPGHOME",
    "KUBECONFIG",
    "NETRC",
    "PGPASSFILE",
    "CREDENTIALS_DIRECTORY",
    # Whatever else is named like one
    "*TOKEN",
    "*_TOKENS",
    "*_TOKEN_FILE",
    "*_JWT",
    "*SECRET*",
    "*PASSWORD*",
    "*PASSWD*",
    "*PASSPHRASE*",
    "*CREDENTIAL*",
    "*API_KEY*",
    "*APIKEY*",
    "*ACCESS_KEY*",
    "*PRIVATE_KEY*",
    "*SIGNING_KEY*",
    "*_PAT",
    "*_AUTH",
    "*_COOKIE",
    "*CONNECTION_STRING*",
    "*_DSN",
    "*_SAS",
)
"""Patterns of names, in capitals; the case of a name does not count."""

HARMLESS = (
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
    "AWS_ENDPOINT_URL*",
    "AWS_EC2_METADATA_DISABLED",
    "*_CA_BUNDLE",
    "*_CA_CERTS_FILE",
)
"""Patterns of names that look like one of `CREDENTIALS` and are not."""

SETTINGS = ("CPUWHEELS_*", "PIP_*", "UV_*", "*_PROXY")
"""Patterns of the names of this program's own settings that may be URLs with a user name and a password.

A build needs them to fetch its inputs, so they are not credentials in the sense of `is_credential`.
"""


@dataclass(frozen=True)
class Sifted:
    """An environment, divided.

    Attributes:
        harmless: Everything else.
        settings: This program's settings whose URLs have a user name or a password in them.
        credentials: Names of the credentials, sorted.
    """

    harmless: dict[str, str]
    settings: dict[str, str]
    credentials: tuple[str, ...]


def sift(environ: Mapping[str, str]) -> Sifted:
    """Return an environment divided into credentials, settings with a user name in them, and the rest."""
    harmless: dict[str, str] = {}
    settings: dict[str, str] = {}
    credentials: list[str] = []
    for name, value in environ.items():
        if is_credential(name, value):
            credentials.append(name)
        elif _has_userinfo(value):
            settings[name] = value
        else:
            harmless[name] = value
    return Sifted(harmless, settings, tuple(sorted(credentials)))


def is_credential(name: str, value: str = "") -> bool:
    """Return whether a variable is a credential: by its name, or since its value is a URL with a password.

    Args:
        name: Of the variable.
        value: Its value. A URL with a user name in it counts, unless the variable is one of `SETTINGS`.
    """
    named = _matches(name, CREDENTIALS) and not _matches(name, HARMLESS)
    return named or (_has_userinfo(value) and not _matches(name, SETTINGS))


def without_credentials(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of an environment that are no credentials."""
    return {name: value for name, value in environ.items() if not is_credential(name, value)}


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name.upper(), pattern) for pattern in patterns)


def _has_userinfo(value: str) -> bool:
    return without_userinfo(value) != value
