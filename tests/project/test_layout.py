"""The package's order, the mirror of its tests, and the digest of its code."""

from __future__ import annotations

import re
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cpuwheels.cli.main import cli
from cpuwheels.config.reference import PACKAGES
from cpuwheels.core import digests
from layout import ROOT, TESTS
from package_graph import PACKAGE, Import, imports, modules, public_names, reachable

SOURCE = ROOT / "src" / PACKAGE
UNIT = TESTS / "unit"
ORDER = (
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
    ("image", "index", "doctor", "bisect"),
    "cli",
)
"""Each package imports only those before it; those in brackets do not import each other."""
PLACES = {name: place for place, names in enumerate(ORDER) for name in ([names] if isinstance(names, str) else names)}
MODULES = modules(SOURCE)
IMPORTS = {name: list(imports(path, MODULES)) for name, path in MODULES.items()}
RUN_TIME = {name: {one.name for one in found if not one.typing} for name, found in IMPORTS.items()}
OWN = {name for name, path in MODULES.items() if not path.name.startswith("__")}
"""Modules that have something to test."""
TABLE = TESTS / "covered.toml"
COVERED: dict[str, Any] = tomllib.loads(TABLE.read_text(encoding="utf-8"))


def test_there_are_packages_and_no_loose_modules() -> None:
    assert {path.name for path in SOURCE.glob("*.py")} == {"__init__.py", "__main__.py"}
    assert {name.partition(".")[0] for name in MODULES} - {"", "__main__"} == set(PLACES)
    assert sum(map(len, IMPORTS.values())) > len(OWN)
    assert list(PLACES) == list(PACKAGES), "the generated page lists them in this order"


@pytest.mark.parametrize("package", PLACES)
def test_a_package_imports_only_those_before_it(package: str) -> None:
    wrong = [
        f"{MODULES[name].relative_to(ROOT)}:{one.line} imports {one.name}"
        for name, found in IMPORTS.items()
        if name.partition(".")[0] == package
        for one in found
        if not may_import(package, one.name.partition(".")[0])
    ]
    assert wrong == []


def may_import(package: str, other: str) -> bool:
    return other in {"", package} or PLACES[other] < PLACES[package]


@pytest.mark.parametrize(
    ("package", "other", "right"),
    [
        ("core", "core", True),
        ("core", "config", False),
        ("config", "core", True),
        ("cli", "bisect", True),
        ("bisect", "index", False),
        ("index", "bisect", False),
        ("doctor", "index", False),
        ("bisect", "cli", False),
    ],
)
def test_the_order_is_an_order(package: str, other: str, right: bool) -> None:
    assert may_import(package, other) is right


def test_no_modules_import_each_other_at_run_time() -> None:
    assert sorted(name for name in MODULES if name in reachable(name, RUN_TIME)) == []


def test_imports_are_found_wherever_they_are(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(
        "import json\nimport cpuwheels.b\nfrom cpuwheels import b\nfrom cpuwheels.b import name\n"
        "if TYPE_CHECKING:\n    from cpuwheels.b import c\n"
        "def function():\n    if True:\n        from cpuwheels.c import d\n"
    )
    found = sorted(imports(tmp_path / "a.py", {"b": tmp_path, "c.d": tmp_path}), key=lambda one: one.line)
    assert found == [
        Import("b", 2, typing=False),
        Import("b", 3, typing=False),
        Import("b", 4, typing=False),
        Import("b", 6, typing=True),
        Import("c.d", 9, typing=False),
    ]
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b"}}
    assert (reachable("a", graph), reachable("b", graph), reachable("d", graph)) == ({"b", "c"}, {"b", "c"}, set())


def with_tests() -> set[str]:
    """Return the modules that the unit tests' files are named after."""
    files = (path.relative_to(UNIT) for path in UNIT.rglob("test_*.py"))
    return {".".join(path.with_name(path.stem.removeprefix("test_")).parts) for path in files}


def test_each_unit_test_has_its_module() -> None:
    assert sorted(with_tests() - OWN) == []


def test_each_module_has_its_test_or_is_covered_by_another() -> None:
    assert sorted(OWN - with_tests() - set(COVERED)) == []
    assert sorted(set(COVERED) & with_tests()) == [], "these have tests of their own"
    assert sorted(set(COVERED) - OWN) == [], "there are no such modules"


@pytest.mark.parametrize("module", COVERED)
def test_what_covers_a_module_leads_to_it(module: str) -> None:
    entry = {"test": COVERED[module]} if isinstance(COVERED[module], str) else COVERED[module]
    if set(entry) == {"command", "reason"}:
        assert entry["command"] in cli.commands
        assert is_script(module)
        assert entry["reason"].strip()
        return
    assert set(entry) <= {"test", "through"}
    path, through = ROOT / entry["test"], entry.get("through", module)
    assert path.name.startswith("test_")
    assert mentions(path.read_text(encoding="utf-8"), through), f"{entry['test']} does not mention {through}"
    assert module in led_to(through), f"{through} does not lead to {module}"


def mentions(text: str, module: str) -> bool:
    """Return whether a test has a module's dotted name, or a name that is public there."""
    names = {f"{PACKAGE}.{module}", *public_names(MODULES[module])}
    return any(re.search(rf"\b{re.escape(name)}\b", text) for name in names)


def is_script(module: str) -> bool:
    """Return whether a module is a resource: other interpreters run it, and nothing imports it."""
    return "resources" in module.split(".")


def led_to(start: str) -> set[str]:
    """Return a module, what it imports, directly or through others, and the scripts that these name."""
    found = {start, *reachable(start, RUN_TIME)}
    text = "".join(MODULES[name].read_text(encoding="utf-8") for name in found)
    names = {module: MODULES[module].relative_to(SOURCE).parts for module in OWN if is_script(module)}
    scripts = {module for module, parts in names.items() if f'"{parts[parts.index("resources") + 1]}"' in text}
    return found | scripts


def test_a_script_is_led_to_by_what_names_its_file() -> None:
    assert "verification.parity.resources.torch_products" in led_to("verification.parity.preflight")
    assert "verification.parity.resources.torch_products" not in led_to("verification.parity.suite")
    assert "core.process" in led_to("verification.parity.suite")
    assert "verification.parity.run" not in led_to("verification.parity.suite")


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the package whose code is digested in place of the package's own."""
    copy = shutil.copytree(SOURCE, tmp_path / PACKAGE, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(digests, "__file__", str(copy / Path(digests.__file__).relative_to(SOURCE)))
    digests._code_digest.cache_clear()
    yield copy
    digests._code_digest.cache_clear()


def digest_now() -> str:
    digests._code_digest.cache_clear()
    return digests.code_digest()


def test_the_digest_of_the_code_is_of_every_file_of_code(package: Path) -> None:
    before = digest_now()
    assert before == digest_now()
    files = sorted(path for path in package.rglob("*") if path.suffix in {".py", ".j2"})
    assert {path.relative_to(package).parts[0] for path in files} >= set(PLACES)
    assert len(files) > len(OWN)
    for path in files:
        content = path.read_bytes()
        path.write_bytes(content + b"\n")
        assert digest_now() != before, f"{path.relative_to(package)} does not count"
        path.write_bytes(content)
    assert digest_now() == before


@pytest.mark.parametrize("name", PLACES)
def test_the_digest_of_the_code_changes_with_the_files_there(package: Path, name: str) -> None:
    before = digest_now()
    (package / name / "new.py").write_text("")
    added = digest_now()
    (package / name / "new.py").rename(package / name / "other.py")
    assert len({before, added, digest_now()}) == 3


def test_the_projects_files_in_an_installed_package_are_no_code(package: Path) -> None:
    before = digest_now()
    (package / "data" / "tests" / "parity").mkdir(parents=True)
    (package / "data" / "tests" / "parity" / "conftest.py").write_text("")
    assert digest_now() == before


def test_the_digest_of_the_code_is_read_once(package: Path) -> None:
    before = digests.code_digest()
    (package / "core" / "new.py").write_text("")
    assert digests.code_digest() == before
