"""The rows of a run, and its agents: which learners train which, as column ``agent`` says."""

from collections.abc import Sequence
from pathlib import Path

from algorithms.feeding import Gradients
from cluster.inventory import hosts_csv
from cluster.inventory.hosts_csv import Row
from cluster.model import Member
from cluster.options import Options
from trainer.settings import seating
from trainer.settings.config import Settings
from user_error import UserError


def with_agents(rows: Sequence[Row], settings: Settings, csv: str) -> Settings:
    """The settings with the agents that the CSV names, in its order unless ``--agents`` has one."""
    learners = [row for row in rows if row.job == "learner"]
    named = list(dict.fromkeys(row.agent for row in learners if row.agent))
    asked = settings.level.agent_names
    if not named and not asked:
        seating.check(settings.level)
        return settings
    if not named:
        raise UserError(
            f"--agents={settings.level.agents}: {csv} does not say which learner trains which; "
            "give it a column agent, with a name in each learner's row."
        )
    without = [row.line for row in learners if not row.agent]
    if without:
        raise UserError(
            f"{csv}:{without[0]}: column agent: is empty, but other learners train "
            f"{' and '.join(named)}. Name an agent in each learner's row, or in none."
        )
    if asked and set(asked) != set(named):
        raise UserError(
            f"--agents={settings.level.agents}: column agent of {csv} names {', '.join(named)}; "
            "expected the same agents, or leave the flag out."
        )
    settings = settings.replace(agents=settings.level.agents or ",".join(named))
    seating.check(settings.level)
    return settings


def teams(learners: Sequence[Member]) -> dict[str, list[Member]]:
    """The learners of each agent, which train it together; of "" if there is only one agent."""
    found: dict[str, list[Member]] = {}
    for learner in learners:
        found.setdefault(learner.row.agent, []).append(learner)
    return found


def refuse(rows: Sequence[Row], settings: Settings, backend: str) -> None:
    """For backends whose learners are one team."""
    if settings.level.agents or any(row.agent for row in rows):
        raise UserError(
            f"--backend={backend} starts the learners of one agent only. For several agents use "
            "--backend=ssh with a CSV, or train them on one machine without a cluster."
        )
    several = sum(row.job == "learner" for row in rows) > 1
    if several and isinstance(settings.algorithm.feeding, Gradients):
        raise UserError(
            f"--backend={backend} starts several learners as one team under MPI, and those of "
            f"--algorithm={settings.program.algorithm} exchange gradients without it. Use "
            "--backend=ssh with a CSV, start them by hand with --peers, or give one learner."
        )


def rows_of(options: Options) -> list[Row]:
    """The rows to start on nodes: of the CSV, or those that --learners and --actors stand for."""
    if options.workers_csv_path:
        if options.learners or options.actors:
            raise UserError(
                "--workers_csv_path lists learners and actors, and --learners and --actors count "
                "them: give only one of these."
            )
        return hosts_csv.read(Path(options.workers_csv_path), of_nodes=True)
    if not options.learners:
        raise UserError(
            f"--backend={options.backend}: say what to start, by --learners=1 --actors=8, or by a "
            "CSV with --workers_csv_path."
        )
    actors = Row(2, "actor", "", 0, count=options.actors)
    return [Row(1, "learner", "", 0)] * options.learners + [actors] * bool(options.actors)
