"""Manifests, checked against the schemas of Kubernetes; no cluster has them here."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from cpuwheels.farm.allocation import RESERVE
from cpuwheels.farm.kubernetes import PORT, SCHEDULER, SECRET, TAKE_KEYS, WORKER, Wanted, manifests, secret_command
from cpuwheels.farm.security import make_certificates, read_certificates

WANTED = Wanted("registry.example/cpuwheels@sha256:00", 8, 32 << 30, 16, 200 << 30, "wheels")
# The first one in which pods have user namespaces by default, and the newest that the checker knows.
VERSIONS = ("1.33", "1.37")


@pytest.fixture
def parts() -> dict[tuple[str, str], dict[str, Any]]:
    return {(part["kind"], part["metadata"]["name"]): part for part in yaml.safe_load_all(manifests(WANTED))}


def pod(part: dict[str, Any]) -> dict[str, Any]:
    return part["spec"]["template"]["spec"]


@pytest.mark.parametrize("version", VERSIONS)
def test_every_manifest_is_what_kubernetes_takes(parts: dict[tuple[str, str], dict[str, Any]], version: str) -> None:
    assert len(parts) == 6
    for part in parts.values():
        assert kubernetes_validate.validate(part, version, strict=True) == version


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", ["hostUsers", "replicas", "ports"])
def test_the_check_finds_what_is_wrong(parts: dict[tuple[str, str], dict[str, Any]], version: str, kind: str) -> None:
    if kind == "hostUsers":
        part = parts["Deployment", WORKER]
        pod(part)["hostUser"] = pod(part).pop("hostUsers")
    elif kind == "replicas":
        part = parts["Deployment", WORKER]
        part["spec"]["replicas"] = "8"
    else:
        part = parts["NetworkPolicy", WORKER]
        part["spec"]["port"] = []
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(part, version, strict=True)


def test_names_lead_from_one_part_to_another(parts: dict[tuple[str, str], dict[str, Any]]) -> None:
    for (kind, name), part in parts.items():
        if kind == "Namespace":
            assert name == "wheels"
            continue
        assert part["metadata"]["namespace"] == "wheels"
        if kind == "Deployment":
            labels = part["spec"]["template"]["metadata"]["labels"]
            assert part["spec"]["selector"]["matchLabels"].items() <= labels.items()
            assert parts["NetworkPolicy", name]["spec"]["podSelector"]["matchLabels"].items() <= labels.items()
            spec = pod(part)
            (container,) = spec["containers"]
            assert {mount["name"] for mount in container["volumeMounts"]} == {one["name"] for one in spec["volumes"]}
            assert [one["secret"]["secretName"] for one in spec["volumes"] if "secret" in one] == [SECRET]
    scheduler = parts["Deployment", SCHEDULER]
    labels = scheduler["spec"]["template"]["metadata"]["labels"]
    service = parts["Service", SCHEDULER]["spec"]
    assert service["selector"].items() <= labels.items()
    (listening,) = pod(scheduler)["containers"]
    assert [one["containerPort"] for one in listening["ports"]] == [one["targetPort"] for one in service["ports"]]
    assert listening["args"][listening["args"].index("--port") + 1] == str(PORT)
    (working,) = pod(parts["Deployment", WORKER])["containers"]
    assert f"tls://{SCHEDULER}:{PORT}" in working["args"]


def test_a_worker_gets_its_share_and_no_more_rights_than_its_sandbox_needs(
    parts: dict[tuple[str, str], dict[str, Any]],
) -> None:
    part = parts["Deployment", WORKER]
    assert part["spec"]["replicas"] == 8
    spec = pod(part)
    (container,) = spec["containers"]
    assert container["resources"]["limits"] == container["resources"]["requests"]
    assert container["resources"]["limits"] == {"cpu": "16", "memory": "32768Mi", "ephemeral-storage": "204800Mi"}
    given = container["args"][container["args"].index("--memory") + 1]
    assert given == f"{((32 << 30) - RESERVE) >> 20}M"
    for one in (spec, pod(parts["Deployment", SCHEDULER])):
        assert one["automountServiceAccountToken"] is False
        assert one["securityContext"]["runAsNonRoot"] is True
        (container,) = one["containers"]
        rights = container["securityContext"]
        assert rights["capabilities"] == {"drop": ["ALL"]}
        assert (rights["allowPrivilegeEscalation"], rights["readOnlyRootFilesystem"]) == (False, True)
        assert "privileged" not in rights
    assert spec["hostUsers"] is False


def test_nothing_of_the_certificates_is_printed(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    make_certificates(keys)
    words = shlex.split(secret_command("wheels", str(keys)))
    files = [Path(word.partition("=")[2]).name for word in words if word.startswith("--from-file=")]
    # What a secret's volume looks like to a pod's user: links, and files that the group can read.
    volume, taken = tmp_path / "volume", tmp_path / "run"
    (volume / "..data").mkdir(parents=True)
    for name in files:
        (volume / "..data" / name).write_bytes((keys / name).read_bytes())
        (volume / "..data" / name).chmod(0o440)
        (volume / name).symlink_to(f"..data/{name}")
    script = TAKE_KEYS.replace("/run/farm-secret", str(volume)).replace("/run/farm/keys", str(taken))
    command = ["sh", "-c", script, "sh", "echo", "two words", "$HOME"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ)
    assert done.stdout == "two words $HOME\n"
    read_certificates(taken)
    assert oct(taken.stat().st_mode)[-3:] == "700"
    for name in files:
        assert (keys / name).read_text()[40:80] not in manifests(WANTED)
