from __future__ import annotations

import base64
import csv
import hashlib
import sys
from pathlib import Path

import pytest

from cpuwheels.core.errors import ImageError
from cpuwheels.image.python_packages import ImagePython, settle, unpacked_python, with_interpreter, without

LOCK = """\
numpy==2.4.1 \\
    --hash=sha256:aa \\
    --hash=sha256:bb
triton==3.5 ; platform_machine == 'x86_64' \\
    --hash=sha256:cc
triton-kernels==1.0 \\
    --hash=sha256:dd
"""


def test_a_package_is_left_out_of_a_lock_with_its_hashes() -> None:
    found = without(LOCK, ["Triton"])
    assert found == LOCK.replace("triton==3.5 ; platform_machine == 'x86_64' \\\n    --hash=sha256:cc\n", "")
    assert without(LOCK, []) == LOCK
    assert without(LOCK, ["triton_kernels", "numpy", "triton"]) == ""


@pytest.mark.parametrize(
    ("script", "found"),
    [
        (b"#!/store/venv/bin/python\nimport sys\n", b"#!/usr/bin/python3.11\nimport sys\n"),
        (b"#!/bin/sh\n'''exec' '/a b/py' \"$0\" \"$@\"\n' '''\nimport sys\n", b"#!/usr/bin/python3.11\nimport sys\n"),
        (b"#!/bin/sh\necho\n", None),
        (b"\x7fELF\x02python", None),
    ],
)
def test_a_script_is_run_by_the_images_python(script: bytes, found: bytes | None) -> None:
    assert with_interpreter(script, "/usr/bin/python3.11") == found


def test_an_installed_package_does_not_say_where_it_came_from(tmp_path: Path) -> None:
    site = tmp_path / "lib" / "python3.11" / "site-packages"
    info = site / "demo-1.0.dist-info"
    info.mkdir(parents=True)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "demo").write_text("#!/store/venv/bin/python\nprint()\n")
    for name in ("METADATA", "direct_url.json", "uv_cache.json", "REQUESTED"):
        (info / name).write_text(name)
    rows = [("../../../bin/demo", "sha256=old", "1"), ("demo-1.0.dist-info/uv_cache.json", "", "")]
    rows += [(f"demo-1.0.dist-info/{name}", "", "") for name in ("REQUESTED", "direct_url.json", "RECORD", "METADATA")]
    with (info / "RECORD").open("w") as stream:
        csv.writer(stream).writerows(rows)
    settle(info, tmp_path, "/usr/bin/python3.11")
    script = (tmp_path / "bin" / "demo").read_bytes()
    assert script == b"#!/usr/bin/python3.11\nprint()\n"
    digest = base64.urlsafe_b64encode(hashlib.sha256(script).digest()).rstrip(b"=").decode()
    assert (info / "RECORD").read_text() == (
        f"../../../bin/demo,sha256={digest},{len(script)}\ndemo-1.0.dist-info/METADATA,,\ndemo-1.0.dist-info/RECORD,,\n"
    )
    assert sorted(path.name for path in info.iterdir()) == ["METADATA", "RECORD"]


def test_bytecode_says_that_nothing_is_to_be_checked_and_where_its_source_will_be(tmp_path: Path) -> None:
    python = ImagePython((sys.executable,), {}, "3.11", "key")
    for name in ("one", "two"):
        (tmp_path / name / "package").mkdir(parents=True)
        (tmp_path / name / "package" / "module.py").write_text("def f():\n    return {'a', 'b', None}\n")
        (tmp_path / name / "package" / "old.py").write_text("print 'of Python 2'\n")
        python.compile(tmp_path / name, "usr/lib", tmp_path / "log")
    found = [sorted((tmp_path / name).rglob("*.pyc")) for name in ("one", "two")]
    assert [path.name.partition(".")[0] for path in found[0]] == ["module"]
    (data,) = {path.read_bytes() for paths in found for path in paths}
    assert int.from_bytes(data[4:8], "little") == 0b01  # PEP 552: by hash, and not checked
    assert b"/usr/lib/package/module.py" in data


def test_a_base_without_python_or_loader_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ImageError, match=r"no Python 3\.11"):
        unpacked_python(tmp_path, "3.11", "key")
    (tmp_path / "usr" / "bin").mkdir(parents=True)
    (tmp_path / "usr" / "bin" / "python3.11").write_text("")
    with pytest.raises(ImageError, match="no loader"):
        unpacked_python(tmp_path, "3.11", "key")


def test_a_python_that_does_not_run_is_told(tmp_path: Path) -> None:
    (tmp_path / "python").write_text("#!/bin/sh\necho no library; exit 127\n")
    (tmp_path / "python").chmod(0o755)
    with pytest.raises(ImageError, match="does not run here") as caught:
        ImagePython((tmp_path / "python",), {}, "3.11", "key").compile(tmp_path, "usr", tmp_path / "log")
    assert "no library" in caught.value.output
