"""The peers: what they are, and where their interpreters lie."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
SIDEKIT = HERE / "sidekit"
ENV_VARIABLE = "DING_BENCH_PEERS"
OWN = "ding"


@dataclass(frozen=True)
class Peer:
    """A peer. ``name`` is that of its environment and of its requirement file."""

    name: str
    title: str
    # Distributions whose versions a table shows.
    distributions: tuple[str, ...]


PEERS = {
    peer.name: peer
    for peer in (
        Peer("ding_ref", "DI-engine", ("DI-engine", "gym")),
        Peer("sb3", "stable-baselines3", ("stable-baselines3",)),
        Peer("sbx", "sbx", ("sbx-rl", "jax")),
        Peer("tianshou", "tianshou", ("tianshou",)),
        Peer("torchrl", "torchrl", ("torchrl", "tensordict")),
        Peer("cpprb", "cpprb", ("cpprb",)),
        Peer("rlox", "rlox", ("rlox",)),
        Peer("envpool", "envpool", ("envpool",)),
        Peer("rllib", "RLlib", ("ray",)),
        Peer("sample_factory", "sample-factory", ("sample-factory",)),
    )
}


class PeerMissing(RuntimeError):
    """A peer has no environment, or its installation failed; the message says which and why."""


def peers_dir() -> Path:
    """``$DING_BENCH_PEERS`` when set, else ``benchmarks/.peers``."""
    return Path(os.environ.get(ENV_VARIABLE) or HERE / ".peers").resolve()


def python_of(name: str) -> Path:
    """The interpreter of a peer; the running one for ``ding``.

    Raises:
        PeerMissing: there is none.
    """
    if name == OWN:
        return Path(sys.executable)
    if name not in PEERS:
        raise PeerMissing(f"unknown peer {name!r}; known are {', '.join(PEERS)}")
    python = peers_dir() / name / "bin" / "python"
    error = install_error(name)
    if error:
        raise PeerMissing(f"{PEERS[name].title} did not install: {error}")
    if not python.is_file():
        raise PeerMissing(f"{PEERS[name].title} is not installed; run python -m benchmarks.setup {name}")
    return python


def error_file(name: str) -> Path:
    """Where `benchmarks.setup` leaves the error of a failed installation."""
    return peers_dir() / f"{name}.error.txt"


def install_error(name: str) -> str:
    """The error of a failed installation, '' when there was none."""
    file = error_file(name)
    return file.read_text(encoding="utf-8").strip() if file.is_file() else ""


def distributions_of(name: str) -> tuple[str, ...]:
    """Distributions of a peer whose versions a table shows."""
    return PEERS[name].distributions if name in PEERS else ()


def without_paths(text: str) -> str:
    """``text`` with the folders of this machine replaced, fit to be recorded."""
    folders = {str(peers_dir()): "<peers>", str(ROOT): "<repo>", sys.prefix: "<venv>", str(Path.home()): "~"}
    for folder in sorted(folders, key=len, reverse=True):
        if len(folder) > 1:
            text = text.replace(folder, folders[folder])
    return text
