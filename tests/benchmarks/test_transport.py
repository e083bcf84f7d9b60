"""The benchmark of transport runs and shows its figures beside the bare copy."""

from benchmarks import transport


def test_blocks_stand_beside_the_bare_copy(capsys, monkeypatch):
    flags = ["--unrolls=2", "--actors=1", "--seconds=0.2"]
    monkeypatch.setattr("sys.argv", ["transport", *flags])
    transport.main()
    *_, last = capsys.readouterr().out.splitlines()
    assert last.split()[:2] == ["2", "1"]
    assert all(float(figure.replace(",", "")) > 0 for figure in last.split())
