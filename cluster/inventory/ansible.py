"""An Ansible inventory: its INI form, or what ``ansible-inventory --list`` prints."""

import dataclasses
import json
import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from cluster.inventory.machines import Machine
from user_error import UserError

SECTION = re.compile(r"\[([^]:]+)(?::(vars|children))?\]")
RANGE = re.compile(r"\[(\w+):(\w+)(?::(\d+))?\]")
PASSWORDS = ("ansible_password", "ansible_ssh_pass", "ansible_ssh_password")


@dataclasses.dataclass
class Group:
    """Hosts, groups below it, and variables of all of them."""

    hosts: list[str] = dataclasses.field(default_factory=list)
    children: list[str] = dataclasses.field(default_factory=list)
    variables: dict[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Inventory:
    """Groups by name, and each host's own variables."""

    groups: dict[str, Group] = dataclasses.field(default_factory=dict)
    hosts: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)

    def group(self, name: str) -> Group:
        """The group of a name, created on first use."""
        return self.groups.setdefault(name, Group())


def read(text: str) -> tuple[list[Machine], list[str]]:
    """The machines, and notes about them for the user."""
    inventory = _from_json(text) if text.lstrip().startswith("{") else _from_ini(text)
    machines, with_password = [], 0
    for name, own in inventory.hosts.items():
        groups = _groups_of(name, inventory)
        variables: dict[str, Any] = {}
        for group in groups:
            variables |= inventory.groups[group].variables
        variables |= own
        machines.append(_machine(name, groups, variables))
        with_password += any(one in variables for one in PASSWORDS)
    notes = []
    if with_password:
        notes.append(
            f"{with_password} hosts have a password there, which is not copied; give it to the "
            "frontend with --ask_ssh_password or --ssh_password_env."
        )
    return machines, notes


def _machine(name: str, groups: list[str], variables: Mapping[str, Any]) -> Machine:
    def value(*names: str) -> str:
        for one in names:
            if one in variables:
                if "{{" in str(variables[one]):
                    raise UserError(
                        f"{name}: {one} is a template, which only Ansible can fill in. Replace it "
                        "with its value."
                    )
                return str(variables[one])
        return ""

    local = value("ansible_connection") == "local"
    return Machine(
        name=name,
        address=value("ansible_host", "ansible_ssh_host") or ("localhost" if local else name),
        tags=tuple(groups),
        ssh_port=value("ansible_port", "ansible_ssh_port"),
        ssh_username=value("ansible_user", "ansible_ssh_user"),
        ssh_key=value("ansible_ssh_private_key_file", "ansible_private_key_file"),
        local=local,
    )


def _groups_of(host: str, inventory: Inventory) -> list[str]:
    """The groups of a host, from the widest to the narrowest."""
    depths = {name: 0 for name, group in inventory.groups.items() if host in group.hosts}
    edge = set(depths)
    for depth in range(1, len(inventory.groups) + 1):  # deeper would be a cycle
        edge = {
            name for name, group in inventory.groups.items() if edge.intersection(group.children)
        }
        depths.update(dict.fromkeys(edge, depth))
    depths.pop("all", None)
    everything = ["all"] if "all" in inventory.groups else []
    return everything + sorted(depths, key=lambda name: (-depths[name], name))


def _from_json(text: str) -> Inventory:
    listed = json.loads(text)
    own = listed.pop("_meta", {}).get("hostvars", {})
    inventory = Inventory(hosts={name: dict(variables) for name, variables in own.items()})
    for name, given in listed.items():
        group = inventory.group(name)
        # Older scripts give a group as a list of its hosts.
        parts = {"hosts": given} if isinstance(given, list) else given
        group.hosts += parts.get("hosts", [])
        group.children += parts.get("children", [])
        group.variables.update(parts.get("vars", {}))
    for group in inventory.groups.values():
        for host in group.hosts:
            inventory.hosts.setdefault(host, {})
    return inventory


def _from_ini(text: str) -> Inventory:
    inventory = Inventory()
    section, kind = "ungrouped", None
    for number, line in enumerate(map(str.strip, text.splitlines()), start=1):
        if not line or line[0] in "#;":
            continue
        if line == "---" or re.fullmatch(r"[\w.-]+:", line):
            raise UserError("is YAML. Convert it to JSON with ansible-inventory -i FILE --list.")
        found = SECTION.fullmatch(re.sub(r"\s+[#;].*", "", line))
        if found:
            section, kind = found[1], found[2]
            inventory.group(section)
        elif kind == "children":
            inventory.group(section).children.append(line.split()[0])
            inventory.group(line.split()[0])
        elif kind == "vars":
            inventory.group(section).variables.update([_variable(line, number)])
        else:
            _add_hosts(line, number, section, inventory)
    return inventory


def _add_hosts(line: str, number: int, section: str, inventory: Inventory) -> None:
    try:
        pattern, *words = shlex.split(line, comments=True)
    except ValueError as error:
        raise UserError(f"line {number}: {error}.") from None
    variables = dict(_variable(word, number) for word in words)
    name, _, port = pattern.rpartition(":")
    if name and port.isdigit() and RANGE.sub("", pattern).count(":") == 1:
        pattern, variables = name, {"ansible_port": port} | variables
    for host in _expanded(pattern, number):
        if host not in inventory.group(section).hosts:
            inventory.group(section).hosts.append(host)
        inventory.hosts.setdefault(host, {}).update(variables)


def _variable(text: str, number: int) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        # The text is not shown: it may be part of a password.
        raise UserError(f"line {number}: each word after a host's name must be NAME=VALUE.")
    return name.strip(), value.strip().strip("'\"")


def _expanded(pattern: str, number: int) -> Iterator[str]:
    """The names that ``web[01:03].example.com`` stands for."""
    found = RANGE.search(pattern)
    if not found:
        yield pattern
        return
    first, last, step = found[1], found[2], int(found[3] or 1)
    if first.isdigit() and last.isdigit():
        names = [str(one).zfill(len(first)) for one in range(int(first), int(last) + 1, step)]
    elif len(first) == len(last) == 1 and first.isalpha() and last.isalpha():
        names = [chr(one) for one in range(ord(first), ord(last) + 1, step)]
    else:
        raise UserError(
            f"line {number}: the range {found[0]} is not a range of numbers or letters."
        )
    for one in names:
        yield from _expanded(pattern[: found.start()] + one + pattern[found.end() :], number)
