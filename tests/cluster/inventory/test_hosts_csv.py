"""The CSV of hosts: what is accepted, and that every problem is told with its line and column."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.inventory import hosts_csv
from cluster.inventory.hosts_csv import Row
from user_error import UserError

HEADER = "job,ip,tf_port,cuda_visible_devices,ssh_port,ssh_username,ssh_password"
FULL = HEADER + ",ssh_key,remote_dir,envs,env,python,count"
LEARNER = "learner,localhost,8001,,,,"
EXAMPLE = Path(__file__).parents[3] / "sandbox" / "local_workers_example.csv"


def rows(*lines: str, header: str = HEADER) -> list[Row]:
    return hosts_csv.parse("\n".join([header, *lines]).encode(), "hosts.csv")


def problems(*lines: str, header: str = HEADER) -> list[str]:
    with pytest.raises(UserError) as error:
        rows(*lines, header=header)
    return str(error.value).split("\n")


def test_the_example_has_two_learners_and_three_actors():
    read = hosts_csv.read(EXAMPLE)
    assert [row.job for row in read] == ["learner", "learner", "actor", "actor", "actor"]
    assert [row.tf_port for row in read] == [8001, 8002, 9001, 9002, 9003]
    assert not any(row.has_ssh for row in read)


def test_every_column_is_read():
    row = rows(
        "learner,localhost,8001,,,,,,,,,,",
        'actor,10.0.0.5,9001,"0,1",2222,ann,p w,~/.ssh/id,work/impala,32,A=b c;D=,py/bin/python,3',
        header=FULL,
    )[1]
    assert row == Row(
        line=3, job="actor", ip="10.0.0.5", tf_port=9001, cuda_visible_devices="0,1",
        ssh_port=2222, ssh_username="ann", ssh_password="p w", ssh_key=str(Path.home() / ".ssh/id"),
        remote_dir="work/impala", envs=32, env=(("A", "b c"), ("D", "")),
        python="py/bin/python", count=3,
    )  # fmt: skip
    assert list(row.ports) == [9001, 9002, 9003]


def test_marks_line_ends_blank_lines_and_comments_are_accepted():
    text = f"\ufeff# hosts\r\n{HEADER}\r\n\r\n  # a learner\r\n{LEARNER}\r\n,,,,,,\r\n"
    assert [row.line for row in hosts_csv.parse(text.encode(), "f")] == [5]


def test_columns_may_stand_in_any_order_and_ssh_columns_may_be_left_out():
    assert rows("8001,learner,localhost", header="tf_port,job,ip")[0].tf_port == 8001


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("worker,localhost,9001,,,,", ":3: column job: 'worker' is not a job"),
        ("actor,localhost,,,,,", ":3: column tf_port: is empty"),
        ("actor,localhost,0,,,,", ":3: column tf_port: '0' is not a whole number from 1"),
        ("actor,localhost,65536,,,,", ":3: column tf_port: '65536'"),
        ("actor,localhost,+80,,,,", ":3: column tf_port: '+80'"),
        ("actor,localhost,9e3,,,,", ":3: column tf_port: '9e3'"),
        ("actor,localhost,9001,,ssh,,", ":3: column ssh_port: is not a whole number"),
        ("actor,localhost,9001", ":3: the row is too short: it has 3 of 7"),
        ("actor,localhost,9001,,,,,x", ":3: the row is too long: it has 8 of 7"),
        ("actor,localhost,8001,,,,", ":3: column tf_port: port 8001 of localhost is used by lin"),
        ("actor,127.0.0.1,8001,,,,", ":3: column tf_port: port 8001 of 127.0.0.1 is used by"),
        (LEARNER, ":3: the row is a duplicate of line 2"),
        ("actor,300.1.1.1,9001,,,,", ":3: column ip: '300.1.1.1' is neither"),
        ("actor,a b,9001,,,,", ":3: column ip: 'a b' is neither"),
        ("actor,-oProxyCommand=x,9001,,,,", ":3: column ip: '-oProxyCommand=x' is neither"),
        ("actor,$(id),9001,,,,", ":3: column ip: '$(id)' is neither"),
        ("actor,0.0.0.0,9001,,,,", ":3: column ip: '0.0.0.0' is not the address of one host"),
        ("actor,224.0.0.1,9001,,,,", ":3: column ip: '224.0.0.1' is not the address of one"),
        ("actor,fe80::1%$(id),9001,,,,", ":3: column ip: 'fe80::1%$(id)' is neither"),
        ("actor,h,9001,,22,a;b,", ":3: column ssh_username: is not a user name"),
        ("actor,h,9001,,22,-l,", ":3: column ssh_username: is not a user name"),
        ("actor,h,9001,gpu0,,,", ":3: column cuda_visible_devices: is not a list of GPUs"),
        ('actor,"h,9001,,,,', ":3: a quotation mark is not closed"),
    ],
)
def test_a_malformed_row_is_told_with_line_and_column(line: str, told: str):
    (problem,) = problems(LEARNER, line)
    assert problem.startswith("hosts.csv" + told)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("actor,h,9001,,,,,,,0,,,", ":3: column envs: is not a whole number from 1 to 4096."),
        ("actor,h,9001,,,,,,,,A,,", ":3: column env: part 1, counted by semicolons"),
        ("actor,h,9001,,,,,,,,A=1;A=2,,", ":3: column env: A is given twice"),
        ("actor,h,9001,,,,,,,,1A=1,,", ":3: column env: part 1, counted"),
        ("actor,h,9001,,,,,,,,CUDA_VISIBLE_DEVICES=1,,", ":3: column env: CUDA_VISIBLE_DEVICES"),
        ("actor,h,9001,,,,,,,,,-c,", ":3: column python: starts with '-'"),
        ("actor,h,9001,,,,,,,,,~/py,", ":3: column python: starts with '~', which is not expanded"),
        ("actor,h,9001,,,,,,~bob/x,,,,", ":3: column remote_dir: is in another user's home"),
        ("actor,h,9001,,,,,,~/-x,,,,", ":3: column remote_dir: starts with '-'"),
        ("actor,h,9001,,,,,,,,,,0", ":3: column count: is not a whole number from 1 to 1024."),
        ("actor,h,65535,,,,,,,,,,2", ":3: column count: so many processes from port 65535"),
        ("learner,h,9001,,,,,,,,,,2", ":3: column count: a number is given for a learner"),
        ("learner,h,9001,,,,,,,4,,,", ":3: column envs: a number is given for a learner"),
        ("actor,localhost,7999,,,,,,,,,,5", ":3: column tf_port: port 8001 of localhost is used"),
    ],
)
def test_a_malformed_optional_column_is_told(line: str, told: str):
    (problem,) = problems("learner,localhost,8001,,,,,,,,,,", line, header=FULL)
    assert problem.startswith("hosts.csv" + told)


@pytest.mark.parametrize(
    ("given", "read"), [("~/a b", "a b"), ("~", "."), ("~//x/", "x"), ("/data/x", "/data/x")]
)
def test_a_home_may_be_written_as_shells_write_it(given: str, read: str):
    row = rows("learner,localhost,8001,,,,,,,,,,", f"actor,h,9001,,,,,,{given},,,,", header=FULL)[1]
    assert row.remote_dir == read


@pytest.mark.parametrize(
    "given", ["20231234", "ann@example.org", "EXAMPLE\\ann", "_x-1.y$", "a" * 70]
)
def test_users_of_domains_and_schools_log_in_too(given: str):
    assert rows(LEARNER, f"actor,h,9001,,22,{given},")[1].ssh_username == given


def test_a_key_is_found_from_other_folders_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    row = rows("learner,localhost,8001,,,,,,,,,,", "actor,h,9001,,,,,keys/id,,,,,", header=FULL)[1]
    assert row.ssh_key == str(tmp_path / "keys" / "id")


def test_an_address_of_an_interface_is_one():
    assert rows("learner,fe80::1%eth0,8001,,,,")[0].ip == "fe80::1%eth0"


def test_a_row_of_this_machine_may_be_aligned_with_spaces():
    assert not rows("learner, localhost, 8001, , , , ")[0].has_ssh


def test_one_login_has_one_password():
    told = problems(LEARNER, "actor,h,9001,,22,ann,one", "actor,h,9002,,22,ann,two")
    assert told == [
        "hosts.csv:4: column ssh_password: differs from line 3, which is the same login."
    ]
    # 22 is the port where none is given.
    assert told == problems(LEARNER, "actor,h,9001,,,ann,one", "actor,h,9002,,22,ann,two")


def test_all_problems_are_told_at_once_in_the_order_of_lines():
    told = problems("worker,localhost,x,,,,", LEARNER, "actor,localhost", LEARNER)
    assert [problem.split(": ")[0] for problem in told] == [
        "hosts.csv:2", "hosts.csv:2", "hosts.csv:4", "hosts.csv:5",
    ]  # fmt: skip


def test_problems_of_the_header_and_of_rows_are_told_together():
    header = HEADER.replace("cuda_visible_devices", "gpu")
    told = problems("worker,localhost,0,,,,", LEARNER, header=header)
    assert [problem.split(": ")[1].split(" '")[0] for problem in told] == [
        "unknown column", "column job", "column tf_port",
    ]  # fmt: skip


def test_a_missing_learner_is_told_with_what_else_is_wrong():
    told = problems("actor,localhost,x,,,,")
    assert len(told) == 2 and "there is no learner" in told[0] and "tf_port" in told[1]
    # Not where a row may have been meant for one.
    assert len(problems("lerner,localhost,1,,,,")) == 1


def test_a_file_without_a_header_is_told_in_one_line():
    assert problems(LEARNER, header=LEARNER) == [
        f"hosts.csv:1: is not a header; the first line must be {HEADER}."
    ]


def test_a_file_without_a_learner_is_refused():
    assert problems("actor,localhost,9001,,,,") == [
        "hosts.csv: there is no learner: at least one row must have job 'learner'."
    ]


@pytest.mark.parametrize(
    ("header", "told"),
    [
        (HEADER + ",gpu_count", ":1: unknown column 'gpu_count'"),
        (HEADER + ",sshkey", ":1: unknown column 'sshkey'. Did you mean ssh_key"),
        (HEADER + ",job", ":1: column 'job' appears 2 times"),
        ("job,ip", ":1: the header has no column tf_port"),
    ],
)
def test_a_malformed_header_is_told(header: str, told: str):
    assert problems(LEARNER, header=header)[0].startswith("hosts.csv" + told)


def test_an_empty_file_says_what_the_header_is():
    with pytest.raises(UserError, match=f"is empty. The first line must be {HEADER}"):
        hosts_csv.parse(b"\n# nothing\n", "hosts.csv")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (f"{HEADER}\nlearner,h\xf6st,1".encode("latin-1"), "f:2: byte 10 of the line .0xf6"),
        (b"\xef\xbb\xbf" + HEADER.encode() + b"\nlearner,h\xf6st", "f:2: byte 10 of .*0xf6"),
        (HEADER.encode("utf-16"), "f: is encoded as UTF-16"),
    ],
)
def test_a_wrong_encoding_is_told(content: bytes, told: str):
    with pytest.raises(UserError, match=told):
        hosts_csv.parse(content, "f")


def test_a_missing_file_is_told(tmp_path: Path):
    with pytest.raises(UserError, match="No such file"):
        hosts_csv.read(tmp_path / "none.csv")


def test_no_problem_and_no_row_shows_a_password():
    secret = "s3cr\x01et"
    told = "\n".join(problems(LEARNER, f"actor,h,1,,22,ann,{secret}", f"actor,h,1,ann,{secret}"))
    assert "s3cr" not in told
    assert "hush" not in repr(rows(LEARNER, "actor,h,1,,22,ann,hush"))
    # With a field forgotten, and one too many at the end, it stands in another column.
    shifted = problems(LEARNER, "actor,h,1,22,ann,s3cr!et,")
    assert len(shifted) == 2 and "s3cr" not in "".join(shifted)


@pytest.mark.parametrize("column", list(hosts_csv.PARSERS)[3:])
@pytest.mark.parametrize("secret", ["-s3cr!et", "~s3cr!et"])
def test_a_password_that_stands_in_another_column_is_not_shown(column: str, secret: str):
    header = f"job,ip,tf_port,{column}"
    told = problems("learner,localhost,8001,", f"actor,h,none,{secret}", header=header)
    assert any("column tf_port: 'none'" in line for line in told) and "s3cr" not in str(told)


def test_a_password_one_column_too_far_right_is_no_key_and_is_not_shown(tmp_path: Path):
    csv = tmp_path / "hosts.csv"
    header = f"{HEADER},ssh_key"
    (tmp_path / "id").touch()
    csv.write_text(f"{header}\n{LEARNER},\nactor,h,9001,,22,ann,,{tmp_path}/id\n")
    assert hosts_csv.read(csv)[1].ssh_key == f"{tmp_path}/id"
    csv.write_text(f"{header}\n{LEARNER},\nactor,h,9001,,22,ann,,s3cr!et\n")
    with pytest.raises(UserError, match=f"^{csv}:3: column ssh_key: there is no such file") as told:
        hosts_csv.read(csv)
    assert "s3cr" not in str(told.value)


@given(st.binary(max_size=300))
def test_any_bytes_give_rows_or_a_user_error(content: bytes):
    try:
        read = hosts_csv.parse(content, "f")
    except UserError:
        return
    assert any(row.job == "learner" for row in read)


@given(st.lists(st.text(alphabet=st.characters(codec="utf-8"), max_size=8), max_size=14))
def test_any_fields_give_rows_or_a_user_error(fields: list[str]):
    try:
        rows("learner,h,1" + "," * 10, ",".join(fields), header=FULL)
    except UserError as error:
        assert all(line.startswith("hosts.csv:") for line in str(error).split("\n"))


cells = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=12).filter(
    lambda cell: not cell or cell.strip()
)


@given(st.lists(st.tuples(st.integers(1, 65535), cells), unique_by=lambda pair: pair[0]))
def test_what_is_written_is_read_back(actors: list[tuple[int, str]]):
    lines = ["learner,other,1,,,,"]
    for port, secret in actors:
        user = f"user{port}"
        quoted = '"' + secret.replace('"', '""') + '"'
        lines.append(f"actor,h,{port},,22,{user},{quoted}")
    read = rows(*lines)[1:]
    assert [(row.tf_port, row.ssh_password) for row in read] == actors
