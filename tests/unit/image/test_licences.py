"""Licences are read from the files that an image's packages bring."""

from __future__ import annotations

from pathlib import Path

import pytest

from cpuwheels.image.layers import Member, write_layer
from cpuwheels.image.licences import Licences, licences_in

COPYRIGHT = """\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/

Files: *
Copyright: somebody
License: GPL-2+ or LGPL-3+

Files: debian/*
Copyright: somebody else
License: Expat
 Permission is hereby granted.

Files: tests/*
Copyright: somebody
License: GPL-2+ or LGPL-3+
"""


def of(folder: Path, **files: str) -> Licences:
    names = {"copyright": "usr/share/doc/libgmp10/copyright", "metadata": "x/Demo_A-1.0.dist-info/METADATA"}
    members = {names[name]: Member(text.encode()) for name, text in files.items()}
    return licences_in([write_layer(members, 5, folder / "layer", "one").path])


def test_each_licence_of_a_debian_package_once_as_debian_names_it(tmp_path: Path) -> None:
    assert of(tmp_path, copyright=COPYRIGHT).debian == {"libgmp10": ("Expat", "GPL-2+ or LGPL-3+")}


@pytest.mark.parametrize("text", ["", "This is free software.", "Format: ", "\x00: \x00", "Format: 1\n\nLicense: a\n"])
def test_a_copyright_file_for_people_names_none(tmp_path: Path, text: str) -> None:
    assert of(tmp_path, copyright=text).debian == {"libgmp10": ()}


def test_the_expression_of_a_python_package(tmp_path: Path) -> None:
    text = "Name: Demo_A\nVersion: 1.0\nLicense-Expression: mit or apache-2.0\nClassifier: License :: A\n\nBody"
    found = of(tmp_path, metadata=text)
    assert (found.expressions, found.names) == ({("demo-a", "1.0"): "MIT OR Apache-2.0"}, {})


def test_without_an_expression_the_classifiers_name_it(tmp_path: Path) -> None:
    lines = ["License :: OSI Approved :: MIT License", "Topic :: Utilities", "License :: Public Domain"]
    text = "Name: demo\nVersion: 1.0\nLicense-Expression: as you like\n"
    found = of(tmp_path, metadata=text + "".join(f"Classifier: {line}\n" for line in lines))
    assert (found.expressions, found.names) == ({}, {("demo", "1.0"): ("MIT License", "Public Domain")})


def test_links_and_other_files_are_passed_over(tmp_path: Path) -> None:
    members = {
        "usr/share/doc/a/copyright": Member(link="../b/copyright"),
        "usr/share/doc/c/changelog": Member(COPYRIGHT.encode()),
    }
    assert licences_in([write_layer(members, 5, tmp_path / "layer", "one").path]) == Licences()
