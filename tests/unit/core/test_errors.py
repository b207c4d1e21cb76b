import inspect
from pathlib import Path

from cpuwheels.core import errors
from cpuwheels.core.errors import CpuwheelsError


def classes() -> list[type[CpuwheelsError]]:
    found = [member for _, member in inspect.getmembers(errors, inspect.isclass)]
    return [member for member in found if issubclass(member, CpuwheelsError)]


def test_every_class_has_an_exit_code_of_its_own() -> None:
    codes = [member.exit_code for member in classes()]
    assert len(codes) == len(set(codes))
    assert 0 not in codes


def test_every_class_says_what_it_is_for() -> None:
    assert all(member.__doc__ for member in classes())


def test_the_message_has_what_where_output_log_and_next_step_in_this_order() -> None:
    error = CpuwheelsError("what", where="where", next_step="next", log=Path("a.log"), output="one\ntwo")
    assert str(error).splitlines() == [
        "what",
        "  where: where",
        "    | one",
        "    | two",
        "  log:   a.log",
        "  next:  next",
    ]


def test_a_message_shows_no_credentials_and_nothing_that_a_terminal_obeys() -> None:
    error = CpuwheelsError(
        "no \x1b[2J at https://u:secret@host/\n  next:  forged",
        where="https://u:secret@host/a",
        next_step="see https://u:secret@host/b",
        output="one\thttps://u:secret@host/c\n\u202etwo",
    )
    assert "secret" not in f"{error} {error.what} {error.where} {error.output} {error.next_step} {error.args}"
    assert str(error).splitlines() == [
        "no \\x1b[2J at https://host/\\n  next:  forged",
        "  where: https://host/a",
        "    | one     https://host/c",
        "    | \\u202etwo",
        "  next:  see https://host/b",
    ]
