from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

sys.path.insert(
    0, str(Path(__file__).parent)
)  # tiny.py is a module of these tests and the script of their second process

import tiny


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def base_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a tiny model that thinks for a random time and knows some answers."""
    folder = tmp_path_factory.mktemp("models") / "base"
    tiny.make_base(folder)
    return folder


@pytest.fixture(scope="session")
def finished_run(base_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was never interrupted. Tests only read it."""
    return tiny.run_tiny(tiny.tiny_config(base_model, tmp_path_factory.mktemp("runs") / "finished"))
