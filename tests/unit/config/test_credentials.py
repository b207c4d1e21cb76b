"""Which variables of an environment are credentials."""

from __future__ import annotations

import os

import pytest

from cpuwheels.config.credentials import CREDENTIALS, is_credential, sift, without_credentials
from cpuwheels.core.environ import KEPT, NETWORK_KEPT

NAMED = [
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_PROFILE",
    "AZURE_STORAGE_CONNECTION_STRING",
    "AZURE_CLIENT_SECRET",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "CLOUDSDK_AUTH_ACCESS_TOKEN",
    "PYPI_TOKEN",
    "TWINE_USERNAME",
    "TWINE_PASSWORD",
    "UV_PUBLISH_TOKEN",
    "UV_PUBLISH_USERNAME",
    "UV_INDEX_OURS_PASSWORD",
    "CI_JOB_TOKEN",
    "GITLAB_TOKEN",
    "GITHUB_TOKEN",
    "GITHUB_PAT",
    "GH_TOKEN",
    "HF_TOKEN",
    "HUGGING_FACE_HUB_TOKEN",
    "SSH_AUTH_SOCK",
    "SSH_ASKPASS",
    "GIT_ASKPASS",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_VALUE_0",
    "GIT_SSH_COMMAND",
    "ACTIONS_ID_TOKEN_REQUEST_URL",
    "ACTIONS_ID_TOKEN_REQUEST_TOKEN",
    "ACTIONS_RUNTIME_TOKEN",
    "ACTIONS_RUNTIME_URL",
    "NETRC",
    "DOCKER_AUTH_CONFIG",
    "DOCKER_CONFIG",
    "KUBECONFIG",
    "VAULT_TOKEN",
    "VAULT_ADDR",
    "OPENAI_API_KEY",
    "SECRET",
    "DB_PASSWORD",
    "PGPASSWORD",
    "aws_secret_access_key",
    "My_Token",
    "DEPLOY_SECRET_FILE",
    "SENTRY_DSN",
    "SIGNING_KEY_ID",
]

HARMLESS = [
    "AWS_CA_BUNDLE",
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_S3",
    "AWS_REGION",
    "CXX",
    "CC",
    "MAX_JOBS",
    "SOURCE_DATE_EPOCH",
    "CPUWHEELS_CACHE",
    "CPUWHEELS_CPUINFO",
    "TERM",
    "SHELL",
    "COLUMNS",
    "NO_COLOR",
    "FORCE_COLOR",
    "PIP_INDEX_URL",
    "UV_CACHE_DIR",
    "UV_INDEX_URL",
    "VIRTUAL_ENV",
    "PYTHONPATH",
    "OMP_NUM_THREADS",
    "LD_LIBRARY_PATH",
    "CI",
    "GITHUB_ACTIONS",
    "GITHUB_STEP_SUMMARY",
    "GITHUB_SHA",
    "RUNNER_OS",
    "KEYBOARD",
    "TOKENIZERS_PARALLELISM",
    "LC_ALL",
    "XDG_CONFIG_HOME",
    "ONEDNN_MAX_CPU_ISA",
]


@pytest.mark.parametrize("name", NAMED)
def test_a_credential_is_known_by_its_name(name: str) -> None:
    assert is_credential(name)


@pytest.mark.parametrize("name", [*HARMLESS, *KEPT, *NETWORK_KEPT])
def test_what_a_build_needs_is_none(name: str) -> None:
    assert not is_credential(name, "/usr/bin:https://example.org/x")


@pytest.mark.parametrize(
    "value", ["postgres://u:p@db/x", "see https://token@example.org", "-i https://:p@e.org/simple"]
)
def test_a_url_with_a_user_name_is_one_whatever_its_name(value: str) -> None:
    assert is_credential("DATABASE", value)
    assert not is_credential("DATABASE", value.replace("@", "/"))


def test_patterns_are_capitals_and_each_is_there_once() -> None:
    assert [pattern for pattern in CREDENTIALS if pattern != pattern.upper()] == []
    assert len(set(CREDENTIALS)) == len(CREDENTIALS)


def test_an_environment_is_divided() -> None:
    environ = {
        "PATH": "/bin",
        "AWS_SECRET_ACCESS_KEY": "a",
        "HF_TOKEN": "b",
        "CPUWHEELS_PYPI_INDEX": "https://u:p@example.org/simple",
        "https_proxy": "http://u:p@proxy:3128",
        "CPUWHEELS_DEBIAN_MIRROR": "https://example.org/debian",
        "DATABASE": "postgres://u:p@db",
        "UV_PUBLISH_URL": "https://u:p@example.org",
    }
    found = sift(environ)
    assert found.harmless == {"PATH": "/bin", "CPUWHEELS_DEBIAN_MIRROR": "https://example.org/debian"}
    assert sorted(found.settings) == ["CPUWHEELS_PYPI_INDEX", "https_proxy"]
    assert found.credentials == ("AWS_SECRET_ACCESS_KEY", "DATABASE", "HF_TOKEN", "UV_PUBLISH_URL")
    assert without_credentials(environ) == found.harmless | found.settings


def test_dividing_changes_nothing() -> None:
    environ = dict(os.environ)
    found = sift(environ)
    assert environ == dict(os.environ)
    assert {*found.harmless, *found.settings, *found.credentials} == set(environ)


def test_an_endpoint_with_a_password_is_one() -> None:
    assert not is_credential("AWS_ENDPOINT_URL", "https://s3.example.org")
    assert is_credential("AWS_ENDPOINT_URL", "https://user:secret@s3.example.org")
