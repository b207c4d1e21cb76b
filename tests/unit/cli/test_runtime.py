"""``cpuwheels doctor --runtime`` as it is started: exit codes, JSON, what is found if nothing is named."""

from __future__ import annotations

import json
import zipfile

import pytest
from click.testing import CliRunner

from cpuwheels.cli.main import cli
from cpuwheels.core.errors import UnusableWheelError, UsageError
from cpuwheels.doctor.runtime.report import Report
from runtime_cases import MACHINES

INFO = "vllm-0.32.0+cpu.dist-info"
FILES = {
    "vllm/envs.py": 'environment_variables: dict[str, object] = {"VLLM_CPU_KVCACHE_SPACE": None}\n',
    "vllm/platforms/cpu.py": "import vllm._C_AVX2",
    "vllm/_C.abi3.so": "x",
    "vllm/_C_AVX2.abi3.so": "x",
    "vllm/libs/libtcmalloc_minimal.so": "x",
    f"{INFO}/METADATA": "Name: vllm\nVersion: 0.32.0+cpu\n",
    f"{INFO}/cpuwheels.json": json.dumps({"patches": [{"file": "0014-amx-of-the-machine.patch"}]}),
}
HERE = str(MACHINES / "virtual-machine.txt")


@pytest.fixture
def wheel(tmp_path):
    path = tmp_path / "dist" / "x86" / "0.32.0" / "vllm-0.32.0+cpu-cp38-abi3-manylinux_2_27_x86_64.whl"
    path.parent.mkdir(parents=True)
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in FILES.items():
            archive.writestr(name, text)
    return path


@pytest.fixture
def doctor(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        monkeypatch.delenv(name, raising=False)

    def run(*arguments):
        return CliRunner().invoke(cli, ["--dist", str(tmp_path / "dist"), "doctor", *map(str, arguments)])

    return run


@pytest.mark.parametrize(
    ("machine", "code"), [("virtual-machine", 0), ("virtual-machine-without-palette", 3), ("graviton3", 1)]
)
def test_the_exit_code_is_the_verdicts(doctor, wheel, machine, code):
    done = doctor("--runtime", wheel, "--machine", MACHINES / f"{machine}.txt")
    assert done.exit_code == code, done.output


def test_json_fits_the_model(doctor, wheel, tmp_path):
    config = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "dtype": "bfloat16"}
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / "config.json").write_text(json.dumps(config))
    done = doctor(
        "--runtime", wheel, "--json", "--machine", HERE, "--model", tmp_path / "tiny" / "config.json", "--at-once", 9
    )
    found = Report.model_validate_json(done.output)
    assert found.settings.cache is not None
    assert found.settings.cache.requests == 9
    assert f"vllm serve {tmp_path / 'tiny'} " in found.paste


def test_the_newest_wheel_is_found_outside_a_project(doctor, wheel):
    assert f"wheel: {wheel.name}" in doctor("--runtime", "--machine", HERE).output


@pytest.mark.usefixtures("wheel")
def test_an_active_environment_comes_first(doctor, tmp_path, monkeypatch):
    site = tmp_path / "env" / "lib" / "python3.12" / "site-packages"
    for name, text in FILES.items():
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text(text)
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "env"))
    assert "installed, Python 3.12: env" in doctor("--runtime", "--machine", HERE).output


def test_this_machine_is_recorded(doctor, tmp_path):
    done = doctor("--runtime", "--record", tmp_path / "here.txt")
    assert done.exit_code == 0
    assert (tmp_path / "here.txt").read_text().startswith("==> probe.json <==")


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("--runtime",), UsageError, "no vLLM was named, and none was found"),
        (("--runtime", "nothing.whl"), UnusableWheelError, "nothing.whl is not there"),
        (("--model", "x"), UsageError, "--model needs --runtime"),
        (("--max-model-len", "1"), UsageError, "--max-model-len needs --runtime"),
    ],
)
def test_what_is_wrong_is_one_message(doctor, arguments, error, message):
    done = doctor(*arguments)
    assert isinstance(done.exception, error)
    assert message in str(done.exception)
