from __future__ import annotations

import dataclasses
import tomllib

import pytest
import tomli_w

from cpuwheels.core.errors import WheelError
from cpuwheels.wheel.core_metadata import differences, project_table, read_entry_points, read_project

METADATA = """\
Metadata-Version: 2.4
Name: demo
Version: 1.0+cpu
Summary: A demonstration
Author: Demo Team
Author-email: Ann Other <ann@example.org>
License-Expression: Apache-2.0
Keywords: a,b
Project-URL: Homepage, https://example.org
Project-URL: Chat, https://chat.example.org
Classifier: Programming Language :: Python :: 3.11
Requires-Python: <3.15,>=3.11
Description-Content-Type: text/markdown
License-File: LICENSE
Requires-Dist: numpy
Requires-Dist: fast @ https://example.org/fast-2.0-py3-none-any.whl ; os_name == "posix"
Provides-Extra: audio
Requires-Dist: av>=1; extra == "audio"
Provides-Extra: empty
Dynamic: requires-dist

# Démo

Text
"""
ENTRY_POINTS = """\
[console_scripts]
demo = demo.cli:main

[demo.plugins]
Second = demo.b:B
first = demo.a:A
"""


def test_everything_declared_reaches_the_project_table() -> None:
    table = project_table(read_project(METADATA.encode(), ENTRY_POINTS))
    assert tomllib.loads(tomli_w.dumps(table)) == {
        "name": "demo",
        "version": "1.0+cpu",
        "description": "A demonstration",
        "readme": {"file": "README.md", "content-type": "text/markdown"},
        "requires-python": "<3.15,>=3.11",
        "license": "Apache-2.0",
        "license-files": ["LICENSE"],
        "authors": [{"name": "Demo Team"}, {"name": "Ann Other", "email": "ann@example.org"}],
        "keywords": ["a", "b"],
        "classifiers": ["Programming Language :: Python :: 3.11"],
        "urls": {"Chat": "https://chat.example.org", "Homepage": "https://example.org"},
        "dependencies": ["numpy"],
        "optional-dependencies": {"audio": ["av>=1"], "empty": [], "fast": ['fast==2.0; os_name == "posix"']},
        "scripts": {"demo": "demo.cli:main"},
        "entry-points": {"demo.plugins": {"Second": "demo.b:B", "first": "demo.a:A"}},
    }


def test_the_long_description_keeps_its_letters() -> None:
    assert read_project(METADATA.encode()).readme == "# Démo\n\nText"


def test_an_older_licence_field_and_home_page_are_kept() -> None:
    text = (
        "Metadata-Version: 2.1\nName: demo\nVersion: 1\nLicense: MIT\nLicense-File: COPYING\nHome-page: https://e.org\n"
    )
    table = project_table(read_project(text.encode()))
    assert table["license"] == {"text": "MIT"}
    assert table["urls"] == {"Homepage": "https://e.org"}
    assert "license-files" not in table


@pytest.mark.parametrize(
    ("content_type", "name"),
    [("text/markdown; charset=UTF-8", "README.md"), ("text/x-rst", "README.rst"), ("other/type", "README.txt")],
)
def test_the_readme_is_named_after_its_type(content_type: str, name: str) -> None:
    project = read_project(METADATA.replace("text/markdown", content_type).encode())
    assert project.readme_name == name


def test_a_field_that_would_get_lost_is_refused() -> None:
    with pytest.raises(WheelError, match="obsoletes_dist"):
        read_project(METADATA.replace("Keywords: a,b", "Obsoletes-Dist: old").encode())
    with pytest.raises(WheelError, match="x-own"):
        read_project(METADATA.replace("Keywords: a,b", "X-Own: thing").encode())


def test_metadata_without_a_version_is_refused() -> None:
    with pytest.raises(WheelError, match="without a name or a version"):
        read_project(b"Metadata-Version: 2.4\nName: demo\n")


def test_broken_entry_points_are_refused() -> None:
    with pytest.raises(WheelError, match="entry points"):
        read_entry_points("no group = here\n")


def test_differences_name_the_field_and_leave_out_the_moved_ones() -> None:
    project = read_project(METADATA.encode())
    assert differences(project, dataclasses.replace(project, moved=())) == []
    faults = differences(project, dataclasses.replace(project, requirements=("scipy",)))
    assert faults == ["requirements: declared ('numpy',), written ('scipy',)"]


@pytest.mark.parametrize(
    "name",
    ["python", "Python3", "python3.11", "pip", "pip3.12", "uv", "activate", "activate.fish", "../../x", "a b", "ninja"],
)
@pytest.mark.parametrize("group", ["console_scripts", "gui_scripts"])
def test_a_command_that_shadows_another_program_is_refused(group: str, name: str) -> None:
    with pytest.raises(WheelError, match="would replace another program"):
        read_entry_points(f"[{group}]\n{name} = vllm:main\n")


def test_other_commands_and_plugins_are_not() -> None:
    text = "[console_scripts]\nvllm = vllm:main\nvllm-python-env = a:b\n[vllm.plugins]\npython = a:b\n"
    assert dict(read_entry_points(text))["console_scripts"] == (("vllm", "vllm:main"), ("vllm-python-env", "a:b"))
