"""A machine with two GPUs, as far as nvidia-smi says."""

import os
from pathlib import Path

import pytest

NVIDIA_SMI = """#!/bin/sh
case "$*" in
  *--list-gpus*) echo "GPU 0: H (UUID: GPU-a)"; echo "GPU 1: H (UUID: GPU-b)" ;;
  *"-i GPU-a "*) echo the first ;;
  *"-i 1 "*|*"-i GPU-b "*) echo the second ;;
  *) echo any ;;
esac
"""


def path_with_nvidia_smi(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Puts it in front of the PATH; all of its GPUs may be used."""
    program = folder / "nvidia-smi"
    program.write_text(NVIDIA_SMI)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
