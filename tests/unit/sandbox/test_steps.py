from __future__ import annotations

from pathlib import Path

from cpuwheels.sandbox.steps import command, load, pep517_hook, serving, setup_py, timing
from cpuwheels.sandbox.view import places


def test_no_step_may_write_what_others_use(tmp_path: Path) -> None:
    store = tmp_path / "store"
    for name in ("environment/bin", "venv/bin", "probes", "work/source", "overlay/package", "overlay/kernels", "out"):
        (store / name).mkdir(parents=True)
    for name in ("environment/bin/python", "venv/bin/python", "probes/probe.py"):
        (store / name).write_text("")
    python = store / "environment/bin/python"
    shared = {"readable": [store / "venv"], "work": store / "work"}
    python_of_venv = store / "venv/bin/python"
    for step, writable in (
        (command(python_of_venv, writable=[store / "out"], folder=store / "probes", **shared), {"work", "out"}),
        (serving(python_of_venv, temporary=store / "out", network=None, **shared), {"work", "out"}),
        (setup_py(python, [store / "environment"], store / "probes/probe.py", store / "work"), {"work"}),
        (pep517_hook(python, store / "environment", store / "overlay", store / "out"), {"out", "overlay"}),
        (load(store / "venv/bin/python", [store / "venv"], store / "probes", store / "work"), {"work"}),
        (timing(store / "venv/bin/python", [store / "venv"], store / "probes", store / "work"), {"work"}),
    ):
        binds = places(step.view, ()).binds
        assert {Path(path).relative_to(store).as_posix() for path, may in binds.items() if may} == writable
        assert str(store) not in binds
        assert step.folder.is_relative_to(store)
        assert step.limits.core == 0


def test_the_overlays_files_are_names_of_those_in_the_store(tmp_path: Path) -> None:
    for name in ("environment/bin", "overlay/package", "overlay/kernels", "out"):
        (tmp_path / name).mkdir(parents=True)
    environment = tmp_path / "environment"
    step = pep517_hook(environment / "bin/python", environment, tmp_path / "overlay", tmp_path / "out")
    binds = places(step.view, ()).binds
    assert binds[str(tmp_path / "overlay/package")] is binds[str(tmp_path / "overlay/kernels")] is False
