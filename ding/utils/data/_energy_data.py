"""Transitions of a D4RL file for QGPO, with diffusion actions for their states."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset

from ding.utils.data.dataset import D4RLDataset


class QGPOD4RLDataset(Dataset[Any]):
    """The transitions of a D4RL file under the names of QGPO.

    An item is a dict of tensors: ``s`` ``[O]``, ``a`` ``[A]``, ``r`` ``[1]``, ``s_`` ``[O]``, ``d`` ``[1]`` (whether
    ``s_`` is terminal), and ``fake_a``, ``fake_a_`` ``[M, A]``, actions of the diffusion in ``s`` and ``s_``, which are
    0 until ``qgpo_support_data_generator`` has drawn them.

    Rewards are scaled so that the returns of the episodes span 1000, those of ``antmaze`` are lowered by 1.

    Args:
        cfg: ``env_id``, ``data_path`` (the file, or the folder with that of the env), and optionally ``reward_scale``,
            by which rewards are multiplied instead.
        device: where the tensors are.

    Attributes:
        states, actions, next_states: float32 ``[N, ...]``. rewards, is_finished: float32 ``[N, 1]``.
        fake_actions, fake_next_actions: float32 ``[N, M, A]``, or None.
        len: N.

    Raises:
        MissingExtraError: h5py is not installed.
        FileNotFoundError: there is no such file.
        DatasetError: the file is damaged, lacks a field, or holds NaN or infinity.
    """

    def __init__(self, cfg: Mapping[str, Any], device: torch.device | str = "cpu") -> None:
        env_id, scale = str(cfg["env_id"]), cfg.get("reward_scale")
        norm = "iql_antmaze" if "antmaze" in env_id else "iql_locomotion"
        env = {"env_id": env_id, "reward_norm": norm if scale is None else None}
        rows = D4RLDataset({"policy": {"collect": {"data_path": cfg["data_path"]}}, "env": env})
        columns = {
            key: torch.as_tensor(np.asarray(value), dtype=torch.float32, device=device)
            for key, value in rows.rows_at(slice(None)).items()
        }
        self.states, self.actions, self.next_states = (columns[key] for key in ("obs", "action", "next_obs"))
        self.rewards, self.is_finished = (columns[key].reshape(-1, 1) for key in ("reward", "done"))
        self.len = len(self.states)
        self.fake_actions: torch.Tensor | None = None
        self.fake_next_actions: torch.Tensor | None = None
        if scale is not None:
            self.rewards = self.rewards * float(scale)

    def __len__(self) -> int:
        return self.len

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {key: column[0] for key, column in self.rows_at(torch.tensor([index % self.len])).items()}

    def rows_at(self, places: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return the transitions at an int64 tensor of positions, as columns ``[B, ...]``."""
        columns = {
            "s": self.states, "a": self.actions, "r": self.rewards, "s_": self.next_states, "d": self.is_finished,
            "fake_a": self.fake_actions, "fake_a_": self.fake_next_actions,
        }  # fmt: skip
        none = torch.zeros(len(places), device=self.states.device)
        return {key: none if column is None else column[places] for key, column in columns.items()}
