"""The axes: what a second build may have otherwise without the wheel being another, as data."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cpuwheels.core.environ import AHEAD, ORDER
from cpuwheels.core.errors import UsageError
from cpuwheels.core.units import format_size
from cpuwheels.pipeline.variation.circumstances import Circumstances, NotVariedError, User
from cpuwheels.pipeline.variation.machine import NO_RANDOM_ADDRESSES, OLD_KERNEL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from cpuwheels.pipeline.variation.machine import Machine

ALL = "all"

DEFAULT = ("path", "time-zone", "locale", "umask", "jobs", "store", "compiler-cache")
"""What is varied if nothing is asked for: what any machine can vary, at no cost but time."""

_YEARS = 7
_SECONDS = _YEARS * 365 * 86400 + 100 * 86400 + 13 * 3600 + 17 * 60
"""The clock's lead: another year, month, day and hour, and not yet 2038."""

_SEED = 20_260_101
_USUAL_UMASK, _STRICT_UMASK = 0o022, 0o077
_LEAST_CAP = 5 << 30
"""Bytes of memory below which a smaller cap might be too little for the largest file."""

_TIME_ZONE, _OTHER_TIME_ZONE = "Pacific/Kiritimati", "America/St_Johns"
_LANGUAGE = "tr_TR.UTF-8"
"""A language in which upper and lower case are other letters; it need not be installed."""

NOISE = {
    "CFLAGS": "-O0 -DNOISE",
    "CXXFLAGS": "-O0 -DNOISE",
    "CPPFLAGS": "-DNOISE",
    "LDFLAGS": "-Wl,--build-id=sha1",
    "CPATH": "/nonexistent/include",
    "LIBRARY_PATH": "/nonexistent/lib",
    "CMAKE_BUILD_TYPE": "Debug",
    "CMAKE_GENERATOR": "Unix Makefiles",
    "CMAKE_PREFIX_PATH": "/nonexistent",
    "CMAKE_ARGS": "-DCMAKE_BUILD_TYPE=Debug",
    "MAKEFLAGS": "-k",
    "VERBOSE": "1",
    "DEBUG": "1",
    "VLLM_TARGET_DEVICE": "cuda",
    "SETUPTOOLS_SCM_PRETEND_VERSION": "9.9.9",
    "PYTHONHASHSEED": "4711",
    "DEB_BUILD_OPTIONS": "noopt",
    "CAPTURE_ENVIRONMENT": "i_capture_the_environment",
}
"""Variables that builds of other projects read, and none of these may."""

Change = tuple[Circumstances, str]
"""Circumstances with one axis varied, and from what to what."""


@dataclass(frozen=True)
class Axis:
    """Something that must not make a difference.

    Attributes:
        name: As the command line has it.
        about: What a second build has otherwise, for help and documentation.
        vary: Returns circumstances in which it is varied; raises `NotVariedError` where that cannot be done.
    """

    name: str
    about: str
    vary: Callable[[Machine, Circumstances], Change]


def _path(_: Machine, now: Circumstances) -> Change:
    return replace(now, elsewhere=True, cold=True), "stores, output, project and program at another path"


def _path_length(_: Machine, now: Circumstances) -> Change:
    longer = replace(now, elsewhere=True, cold=True, longer=True)
    return longer, "stores, output, project and program at a path of 150 characters more"


def _store(_: Machine, now: Circumstances) -> Change:
    return replace(now, cold=True), "stores with nothing but what was fetched"


def _compiler_cache(_: Machine, now: Circumstances) -> Change:
    other = "auto" if now.options.compiler_cache == "off" else "off"
    return now.with_options(compiler_cache=other), f"--compiler-cache {now.options.compiler_cache} → {other}"


def _jobs(machine: Machine, now: Circumstances) -> Change:
    cpus = len(machine.cpus)
    given = now.options.jobs
    first = min(int(given), cpus) if given and given.isdecimal() else cpus
    other = max(1, first // 2)
    if other == first:
        if cpus == 1:
            raise NotVariedError("one CPU runs one job at once")
        other = 2
    return now.with_options(jobs=str(other)), f"--jobs {given or f'not given ({cpus} CPUs)'} → {other}"


def _memory(machine: Machine, now: Circumstances) -> Change:
    cap = int(machine.memory * 3 / 4) >> 20
    if cap << 20 < _LEAST_CAP:
        least = format_size(_LEAST_CAP * 4 // 3)
        raise NotVariedError(f"this machine has {format_size(machine.memory)}, and a lower cap takes {least}")
    other = f"{cap}M"
    if now.options.memory == other:
        other = f"{cap - 512}M"
    return now.with_options(memory=other), f"--memory {now.options.memory or 'not given'} → {other}"


def _cpus(machine: Machine, now: Circumstances) -> Change:
    if len(machine.cpus) == 1 or not hasattr(os, "sched_setaffinity"):
        raise NotVariedError("there is one CPU" if len(machine.cpus) == 1 else "this system gives no process fewer")
    fewer = frozenset(sorted(machine.cpus)[1:])
    return replace(now, cpus=fewer), f"{len(machine.cpus)} → {len(fewer)}, without the first"


def _time(machine: Machine, now: Circumstances) -> Change:
    _require_linux(machine)
    return now.with_loaded(AHEAD, _SECONDS), f"the clock {_YEARS} years and 100 days ahead"


def _file_order(machine: Machine, now: Circumstances) -> Change:
    _require_linux(machine)
    return now.with_loaded(ORDER, _SEED), "readdir(3) lists the files of folders in another order"


def _require_linux(machine: Machine) -> None:
    if not machine.is_linux:
        raise NotVariedError("it takes a library that is Linux's")


def _time_zone(machine: Machine, now: Circumstances) -> Change:
    first = machine.environ.get("TZ", "")
    other = _OTHER_TIME_ZONE if first == _TIME_ZONE else _TIME_ZONE
    return now.with_variables(TZ=other), f"TZ {first or 'not set'} → {other}"


def _locale(machine: Machine, now: Circumstances) -> Change:
    names = ("LC_ALL", "LANG")
    first = next((machine.environ[name] for name in names if machine.environ.get(name)), "not set")
    usual = ("C", "POSIX", "en_US", "en_GB")
    there = [name for name in machine.locales if not name.startswith(usual) and name != first]
    other = there[0] if there else "POSIX" if first == "C" else "C"
    note = "" if there else "; no other language is installed"
    changed = now.with_variables(LC_ALL=other, LANG=_LANGUAGE, LANGUAGE="tr")
    return changed, f"LC_ALL, LANG {first} → {other}, {_LANGUAGE}{note}"


def _umask(machine: Machine, now: Circumstances) -> Change:
    other = _USUAL_UMASK if machine.umask == _STRICT_UMASK else _STRICT_UMASK
    return replace(now, umask=other), f"{machine.umask:03o} → {other:03o}"


def _user(machine: Machine, now: Circumstances) -> Change:
    _require_namespaces(machine)
    name, number = machine.user
    other = User("somebody-else", 54321 if number != 54321 else 54322)  # noqa: PLR2004  (any number)
    changed = replace(now, user=other).with_variables(USER=other.name, LOGNAME=other.name)
    return changed, f"{name} ({number}) → {other.name} ({other.number})"


def _hostname(machine: Machine, now: Circumstances) -> Change:
    _require_namespaces(machine)
    other = "another-machine" if machine.hostname != "another-machine" else "one-more-machine"
    return replace(now, hostname=other), f"{machine.hostname} → {other}"


def _require_namespaces(machine: Machine) -> None:
    if machine.namespaces:
        raise NotVariedError(machine.namespaces)


def _aslr(machine: Machine, now: Circumstances) -> Change:
    _require_personalities(machine)
    if not machine.randomized:
        raise NotVariedError("this kernel does not randomise addresses (kernel.randomize_va_space)")
    return replace(now, personality=now.personality | NO_RANDOM_ADDRESSES), "addresses at random → always the same"


def _kernel(machine: Machine, now: Circumstances) -> Change:
    _require_personalities(machine)
    changed = replace(now, personality=now.personality | OLD_KERNEL)
    return changed, f"release {machine.kernel} → 2.6, as setarch --uname-2.6 has it"


def _require_personalities(machine: Machine) -> None:
    if machine.personalities:
        raise NotVariedError(machine.personalities)


def _home(_: Machine, now: Circumstances) -> Change:
    return replace(now, home=True), "an empty home folder, but for settings of git, pip and uv"


def _environment(machine: Machine, now: Circumstances) -> Change:
    noise = {name: value for name, value in NOISE.items() if machine.environ.get(name) != value}
    return now.with_variables(**noise), f"{len(noise)} more variables, such as CFLAGS and MAKEFLAGS"


def _python(machine: Machine, now: Circumstances) -> Change:
    if not machine.pythons:
        raise NotVariedError(f"uv finds no other Python of 3.11 to 3.13 here; this one is {machine.driver}")
    version, other = next(iter(machine.pythons.items()))
    return replace(now, python=other), f"cpuwheels runs with Python {machine.driver} → {version}"


def _toolchain(_: Machine, now: Circumstances) -> Change:
    del now
    raise NotVariedError(
        "a wheel names its compiler by content, so one of another compiler is another wheel even if both are of one "
        "version"
    )


AXES = (
    Axis("path", "another path of stores, output, project and program; the stores are then cold, too", _path),
    Axis("path-length", "likewise, and the path is 150 characters longer", _path_length),
    Axis("time", f"a clock that is {_YEARS} years ahead, for programs that are linked dynamically", _time),
    Axis("time-zone", "another time zone", _time_zone),
    Axis("locale", "another locale: one that is installed, else C", _locale),
    Axis("umask", "another umask", _umask),
    Axis("user", "another user's name and number, in a user namespace", _user),
    Axis("hostname", "another name of the machine, in a UTS namespace", _hostname),
    Axis("cpus", "one CPU less", _cpus),
    Axis("jobs", "half as many jobs at once", _jobs),
    Axis("memory", "a memory cap of three quarters of the memory", _memory),
    Axis("file-order", "another order in which folders list their files, where programs use readdir(3)", _file_order),
    Axis("aslr", "addresses that are not random", _aslr),
    Axis("kernel", "a kernel that says it is Linux 2.6", _kernel),
    Axis("home", "an empty home folder", _home),
    Axis("environment", "more environment variables, such as CFLAGS and MAKEFLAGS", _environment),
    Axis("store", "stores that hold only what was fetched, so that everything else is made anew", _store),
    Axis("compiler-cache", "without the compiler cache, or with it", _compiler_cache),
    Axis(
        "toolchain",
        "the machine's own compiler; never varied yet, since a wheel names its compiler by content",
        _toolchain,
    ),
    Axis("python", "another Python, of 3.11 to 3.13, that runs cpuwheels", _python),
)
"""In the order in which they are applied and listed."""

BY_NAME = {axis.name: axis for axis in AXES}


def chosen_axes(text: str | None) -> tuple[Axis, ...]:
    """Return the axes that a user names.

    Args:
        text: Names with commas between them, or ``all``; None for those that are varied anyway.

    Raises:
        UsageError: There is no such axis.
    """
    if text == ALL:
        return AXES
    names = DEFAULT if text is None else tuple(filter(None, (part.strip() for part in text.split(","))))
    return axes_of(names)


def axes_of(names: Iterable[str], where: str = "--vary") -> tuple[Axis, ...]:
    """Return the axes of some names, in the order in which they are applied.

    Args:
        names: Of axes, or ``all``.
        where: Who named them.

    Raises:
        UsageError: There is no such axis, or none is named.
    """
    wanted = set(names)
    if ALL in wanted:
        return AXES
    unknown = sorted(wanted - set(BY_NAME))
    if unknown or not wanted:
        raise UsageError(
            f"there is no axis {', '.join(unknown)}" if unknown else "no axis is named",
            where=where,
            next_step=f"give some of {', '.join(BY_NAME)}, or {ALL}",
        )
    return tuple(axis for axis in AXES if axis.name in wanted)
