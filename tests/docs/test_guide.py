"""The guide says what is true: its settings, commands, code, links and messages."""

import ast
import functools
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from cluster.inventory import hosts_csv
from docs import generate_settings
from tests.docs.checking import Wrong, check
from tests.docs.pages import DOCS, PAGES, PROJECT, Block, blocks, commands, links, name
from user_error import UserError

SHELL = [block for page in PAGES for block in (*blocks(page, "bash"), *blocks(page, ""))]
PYTHON = [block for page in PAGES for block in blocks(page, "python")]
# Programs with which a line of a block without a language is a command.
TELLING = ("bin/", ".venv/", "python", "mpirun", "tmux")


def commands_of(block: Block) -> list[list[str]]:
    """A block of bash is all commands; one without a language may be anything."""
    if block.language == "bash":
        return list(commands(block))
    if not block.code.startswith(TELLING):
        return []
    return [words for words in commands(block) if words[0].startswith(TELLING)]


def test_the_settings_page_is_that_of_the_definitions():
    told = "make it anew: python -m docs.generate_settings"
    assert generate_settings.PAGE.read_text() == generate_settings.page(), told


def save_modules(page: Path, folder: Path) -> None:
    """Writes the page's Python that is to be saved; its first line says where."""
    for block in blocks(page, "python"):
        first = block.code.splitlines()[0]
        if re.fullmatch(r"# \w+\.py", first):
            (folder / first.removeprefix("# ")).write_text(block.code)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_command_is_understood(page, tmp_path, monkeypatch):
    save_modules(page, tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for block in [block for block in SHELL if block.page == page]:
        for words in commands_of(block):
            try:
                check(words)
            except (Wrong, UserError) as error:
                pytest.fail(f"{name(page)}: {' '.join(words)}: {error}")


@pytest.mark.parametrize(
    "mistaken",
    [
        "bin/train --lerning_rate=1",
        "bin/train --level_name=CartPole-v0.5",
        "python -m world_models.play --nothing",
        "python -m environments.remote serve --nothing",
        "NAME=1 .venv/bin/python experiment.py --batch_size=x",
        "python run_experiment_mm_raw.py --action=begin",
        "python run_experiment_mm_raw.py --workers_csv_path=sandbox/none.csv",
        "mpirun -H a,b -np 1 bin/train : -np 1 bin/train --lerning_rate=1",
        "mpirun -np 2 -H a,b",
        "bin/setup --nothing",
        "bin/test tests/nothing.py",
        "bin/nothing",
        "bin/lab serch lab/examples/first.yaml",
        "bin/lab train lab/examples/none.yaml",
        ".venv/bin/nothing",
        "python -m benchmarks nothing",
        "python -m benchmarks plan --nothing",
        "python -m sandbox.study_throughput --nothing",
        "python -m sandbox.study_throughput -- --lerning_rate=1",
        "nothing --at --all",
        "cd logs && bin/nothing",
    ],
)
def test_a_mistaken_command_would_be_found(mistaken):
    with pytest.raises((Wrong, UserError)):
        for words in commands(Block(PROJECT, "bash", mistaken)):
            check(words)


def test_the_readme_has_commands():
    assert sum(len(commands_of(block)) for block in SHELL if block.page.parent == PROJECT) > 8


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_list_of_hosts_can_be_read(page):
    for language in ("", "csv", "text"):
        for block in blocks(page, language):
            if block.code.startswith("job,ip,"):
                of_nodes = name(page) == "docs/slurm.md"
                assert hosts_csv.parse(block.code.encode(), name(page), of_nodes)


@pytest.mark.parametrize("block", PYTHON, ids=lambda block: name(block.page))
def test_every_piece_of_python_compiles_and_finds_what_it_imports(block):
    tree = ast.parse(block.code)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            module = __import__(node.module or "", fromlist=["_"])
            for one in node.names:
                assert hasattr(module, one.name), f"{node.module} has no {one.name}"
        elif isinstance(node, ast.Import):
            for one in node.names:
                __import__(one.name)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_link_leads_somewhere(page):
    for link in links(page):
        if link.startswith(("http://", "https://", "#")):
            continue
        target = (page.parent / link.partition("#")[0]).resolve()
        assert target.exists(), f"{name(page)}: {link}"
        assert target.is_relative_to(PROJECT)


def run(folder: Path, *flags: str) -> str:
    """experiment.py in a folder that holds what the guide told to save there."""
    done = subprocess.run(
        [sys.executable, str(PROJECT / "experiment.py"), *flags],
        cwd=folder,
        env={"PYTHONPATH": str(folder), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def saved(page: str, folder: Path) -> list[list[str]]:
    """Puts the page's first piece of Python where it says; returns the page's trainings."""
    code = blocks(DOCS / page, "python")[0].code
    (folder / code.splitlines()[0].removeprefix("# ")).write_text(code)
    lines = [words for shell in blocks(DOCS / page, "bash") for words in commands(shell)]
    return [words[1:] for words in lines if words[0] == "bin/train"]


def test_the_environment_of_the_guide_is_learned_and_filmed(tmp_path):
    training, playing = saved("own_environment.md", tmp_path)
    # The best way through it returns 0.91.
    run(tmp_path, *training, "--stop_at_return=0.88", "--env_threads=1", "--replay_share=0")
    told = run(tmp_path, *playing)
    [row] = [line for line in told.splitlines() if line.strip().startswith("my_game:Corridor ")]
    mean = float(row.split()[2])
    assert 0.8 < mean <= 0.91
    assert (tmp_path / "corridor.gif").stat().st_size > 1000
    assert (tmp_path / "logs" / "my_game-Corridor").is_dir()


def test_the_agent_of_the_guide_trains_and_plays(tmp_path):
    training, playing = saved("own_agent.md", tmp_path)
    run(tmp_path, *training, "--total_environment_frames=5000", "--env_threads=1")
    assert "my_agent:WideAgent" in run(tmp_path, *playing, "--test_num_episodes=2")


def test_the_algorithm_of_the_guide_learns(tmp_path):
    *_, training = saved("algorithms.md", tmp_path)
    told = run(tmp_path, *training, "--stop_at_return=40", "--env_threads=1", "--report_every_s=1")
    assert "Ended: the mean return is " in told and "return to come" in told


@functools.cache
def told_by_the_code() -> list[str]:
    """Every text in the code; what is put into it while it runs stands as `…`."""
    folders = (
        "agents",
        "algorithms",
        "cluster",
        "environments",
        "trainer",
        "transport",
        "vtrace",
        "world_models",
    )
    files = [path for folder in folders for path in (PROJECT / folder).rglob("*.py")]
    found = [(PROJECT / "bin" / "setup").read_text()]
    for path in [*files, *PROJECT.glob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                parts = [one.value if isinstance(one, ast.Constant) else "…" for one in node.values]
                found.append("".join(map(str, parts)))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
    return found


MESSAGES = re.findall(r"^### (.*)$", (DOCS / "troubleshooting.md").read_text(), re.MULTILINE)


@pytest.mark.parametrize("message", MESSAGES)
def test_every_message_that_is_explained_is_one_of_the_program(message):
    pieces = [re.escape(piece.strip()) for piece in message.split("…") if len(piece.strip()) > 2]
    wanted = re.compile(".*?".join(pieces), re.DOTALL)
    assert pieces and any(wanted.search(text) for text in told_by_the_code()), message


def test_many_messages_are_explained():
    assert len(MESSAGES) > 30


def test_every_figure_of_a_report_is_explained(tmp_path):
    """Those of a real run, one by one."""
    flags = ["--level_name=CartPole-v1", "--total_environment_frames=4000", "--logdir=run"]
    run(tmp_path, *flags, "--report_every_s=0.5", "--env_threads=1")
    reader = "from trainer.storage.records import read_metrics\nprint(*read_metrics('run')[-1])"
    names = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(reader)],
        cwd=tmp_path,
        env={"PYTHONPATH": str(PROJECT), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    explained = re.findall(r"^\| `(\w+)` \|", (DOCS / "watching.md").read_text(), re.MULTILINE)
    # Of several learners only, and of --evaluate_every_s.
    of_learners = {"team_wait_share", "learners_reached", "learners_apart", "gradients_not_sent"}
    evaluations = {"evaluation_return", "evaluation_frames", "evaluation_unfinished"}
    others = of_learners | evaluations
    assert {*names, *others} == set(explained)
