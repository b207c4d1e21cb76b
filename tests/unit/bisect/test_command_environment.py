"""What a command of a bisection gets of the user's environment."""

from __future__ import annotations

import pytest

from cpuwheels.bisect.command_environment import REFUSED, check_names, command_environment, named_variables
from cpuwheels.core.errors import UsageError

USERS = {
    "PATH": "/usr/bin",
    "HOME": "/home/me",
    "LC_CTYPE": "C",
    "TERM": "xterm",
    "CPUWHEELS_CACHE": "/cache",
    "https_proxy": "http://proxy:3128",
    "SSL_CERT_FILE": "/ca.pem",
}
OTHERS = {
    "AWS_SECRET_ACCESS_KEY": "x",
    "GITHUB_TOKEN": "x",
    "SSH_AUTH_SOCK": "/agent",
    "CPUWHEELS_TOKEN": "x",
    "CPUWHEELS_PYPI_INDEX": "https://me:password@index.invalid/simple",
    "HTTP_PROXY": "http://me:password@proxy:3128",
    "UV_DEFAULT_INDEX": "https://index.invalid",
    "MINE": "1",
    "OMP_NUM_THREADS": "1",
    **dict.fromkeys(REFUSED, "/elsewhere"),
}


def test_a_command_gets_what_the_list_has_and_no_credential() -> None:
    assert command_environment(USERS | OTHERS) == USERS


def test_what_the_user_names_is_passed_on() -> None:
    found = command_environment(USERS | OTHERS, ["MINE", "AWS_SECRET_ACCESS_KEY", "ABSENT"])
    assert found == USERS | {"MINE": "1", "AWS_SECRET_ACCESS_KEY": "x"}
    assert named_variables(OTHERS, ["MINE"]) == {"MINE": "1"}


@pytest.mark.parametrize(
    ("name", "message"), [*((name, "would replace what is tested") for name in REFUSED), ("ABSENT", "is not set")]
)
def test_other_names_are_refused(name: str, message: str) -> None:
    check_names(OTHERS, ["MINE", "GITHUB_TOKEN"])
    with pytest.raises(UsageError, match=message) as caught:
        check_names(OTHERS, ["MINE", name])
    assert caught.value.where == f"--pass-env {name}"
