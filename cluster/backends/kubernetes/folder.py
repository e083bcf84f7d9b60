"""A folder of manifests that ``kubectl apply -k`` takes, with no tool of this project."""

import base64
import json
from pathlib import Path

import yaml

import credentials
from cluster.backends.kubernetes.model import RUN_ID, KubernetesPlan, Manifest
from cluster.on_host.states import write_whole

HEAD = "# Made by run_experiment_mm_raw.py; kubectl apply -k this folder\n"


def folder_of(logdir: str) -> Path:
    """Where the manifests of a run are."""
    return Path(logdir) / "cluster" / "kubernetes"


def of_run(plan: KubernetesPlan, run_id: str) -> list[Manifest]:
    """The manifests with the run's id in their labels."""
    return json.loads(json.dumps(plan.manifests).replace(RUN_ID, run_id))


def texts(manifests: list[Manifest]) -> dict[str, str]:
    """A file for each manifest."""
    names = [f"{one['metadata']['name']}-{one['kind'].lower()}.yaml" for one in manifests]
    made = [yaml.safe_dump(one, sort_keys=False) for one in manifests]
    return dict(zip(names, made, strict=True))


def write(plan: KubernetesPlan, run_id: str, namespace: str) -> Path:
    """Writes the folder; credentials are files beside the manifests, which only you can read."""
    folder = folder_of(plan.logdir)
    folder.mkdir(parents=True, exist_ok=True)
    made = texts(of_run(plan, run_id))
    for old in folder.glob("*.yaml"):
        if old.name not in made:
            old.unlink()
    for name, text in made.items():
        write_whole(folder / name, text)
    generated = []
    for secret, name in plan.secrets:
        (folder / "credentials").mkdir(mode=0o700, exist_ok=True)
        content = (Path(plan.logdir) / credentials.FOLDER / name).read_text()
        write_whole(folder / "credentials" / name, content)
        generated.append({"name": secret, "files": [f"{name}=credentials/{name}"]})
    top: Manifest = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}
    top.update({"namespace": namespace} if namespace else {}, resources=list(made))
    if generated:
        top["secretGenerator"] = generated
        top["generatorOptions"] = {"disableNameSuffixHash": True}
    write_whole(folder / "kustomization.yaml", HEAD + yaml.safe_dump(top, sort_keys=False))
    return folder


def secrets(plan: KubernetesPlan, labels: dict[str, str]) -> list[Manifest]:
    """The secrets, for the API alone: neither printed nor written anywhere else."""
    found = []
    for secret, name in plan.secrets:
        content = (Path(plan.logdir) / credentials.FOLDER / name).read_bytes()
        found.append(
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": secret, "labels": labels},
                "type": "Opaque",
                "data": {name: base64.b64encode(content).decode()},
            }
        )
    return found
