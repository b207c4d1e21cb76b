from __future__ import annotations

import os
from pathlib import Path

from cpuwheels.verification.onednn_isa import OnednnLimit
from cpuwheels.verification.serving.setting import server_variables


def test_nothing_is_written_to_the_users_folders(tmp_path: Path) -> None:
    with server_variables(tmp_path, OnednnLimit("AVX2", "asked for", from_user=True)) as env:
        assert env["HOME"].startswith(str(tmp_path))
        assert env["ONEDNN_MAX_CPU_ISA"] == "AVX2"
        assert env["TMPDIR"] == env["VLLM_RPC_BASE_PATH"]
        assert len(env["TMPDIR"]) < 60 or len(os.environ.get("TMPDIR", "")) > 40
        (Path(env["TMPDIR"]) / "socket").touch()
    assert not Path(env["TMPDIR"]).exists()
