"""The benchmark of transport runs and shows both transports' figures beside the bare copy."""

from benchmarks import transport


def test_blocks_stand_beside_the_bare_copy(capsys, monkeypatch):
    flags = ["--unrolls=2", "--actors=1", "--seconds=0.2"]
    monkeypatch.setattr("sys.argv", ["transport", *flags])
    transport.main()
    *_, plain, secure = capsys.readouterr().out.splitlines()
    assert plain.split()[:3] == ["2", "tensorflow", "1"]
    assert secure.split()[:3] == ["2", "secure", "1"]
    for line in (plain, secure):
        assert all(float(figure.replace(",", "")) > 0 for figure in line.split()[2:])
