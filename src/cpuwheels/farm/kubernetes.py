"""Manifests of a farm on Kubernetes: a scheduler behind a service, workers, and what may reach them.

dask-kubernetes has an operator start dask's workers; these are this program's, and all that they need is here. There
are no probes: a worker ends by itself when its scheduler is gone, and a probe's connections are errors in the
scheduler's log.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import yaml

from cpuwheels.farm.allocation import RESERVE
from cpuwheels.farm.security import FILES

PORT = 8786
SCHEDULER, WORKER, SECRET = "farm-scheduler", "farm-worker", "farm-keys"
"""Names of the service and of the scheduler's pod, of the workers' pods, and of the secret with the certificates."""

TAKE_KEYS = (
    "set -eu; umask 077; mkdir -p /run/farm/keys; cp -L /run/farm-secret/* /run/farm/keys/; "
    'chmod 600 /run/farm/keys/*; exec "$@"'
)
"""Copies the certificates: in a secret's volume the group can read them, and this program takes no such key."""

_PART = "cpuwheels-farm"
_USER = 1000
_SCHEDULER_MEMORY = 2 << 30
_MIB = 1 << 20


@dataclass(frozen=True)
class Wanted:
    """What is filled in.

    Attributes:
        image: With this program and what its builds need.
        workers: Pods, each with a worker.
        memory: Bytes of each.
        cpus: Of each.
        storage: Bytes on the node's disk of each, for its stores.
        namespace: Of everything.
    """

    image: str
    workers: int
    memory: int
    cpus: int
    storage: int
    namespace: str


def manifests(wanted: Wanted) -> str:
    """Return the manifests as YAML, for ``kubectl apply --filename -``.

    Args:
        wanted: What is filled in.
    """
    parts = [_namespace(wanted), *_policies(wanted), _service(wanted), _scheduler(wanted), _workers(wanted)]
    return yaml.safe_dump_all(parts, sort_keys=False, width=120)


def secret_command(namespace: str, keys: str) -> str:
    """Return the command that gives the cluster the certificates; no manifest has them.

    Args:
        namespace: Of the farm.
        keys: Folder of the certificates.
    """
    files = " ".join(f"--from-file={keys}/{name}" for name in FILES)
    return f"kubectl --namespace {namespace} create secret generic {SECRET} {files}"


def _object(kind: str, version: str, name: str, wanted: Wanted, **parts: Any) -> dict[str, Any]:  # noqa: ANN401
    labels = _labels(name) if kind != "Namespace" else {"app.kubernetes.io/part-of": _PART}
    metadata: dict[str, Any] = {"name": name, "labels": labels}
    if kind != "Namespace":
        metadata["namespace"] = wanted.namespace
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **parts}


def _labels(name: str) -> dict[str, str]:
    return {"app.kubernetes.io/name": name, "app.kubernetes.io/part-of": _PART}


def _namespace(wanted: Wanted) -> dict[str, Any]:
    # Lesser levels of pod security refuse what the builds' sandbox needs.
    made = _object("Namespace", "v1", wanted.namespace, wanted)
    made["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] = "privileged"
    return made


def _policies(wanted: Wanted) -> list[dict[str, Any]]:
    """Return who may connect to whom.

    The farm's pods reach the scheduler's port; scheduler and workers, which hand on results, reach workers. Out of the
    farm go only questions for names and what is fetched by HTTP.
    """

    def pods(*names: str) -> dict[str, Any]:
        return {
            "podSelector": {
                "matchExpressions": [{"key": "app.kubernetes.io/name", "operator": "In", "values": list(names)}]
            }
        }

    part = {"podSelector": {"matchLabels": {"app.kubernetes.io/part-of": _PART}}}
    names = {"ports": [{"protocol": protocol, "port": 53} for protocol in ("UDP", "TCP")]}
    fetched = {"ports": [{"protocol": "TCP", "port": port} for port in (80, 443)]}

    def policy(name: str, entries: list[Any], ways: list[Any]) -> dict[str, Any]:
        spec = {"podSelector": {"matchLabels": {"app.kubernetes.io/name": name}}, "policyTypes": ["Ingress", "Egress"]}
        return _object(
            "NetworkPolicy", "networking.k8s.io/v1", name, wanted, spec={**spec, "ingress": entries, "egress": ways}
        )

    farm = pods(SCHEDULER, WORKER)
    return [
        policy(
            SCHEDULER, [{"from": [part], "ports": [{"protocol": "TCP", "port": PORT}]}], [{"to": [pods(WORKER)]}, names]
        ),
        policy(WORKER, [{"from": [farm]}], [{"to": [farm]}, names, fetched]),
    ]


def _service(wanted: Wanted) -> dict[str, Any]:
    ports = [{"name": "tls", "protocol": "TCP", "port": PORT, "targetPort": PORT}]
    spec = {"selector": {"app.kubernetes.io/name": SCHEDULER}, "ports": ports}
    return _object("Service", "v1", SCHEDULER, wanted, spec=spec)


def _scheduler(wanted: Wanted) -> dict[str, Any]:
    words = ["up", "--workers", "0", "--host", "$(POD_ADDRESS)", "--port", str(PORT)]
    container = _container("scheduler", wanted, words, _share(_SCHEDULER_MEMORY, 1, 10 << 30))
    container["ports"] = [{"name": "tls", "protocol": "TCP", "containerPort": PORT}]
    container["env"].append({"name": "POD_ADDRESS", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}})
    # Two schedulers at one address would divide the workers.
    return _deployment(SCHEDULER, wanted, 1, {"type": "Recreate"}, _pod(container, 10 << 30))


def _workers(wanted: Wanted) -> dict[str, Any]:
    words = ["worker", "--farm", f"tls://{SCHEDULER}:{PORT}", "--memory", f"{(wanted.memory - RESERVE) // _MIB}M"]
    share = _share(wanted.memory, wanted.cpus, wanted.storage)
    container = _container("worker", wanted, [*words, "--jobs", str(wanted.cpus)], share)
    # What bubblewrap needs; docs/farm.md has the reasons.
    container["securityContext"] |= {
        "procMount": "Unmasked",
        "seccompProfile": {"type": "Unconfined"},
        "appArmorProfile": {"type": "Unconfined"},
    }
    pod = _pod(container, wanted.storage)
    # Somebody else than the worker ends what a killed build leaves behind.
    pod |= {"hostUsers": False, "shareProcessNamespace": True}
    return _deployment(WORKER, wanted, wanted.workers, {"type": "RollingUpdate"}, pod)


def _deployment(name: str, wanted: Wanted, replicas: int, strategy: dict[str, Any], pod: Any) -> dict[str, Any]:  # noqa: ANN401
    template = {"metadata": {"labels": _labels(name)}, "spec": pod}
    selector = {"matchLabels": {"app.kubernetes.io/name": name}}
    spec = {"replicas": replicas, "strategy": strategy, "selector": selector, "template": template}
    return _object("Deployment", "apps/v1", name, wanted, spec=spec)


def _share(memory: int, cpus: int, storage: int) -> dict[str, Any]:
    """Return what a pod gets, no more and no less, so that its node never takes memory back."""
    share = {"cpu": str(cpus), "memory": f"{memory // _MIB}Mi", "ephemeral-storage": f"{storage // _MIB}Mi"}
    return {"requests": dict(share), "limits": dict(share)}


def _container(name: str, wanted: Wanted, words: list[str], resources: dict[str, Any]) -> dict[str, Any]:
    program = ["cpuwheels", "--cache", "/work/stores", "--dist", "/work/dist", "farm", *words]
    return {
        "name": name,
        "image": wanted.image,
        "command": ["sh", "-c", TAKE_KEYS, "sh"],
        "args": [*program, "--farm-keys", "/run/farm/keys"],
        "env": [{"name": "HOME", "value": "/work"}],
        "resources": resources,
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "volumeMounts": [
            {"name": "work", "mountPath": "/work"},
            {"name": "temporary", "mountPath": "/tmp"},  # noqa: S108  (of the pod alone)
            {"name": "keys", "mountPath": "/run/farm"},
            {"name": "secret", "mountPath": "/run/farm-secret", "readOnly": True},
        ],
    }


def _pod(container: dict[str, Any], storage: int) -> dict[str, Any]:
    size = f"{storage // _MIB}Mi"
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 60,
        "securityContext": {"runAsNonRoot": True, "runAsUser": _USER, "runAsGroup": _USER, "fsGroup": _USER},
        "containers": [container],
        "volumes": [
            {"name": "work", "emptyDir": {"sizeLimit": size}},
            {"name": "temporary", "emptyDir": {"sizeLimit": size}},
            {"name": "keys", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
            {"name": "secret", "secret": {"secretName": SECRET, "defaultMode": 0o440}},
        ],
    }
