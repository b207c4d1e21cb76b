from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from cpuwheels.core.environ import LIBRARY
from cpuwheels.core.process import run
from cpuwheels.sandbox.confine import Sandbox, mounts, namespaces
from cpuwheels.sandbox.limits import Limits
from cpuwheels.sandbox.mechanism import Mechanism
from cpuwheels.sandbox.steps import Step
from cpuwheels.sandbox.view import Places, View

BWRAP = Mechanism("user namespace", program=Path("/store/bwrap"))
NONE = Mechanism("none", "a test")


@pytest.fixture
def step(tmp_path: Path) -> Step:
    (tmp_path / "work" / "source").mkdir(parents=True)
    return Step("setup.py", View(tmp_path / "work"), tmp_path / "work" / "source", Limits(cpu_seconds=1000))


def test_the_environment_has_nothing_of_the_users_folders_and_network(step: Step) -> None:
    given = {
        "HOME": "/home/someone",
        "XDG_CACHE_HOME": "/home/someone/.cache",
        "https_proxy": "http://name:password@proxy",
        "USER": "someone",
        "PATH": "/usr/bin",
        "VLLM_TARGET_DEVICE": "cpu",
    }
    work = step.view.work
    assert Sandbox(BWRAP).environment(step, given) == {
        "HOME": "/tmp/home",
        "TMPDIR": f"{work}/tmp",
        "USER": "build",
        "LOGNAME": "build",
        "PATH": "/usr/bin",
        "VLLM_TARGET_DEVICE": "cpu",
    }
    assert Sandbox(NONE).environment(step, given)["HOME"] == f"{work}/tmp"


def test_the_plan_lies_where_the_step_does_not_see_it(step: Step, tmp_path: Path) -> None:
    confined = Sandbox(BWRAP).confine(step, ["/bin/true", "--", "x"], {}, tmp_path / "logs")
    place = confined.argv.index("--")
    assert confined.argv[:3] == [sys.executable, "-I", "-S"]
    assert confined.argv[place:] == ["--", "/bin/true", "--", "x"]
    plan = Path(confined.argv[place - 1])
    assert plan.parent == tmp_path / "logs" / "sandbox"
    data = json.loads(plan.read_text())
    assert (data["step"], data["bubblewrap"]) == ("setup.py", "/store/bwrap")
    assert str(tmp_path / "logs") not in data["mounts"]
    assert data["filter"]


@pytest.mark.parametrize("mechanism", [BWRAP, Mechanism("landlock", landlock=6)], ids=["bubblewrap", "Landlock"])
def test_the_library_of_a_second_build_can_be_read(
    step: Step, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mechanism: Mechanism
) -> None:
    (tmp_path / "vary").mkdir()
    library = tmp_path / "vary" / "libvary.so"
    library.touch()
    before = json.dumps(Sandbox(mechanism).plan(step))
    monkeypatch.setenv(LIBRARY, str(library))
    after = json.dumps(Sandbox(mechanism).plan(step))
    assert (str(library) in before, str(library) in after) == (False, True)
    assert f'"{library.parent}"' not in after, "nothing else there"


def test_what_bubblewrap_is_told() -> None:
    visible = Places({"/a/b": True, "/a": False}, {"/lib": "usr/lib"})
    found = mounts(visible, 5)
    assert found[found.index("/dev/shm") - 3 :][:4] == ["--size", "5", "--tmpfs", "/dev/shm"]
    assert "--size" not in mounts(visible, None)[5:]
    text = " ".join(found)
    assert text.startswith("--size 67108864 --tmpfs /tmp --dir /tmp/home --proc /proc --dev /dev")
    assert text.index("--ro-bind /a /a") < text.index("--bind /a/b /a/b")
    assert "--symlink usr/lib /lib" in text
    assert text.endswith("--remount-ro /dev --remount-ro /")
    options = namespaces(user=True)
    assert options[0] == "--unshare-user"
    assert {"--unshare-net", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--die-with-parent"} <= set(options)
    assert "--unshare-user" not in namespaces(user=False)


def test_a_network_is_joined_in_place_of_one_of_its_own(step: Step) -> None:
    """The user keeps the own number, also where the network belongs to a user namespace with another one."""
    plan = Sandbox(BWRAP).plan(replace(step, network=Path("/proc/7/ns/net")))
    assert plan["network"] == "/proc/7/ns/net"
    assert "--unshare-net" not in plan["namespaces"]
    assert plan["namespaces"][:5] == ["--unshare-user", "--uid", str(os.getuid()), "--gid", str(os.getgid())]
    own = Sandbox(BWRAP).plan(step)
    assert own["network"] is None
    assert "--unshare-net" in own["namespaces"]


def test_a_home_folder_may_be_on_disk(step: Step, tmp_path: Path) -> None:
    home = step.view.work / "home"
    confined = Sandbox(BWRAP).confine(replace(step, home=home), ["/bin/true"], {}, tmp_path / "logs")
    assert confined.env["HOME"] == str(home)
    assert home.is_dir()


def test_unconfined_a_command_still_has_its_folder_and_its_limits(step: Step, tmp_path: Path) -> None:
    code = "import os, resource; print(os.getcwd(), *resource.getrlimit(resource.RLIMIT_CORE))"
    confined = Sandbox(NONE).confine(step, [sys.executable, "-c", code], dict(os.environ), tmp_path)
    done = run(confined.argv, log=tmp_path / "log", env=confined.env)
    assert done.output == f"{step.folder} 0 0"


def test_a_command_that_is_not_there_is_named(step: Step, tmp_path: Path) -> None:
    confined = Sandbox(NONE).confine(step, ["/absent"], {}, tmp_path)
    done = run(confined.argv, log=tmp_path / "log", env=confined.env, check=False)
    assert (done.returncode, done.output) == (127, "cannot start /absent: No such file or directory")
