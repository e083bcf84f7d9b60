"""Machines from the output of cloud command-line tools."""

import json
from typing import Any

from cluster.inventory.machines import Machine
from user_error import UserError


def aws(text: str, public: bool) -> tuple[list[Machine], list[str]]:
    """The output of ``aws ec2 describe-instances``; tags become KEY=VALUE."""
    given = json.loads(text)
    if isinstance(given, dict) and "Reservations" in given:
        given = [one for many in given["Reservations"] for one in many.get("Instances", [])]
    given = _flat(given)
    if not all(isinstance(one, dict) and "InstanceId" in one for one in given):
        raise UserError("is not the output of aws ec2 describe-instances: it lists no instances.")
    running = [one for one in given if one.get("State", {}).get("Name") == "running"]
    machines = []
    for one in running:
        tags = {tag["Key"]: tag["Value"] for tag in one.get("Tags") or []}
        name = tags.get("Name") or one["InstanceId"]
        address = one.get("PublicIpAddress" if public else "PrivateIpAddress")
        labels = [one["InstanceId"], f"type={one.get('InstanceType', '')}"]
        labels += [f"{key}={value}" for key, value in tags.items()]
        machines.append(Machine(name, address or "", tuple(labels)))
    return machines, _left_out(given, running)


def gcloud(text: str, public: bool) -> tuple[list[Machine], list[str]]:
    """The output of ``gcloud compute instances list --format=json``; its labels and tags."""
    given = json.loads(text)
    if not isinstance(given, list) or not all(
        isinstance(one, dict) and "networkInterfaces" in one for one in given
    ):
        raise UserError("is not the output of gcloud compute instances list --format=json.")
    running = [one for one in given if one.get("status") == "RUNNING"]
    machines = []
    for one in running:
        interface = one["networkInterfaces"][0] if one["networkInterfaces"] else {}
        outside = (interface.get("accessConfigs") or [{}])[0]
        address = outside.get("natIP") if public else interface.get("networkIP")
        labels = [f"{key}={value}" for key, value in (one.get("labels") or {}).items()]
        labels += one.get("tags", {}).get("items", [])
        # Both are URLs that end with the name.
        labels += [
            f"{key}={one.get(key, '').rpartition('/')[2]}" for key in ("zone", "machineType")
        ]
        machines.append(Machine(one["name"], address or "", tuple(labels)))
    return machines, _left_out(given, running)


def _flat(given: Any) -> list[Any]:
    """``--query`` with ``Reservations[*].Instances[*]`` gives lists in a list."""
    if not isinstance(given, list):
        return [given]
    return [one for part in given for one in (part if isinstance(part, list) else [part])]


def _left_out(given: list[Any], running: list[Any]) -> list[str]:
    count = len(given) - len(running)
    return [f"{count} machines are not running and were left out."] if count else []
