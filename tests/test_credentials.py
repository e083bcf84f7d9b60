"""Credentials of a run: made once, private, and refused if they are damaged."""

import os
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import credentials
from credentials import ACTOR, LEARNER
from tests.cluster.slurm.full_disk import full
from user_error import NotWritten, UserError


def text(folder: Path, name: str) -> str:
    return (folder / name).read_text()


def refusal(path: Path, of_learner: bool) -> str:
    with pytest.raises(UserError) as error:
        credentials.read(str(path), of_learner)
    assert "\n" not in str(error.value)
    assert str(error.value).startswith(f"--credentials={path}: ")
    return str(error.value)


def secrets_of(folder: Path) -> list[str]:
    """What must appear nowhere: the lines of the private key, and the token."""
    blocks = credentials.BLOCK.findall(text(folder, LEARNER))
    return [line for name, body in blocks if name != "CERTIFICATE" for line in body.split()]


def test_learners_and_actors_get_files_that_belong_together_and_only_learners_the_key(tmp_path):
    folder = tmp_path / "run" / "credentials"
    credentials.make(folder)
    learner = credentials.read(str(folder / LEARNER), of_learner=True)
    actor = credentials.read(str(folder / ACTOR), of_learner=False)
    assert (actor.certificate, actor.token) == (learner.certificate, learner.token)
    assert actor.fingerprint == learner.fingerprint
    assert b"PRIVATE KEY" in learner.key and not actor.key
    assert "PRIVATE KEY" not in text(folder, ACTOR)
    assert len(learner.token) == 32
    assert {path.name for path in folder.iterdir()} == {LEARNER, ACTOR}
    assert folder.stat().st_mode & 0o777 == 0o700
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in folder.iterdir())


def test_only_their_owner_can_read_them_whatever_the_umask(tmp_path):
    before = os.umask(0)
    try:
        credentials.make(tmp_path / "credentials")
    finally:
        os.umask(before)
    for path in (tmp_path / "credentials").iterdir():
        assert path.stat().st_mode & 0o777 == 0o600


def test_existing_files_are_kept_and_a_missing_actor_s_file_is_made_again(tmp_path):
    credentials.make(tmp_path)
    before = text(tmp_path, LEARNER), text(tmp_path, ACTOR)
    credentials.make(tmp_path)
    (tmp_path / ACTOR).unlink()
    credentials.make(tmp_path)
    assert (text(tmp_path, LEARNER), text(tmp_path, ACTOR)) == before
    (tmp_path / LEARNER).unlink()
    credentials.make(tmp_path)
    assert text(tmp_path, LEARNER) != before[0]
    assert credentials.read(str(tmp_path / ACTOR), of_learner=False).fingerprint == (
        credentials.read(str(tmp_path / LEARNER), of_learner=True).fingerprint
    )


def test_an_actors_file_follows_a_learners_that_was_copied_here(tmp_path):
    credentials.make(tmp_path / "first")
    credentials.make(tmp_path / "second")  # as on a host where learners were started before
    shutil.copy2(tmp_path / "first" / LEARNER, tmp_path / "second" / LEARNER)
    credentials.make(tmp_path / "second")
    assert text(tmp_path / "second", ACTOR) == text(tmp_path / "first", ACTOR)
    assert (tmp_path / "second" / ACTOR).stat().st_mode & 0o777 == 0o600


def test_learners_that_start_together_get_the_same(tmp_path):
    def learner(_: int) -> str:
        credentials.make(tmp_path / "credentials")
        one = tmp_path / "credentials" / LEARNER
        other = tmp_path / "credentials" / ACTOR
        mine = credentials.read(str(one), of_learner=True).fingerprint
        assert credentials.read(str(other), of_learner=False).fingerprint == mine
        return mine

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(learner, range(8)))) == 1
    assert len(list((tmp_path / "credentials").iterdir())) == 2


def test_every_run_has_its_own(tmp_path):
    for name in ("one", "other"):
        credentials.make(tmp_path / name)
    one, other = (
        credentials.read(str(tmp_path / name / ACTOR), of_learner=False)
        for name in ("one", "other")
    )
    assert one.token != other.token and one.certificate != other.certificate


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o644])
def test_a_file_that_others_may_read_or_change_is_refused(tmp_path, mode):
    credentials.make(tmp_path)
    (tmp_path / ACTOR).chmod(mode)
    error = refusal(tmp_path / ACTOR, of_learner=False)
    assert f"(mode {mode:04o})" in error and f"chmod 600 {tmp_path / ACTOR}" in error


def test_the_error_for_a_missing_file_says_where_to_get_it(tmp_path):
    assert "there is no such file. A learner makes it" in refusal(tmp_path / "x", False)
    tmp_path.joinpath("folder").mkdir(mode=0o700)
    assert "cannot be read (Is a directory)" in refusal(tmp_path / "folder", False)


def test_each_job_gets_its_own_file_and_no_other(tmp_path):
    credentials.make(tmp_path)
    error = refusal(tmp_path / ACTOR, of_learner=True)
    assert "it contains no PRIVATE KEY. An actor's file is not enough for a learner" in error
    assert "holds the learners' private key" in refusal(tmp_path / LEARNER, of_learner=False)


def damaged(whole: str, how: str) -> str:
    if how == "empty":
        return ""
    if how == "random":
        return os.urandom(1000).decode("latin-1")
    if how == "cut":
        return whole[: len(whole) // 2]
    if how == "token":
        return re.sub(r"(TOKEN-----\n).{8}", r"\1", whole)
    # One letter of the certificate.
    middle = whole.index("CERTIFICATE-----\n") + 100
    return whole[:middle] + ("!" if whole[middle] != "!" else "A") + whole[middle + 1 :]


@pytest.mark.parametrize("how", ["empty", "random", "cut", "token", "certificate"])
@pytest.mark.parametrize("of_learner", [True, False])
def test_a_damaged_file_is_reported_in_a_line_that_reveals_nothing(tmp_path, how, of_learner):
    credentials.make(tmp_path)
    path = tmp_path / (LEARNER if of_learner else ACTOR)
    hidden = secrets_of(tmp_path)
    path.write_bytes(damaged(path.read_text(), how).encode("latin-1"))
    error = refusal(path, of_learner)
    assert not any(line in error for line in hidden)


@pytest.mark.parametrize("how", ["empty", "random", "cut", "token", "certificate"])
def test_no_actor_s_file_is_made_from_a_damaged_learner_s_file(tmp_path, how):
    credentials.make(tmp_path)
    (tmp_path / ACTOR).unlink()
    path = tmp_path / LEARNER
    path.write_bytes(damaged(path.read_text(), how).encode("latin-1"))
    with pytest.raises(UserError) as error:
        credentials.make(tmp_path)
    assert str(error.value).startswith(f"--credentials={path}: ")
    assert not (tmp_path / ACTOR).exists()


def test_a_key_and_a_certificate_of_two_runs_are_refused(tmp_path):
    credentials.make(tmp_path / "one")
    credentials.make(tmp_path / "other")
    one, other = (text(tmp_path / name, LEARNER) for name in ("one", "other"))
    mixed = tmp_path / "one" / LEARNER
    mixed.write_text(one.partition("-----BEGIN CERT")[0] + other[other.index("-----BEGIN CERT") :])
    assert "damaged" in refusal(mixed, of_learner=True)


def test_nothing_reveals_their_content_by_accident(tmp_path):
    credentials.make(tmp_path)
    for name in (LEARNER, ACTOR):
        found = credentials.read(str(tmp_path / name), of_learner=name == LEARNER)
        shown = repr(found) + str(found) + f"{found}" + found.fingerprint
        assert found.token.hex() not in shown and repr(found.token) not in shown
        assert not any(line in shown for line in secrets_of(tmp_path))


def test_a_folder_that_cannot_be_written_is_reported(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="credentials cannot be written to .*Choose another"):
        credentials.make(tmp_path / "file" / "credentials")


def test_a_full_disk_is_reported_as_one(tmp_path, monkeypatch):
    monkeypatch.setattr(credentials, "_write", lambda *_, **__: full())
    with pytest.raises(NotWritten, match="No space left on device.*Make room"):
        credentials.make(tmp_path / "credentials")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give a file away")
def test_a_file_of_another_user_is_refused(tmp_path):
    credentials.make(tmp_path)
    os.chown(tmp_path / ACTOR, 12345, 12345)
    told = refusal(tmp_path / ACTOR, of_learner=False)
    assert "it belongs to another user (id 12345)" in told
