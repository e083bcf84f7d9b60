"""CSVs from the lists of Ansible and of clouds, made by the program itself."""

import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cluster.inventory import hosts_csv

ROOT = Path(__file__).parents[3]

INI = """
lonely.example.com
[gpu]  # two of them
g1 ansible_host=10.0.0.1 ansible_ssh_private_key_file="~/keys/g 1"
g2 ansible_host=10.0.0.2

[cpu]
c[08:10:2].example.com:2222 ansible_password='hush # hush'
c[a:b].example.com

[all:vars]
ansible_user = ann
[workers:children]
cpu
[workers:vars]
ansible_user=wanda
ansible_port=22
[cpu:vars]
ansible_port=2200
"""


def instance(name: str, state: str = "running", **more: Any) -> dict[str, Any]:
    role = "learner" if name.startswith("l") else "actor"
    tags = [{"Key": "Name", "Value": name}, {"Key": "role", "Value": role}]
    return {"InstanceId": f"i-{name}", "State": {"Name": state}, "Tags": tags, **more}


AWS: dict[str, Any] = {
    "Reservations": [
        {
            "Instances": [
                instance("l1", PrivateIpAddress="10.0.0.1", PublicIpAddress="1.2.3.4"),
                instance("a1", PrivateIpAddress="10.0.0.2"),
            ]
        },
        {"Instances": [instance("a2", "terminated")]},
    ]
}
GCLOUD = [
    {
        "name": name,
        "status": "RUNNING",
        "labels": {"job": name.split("-")[0]},
        "tags": {"items": ["ssh"]},
        "zone": "https://www.googleapis.com/compute/v1/projects/p/zones/europe-west4-a",
        "machineType": "https://www.googleapis.com/compute/v1/projects/p/machineTypes/n2-4",
        "networkInterfaces": [
            {"networkIP": f"10.0.1.{number}", "accessConfigs": [{"natIP": f"5.6.7.{number}"}]}
        ],
    }
    for number, name in enumerate(["learner-0", "actor-0", "actor-1"])
]


def run(text: str, *flags: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "cluster/inventory/make_csv.py", *flags],
        cwd=ROOT,
        input=text,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def rows(text: str, *flags: str) -> list[dict[str, str]]:
    done = run(text, *flags)
    assert done.returncode == 0, done.stderr
    assert hosts_csv.parse(done.stdout.encode(), "f")
    return list(csv.DictReader(done.stdout.splitlines()))


def short(made: list[dict[str, str]], *columns: str) -> list[tuple[str, ...]]:
    return [tuple(row[name] for name in columns) for row in made]


def test_groups_of_an_ini_inventory_choose_learners_and_its_variables_the_logins():
    made = rows(INI, "ansible", "-", "--learners=gpu", "--actors=workers", "--actors_per_host=3")
    assert short(made, "job", "ip", "ssh_port", "ssh_username", "ssh_key", "count") == [
        ("learner", "10.0.0.1", "22", "ann", "~/keys/g 1", ""),
        ("learner", "10.0.0.2", "22", "ann", "", ""),
        ("actor", "c08.example.com", "2222", "wanda", "", "3"),
        ("actor", "c10.example.com", "2222", "wanda", "", "3"),
        ("actor", "ca.example.com", "2200", "wanda", "", "3"),
        ("actor", "cb.example.com", "2200", "wanda", "", "3"),
    ]


@pytest.mark.parametrize("kind", ["ini", "json"])
def test_a_mark_at_the_begin_of_a_list_is_no_part_of_it(kind: str, tmp_path: Path):
    given = {"ini": "[gpu]\ng1\n", "json": json.dumps({"gpu": {"hosts": ["g1"]}})}[kind]
    path = tmp_path / "list"
    path.write_text(given, encoding="utf-8-sig")
    for made in (rows("", "ansible", str(path), "--learners=gpu"),
                 rows(f"\ufeff{given}", "ansible", "-", "--learners=gpu")):  # fmt: skip
        assert short(made, "job", "ip") == [("learner", "g1")]


def test_who_is_not_said_to_learn_acts():
    made = rows(INI, "ansible", "-", "--learners=g?", "--learners_per_host=2")
    assert short(made[:4], "job", "tf_port", "cuda_visible_devices") == [
        ("learner", "8001", "0"), ("learner", "8002", "1"),
        ("learner", "8001", "0"), ("learner", "8002", "1"),
    ]  # fmt: skip
    assert made[4]["ip"] == "lonely.example.com" and {row["job"] for row in made[4:]} == {"actor"}


def test_passwords_are_left_out_and_never_shown():
    done = run(INI, "ansible", "-", "--learners=gpu")
    assert "2 hosts have a password there, which is not copied" in done.stderr
    broken = run(INI.replace("ansible_password=", "'"), "ansible", "-", "--learners=gpu")
    assert broken.returncode == 2
    assert "hush" not in done.stdout + done.stderr + broken.stdout + broken.stderr


def test_what_ansible_inventory_prints_is_read():
    listed: dict[str, Any] = {
        "_meta": {"hostvars": {"g1": {"ansible_host": "10.0.0.1", "ansible_port": 2201}}},
        "all": {"children": ["ungrouped", "gpu", "cpu"], "vars": {"ansible_user": "ann"}},
        "gpu": {"hosts": ["g1"]},
        "cpu": {"hosts": ["h2", "h3"]},
        "here": ["me"],
        "ungrouped": {},
    }
    listed["_meta"]["hostvars"]["me"] = {"ansible_connection": "local"}
    made = rows(json.dumps(listed), "ansible", "-", "--learners=gpu", "--remote_dir=work")
    assert short(made, "job", "ip", "ssh_port", "ssh_username", "remote_dir") == [
        ("learner", "10.0.0.1", "2201", "ann", "work"),
        ("actor", "localhost", "", "", ""),
        ("actor", "h2", "22", "ann", "work"),
        ("actor", "h3", "22", "ann", "work"),
    ]


def test_instances_of_aws_are_told_by_their_tags():
    flags = ["aws", "-", "--learners=role=learner", "--ssh_username=admin", "--ssh_key=k.pem"]
    done = run(json.dumps(AWS), *flags)
    assert "1 machines are not running and were left out" in done.stderr
    made = rows(json.dumps(AWS), *flags)
    assert short(made, "job", "ip", "ssh_username", "ssh_key") == [
        ("learner", "10.0.0.1", "admin", "k.pem"), ("actor", "10.0.0.2", "admin", "k.pem"),
    ]  # fmt: skip
    queried = json.dumps([one["Instances"] for one in AWS["Reservations"]])
    assert rows(queried, *flags) == made
    public = run(json.dumps(AWS), *flags, "--address=public")
    assert public.returncode == 2 and "a1 has no public address" in public.stderr


def test_only_machines_that_are_chosen_need_an_address_of_the_wanted_kind():
    inner = instance("a1", PrivateIpAddress="10.0.0.2")
    outer = [instance(name, PublicIpAddress=f"1.2.3.{name[1]}") for name in ("l1", "a2")]
    text = json.dumps({"Reservations": [{"Instances": [inner, *outer]}]})
    made = rows(text, "aws", "-", "--learners=l1", "--actors=a2", "--address=public")
    assert short(made, "job", "ip") == [("learner", "1.2.3.1"), ("actor", "1.2.3.2")]
    refused = run(text, "aws", "-", "--learners=l1", "--actors=a2")
    assert refused.returncode == 2 and "--address=public." in refused.stderr


def test_machines_of_gcloud_are_told_by_names_labels_and_tags():
    text = json.dumps(GCLOUD)
    made = rows(text, "gcloud", "-", "--learners=learner-*")
    assert short(made, "job", "ip") == [
        ("learner", "10.0.1.0"), ("actor", "10.0.1.1"), ("actor", "10.0.1.2"),
    ]  # fmt: skip
    public = rows(text, "gcloud", "-", "--learners=job=learner", "--address=public")
    assert short(public, "ip") == [("5.6.7.0",), ("5.6.7.1",), ("5.6.7.2",)]


@pytest.mark.parametrize(
    ("text", "flags", "told"),
    [
        (INI, ["ansible", "--learners=tpu"], "--learners: 'tpu' matches no name and no tag. There"),
        ("# ours\nall:\n  hosts:\n", ["ansible", "--learners=a"], "standard input: is YAML."),
        ("[a]\nh x", ["ansible", "--learners=a"], "standard input: line 2: each word after"),
        ("[a]\nh[1:x]", ["ansible", "--learners=a"], "line 2: the range [1:x] is not a range of"),
        ("[a]\nh ansible_host={{ip}}", ["ansible", "--learners=a"], "h: ansible_host is a templ"),
        ("[a]\nh_+", ["ansible", "--learners=a"], ":2: column ip: 'h_+' is neither an IP"),
        ("{", ["ansible", "--learners=a"], "the form of a list of ansible (JSONDecodeError"),
        ("", ["ansible", "--learners=a"], "there is no machine in it"),
        ("", ["ansible"], "arguments are required: --learners. --help lists all flags."),
        ("", ["ansible", "--learners=a", "--learner_port=0"], "a whole number from 1 to 65535"),
        ("x", ["aws", "--learners=a"], "does not have the form of a list of aws"),
        ("{}", ["aws", "--learners=a"], "is not the output of aws ec2 describe-instances"),
        ("{}", ["gcloud", "--learners=a"], "is not the output of gcloud compute instances list"),
        ('[{"networkInterfaces": 1}]', ["gcloud", "--learners=a"], "there is no machine in it"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_in_a_line(text: str, flags: list[str], told: str):
    done = run(text, flags[0], "-", *flags[1:])
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("make_csv.py: ") and told in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_missing_file_is_told_and_help_shows_examples(tmp_path: Path):
    done = run("", "aws", str(tmp_path / "none"), "--learners=a")
    assert done.returncode == 2 and "No such file" in done.stderr
    assert "--learners=role=learner" in run("", "--help").stdout
