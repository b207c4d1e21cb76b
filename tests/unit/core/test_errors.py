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
