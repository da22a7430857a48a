"""Curves, videos and plots of a task for Weights & Biases (extra ``wandb``; plots also need ``plot``)."""

import glob
import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from easydict import EasyDict

from ding.data.roles import EnvManager
from ding.framework.context import OfflineRLContext, OnlineRLContext
from ding.framework.middleware._roles import for_roles
from ding.framework.task import Role
from ding.torch_utils import to_ndarray
from ding.utils import read_file, require_extra

_SWITCHES = ("gradient_logger", "plot_logger", "video_logger", "action_logger", "return_logger", "vis_dataset")
_METRICS = ("q_value", "target q_value", "loss", "lr", "entropy", "target_q_value", "td_error")


@for_roles(Role.LEARNER)
def wandb_online_logger(
    record_path: str | None = None,
    cfg: Mapping[str, bool] | None = None,
    exp_config: Mapping[str, Any] | None = None,
    metric_list: Sequence[str] | None = None,
    env: EnvManager | None = None,
    model: torch.nn.Module | None = None,
    anonymous: bool = False,
    project_name: str = "default-project",
    run_name: str | None = None,
    wandb_sweep: bool = False,
) -> Callable[[OnlineRLContext], None]:
    """Return a middleware that logs a run to Weights & Biases over env steps.

    It writes ``ctx.wandb_url``. ``WANDB_MODE=offline`` keeps all data local.

    Args:
        record_path: Folder of videos and plots.
        cfg: Switches: ``gradient_logger`` (of ``model``), ``plot_logger`` (numbers), ``video_logger``,
            ``action_logger`` and ``return_logger`` (plots of an evaluation). Missing switches are off; ``None`` enables
            the numbers.
        exp_config: Config to display.
        metric_list: Keys of the policy's output to log.
        env: Env manager that records videos.
        model: Model whose gradients are logged.
        anonymous: Log without an account.
        project_name, run_name: Names of the project and the run.
        wandb_sweep: Whether a sweep has started the run.

    Raises:
        MissingExtraError: wandb is not installed.
    """
    switches = _switches(cfg, "plot_logger")
    run = _Run(switches, record_path, metric_list, env, model)
    run.begin(exp_config, anonymous, project_name, run_name, wandb_sweep)

    def log(ctx: OnlineRLContext) -> None:
        run.log(ctx, {"env step": ctx.env_step}, ctx.env_step)

    return log


@for_roles(Role.LEARNER)
def wandb_offline_logger(
    record_path: str | None = None,
    cfg: Mapping[str, bool] | None = None,
    exp_config: Mapping[str, Any] | None = None,
    metric_list: Sequence[str] | None = None,
    env: EnvManager | None = None,
    model: torch.nn.Module | None = None,
    anonymous: bool = False,
    project_name: str = "default-project",
    run_name: str | None = None,
    wandb_sweep: bool = False,
) -> Callable[[OfflineRLContext], None]:
    """Return a :func:`wandb_online_logger` for training on a data set, over trained env steps.

    It also logs ``ctx.info_for_logging``. The switch ``vis_dataset`` (on with ``cfg=None``) plots the data set at
    ``exp_config.dataset_path``, if any: two principal components of its observations, coloured by reward.

    Raises:
        MissingExtraError: wandb is not installed.
    """
    switches = _switches(cfg, "plot_logger", "vis_dataset")
    run = _Run(switches, record_path, metric_list, env, model)
    run.begin(exp_config, anonymous, project_name, run_name, wandb_sweep)
    dataset_path = (exp_config or {}).get("dataset_path")
    if switches.vis_dataset and dataset_path:
        run.show_dataset(dataset_path)

    def log(ctx: OfflineRLContext) -> None:
        run.log(ctx, {"train_epoch": ctx.train_epoch, **ctx.info_for_logging}, ctx.trained_env_step)

    return log


def _switches(cfg: Mapping[str, bool] | None, *on: str) -> EasyDict:
    given = dict.fromkeys(on, True) if cfg is None else cfg
    return EasyDict({name: bool(given.get(name, False)) for name in _SWITCHES})


class _Run:
    """Run of Weights & Biases."""

    def __init__(
        self,
        switches: EasyDict,
        record_path: str | None,
        metrics: Sequence[str] | None,
        env: EnvManager | None,
        model: torch.nn.Module | None,
    ) -> None:
        self._wandb: Any = require_extra("wandb", "wandb")
        self._on = switches
        self._record_path = record_path
        self._metrics = list(_METRICS if metrics is None else metrics)
        self._model = model
        if switches.video_logger and env is not None and record_path is not None:
            env.enable_save_replay(record_path)

    def begin(
        self, config: Mapping[str, Any] | None, anonymous: bool, project: str, name: str | None, is_sweep: bool
    ) -> None:
        """Start the run."""
        settings: dict[str, Any] = {"project": project, "config": config, "name": name}
        settings |= {"reinit": None if is_sweep else True, "anonymous": "must" if anonymous else None}
        self._wandb.init(**{key: value for key, value in settings.items() if value is not None})
        if self._on.gradient_logger and self._model is not None:
            self._wandb.watch(self._model, log="all", log_freq=100, log_graph=True)

    def log(self, ctx: Any, counts: Mapping[str, Any], step: int) -> None:
        """Log the context's values of this iteration."""
        if not ctx.wandb_url and self._wandb.run is not None:
            ctx.wandb_url = self._wandb.run.url or ""
        data = self._numbers(ctx.train_output) if self._on.plot_logger else {}
        if not math.isinf(ctx.eval_value):
            if self._on.plot_logger:
                data |= {"episode return mean": ctx.eval_value, "train iter": ctx.train_iter, **counts}
                for end in ("min", "max", "std"):
                    if hasattr(ctx, f"eval_value_{end}"):
                        data[f"episode return {end}"] = getattr(ctx, f"eval_value_{end}")
            data |= self._pictures(ctx.eval_output, step)
        if data:
            self._wandb.log(data=data, step=step)

    def _numbers(self, train_output: Any) -> dict[str, Any]:
        """Return the metrics of the policy, averaged over several updates."""
        outputs = [train_output] if isinstance(train_output, Mapping) else list(train_output or ())
        while outputs and not isinstance(outputs[0], Mapping):
            outputs = [one for part in outputs for one in part]
        shown = {name: [one[name] for one in outputs if name in one] for name in self._metrics}
        return {name: np.mean(to_ndarray(values), axis=0) for name, values in shown.items() if values}

    # Plots of an evaluation.

    def _pictures(self, eval_output: Mapping[str, Any], step: int) -> dict[str, Any]:
        data: dict[str, Any] = {}
        if self._on.video_logger:
            data |= self._video(eval_output.get("replay_video"))
        logits = [row["logit"] for row in _last_outputs(eval_output) if isinstance(row, Mapping) and "logit" in row]
        if self._on.action_logger and logits:
            probabilities = torch.as_tensor(np.stack([to_ndarray(logit) for logit in logits])).softmax(-1).numpy()
            data["action"] = self._bars(f"{step}_action.gif", list(probabilities), None)
        if self._on.return_logger and eval_output.get("episode_return"):
            returns = np.asarray(eval_output["episode_return"], dtype=np.float64).reshape(-1)
            counts, edges = np.histogram(returns, bins=5, range=(returns.min() - 50, returns.max() + 50))
            data["return distribution"] = self._bars(f"{step}_return.gif", [counts / len(returns)], edges[:-1])
        return data

    def _video(self, replay_video: np.ndarray | None) -> dict[str, Any]:
        if replay_video is not None:
            return {"replay_video": self._wandb.Video(replay_video.astype(np.uint8), fps=60)}
        # The newest file may still be incomplete.
        files = sorted(glob.glob(os.path.join(self._record_path or "", "*.mp4")), key=os.path.getmtime)[:-1]
        return {"video": self._wandb.Video(files[-1], format="mp4")} if files else {}

    def _bars(self, name: str, frames: list[np.ndarray], places: np.ndarray | None) -> object:
        """Return an animation with one bar chart per frame."""
        require_extra("matplotlib", "plot")
        from matplotlib.animation import FuncAnimation
        from matplotlib.figure import Figure

        figure = Figure()
        axes = figure.add_subplot()
        at = np.arange(len(frames[0])) if places is None else places
        width = 0.8 if places is None else float(places[1] - places[0]) * 0.9

        def draw(frame: int) -> list[Any]:
            axes.clear()
            axes.set_ylim(0, 1)
            return list(axes.bar(at, frames[frame], width=width))

        os.makedirs(self._record_path or ".", exist_ok=True)
        path = os.path.join(self._record_path or ".", name)
        FuncAnimation(figure, draw, frames=len(frames), blit=False).save(path, writer="pillow", fps=4)
        return self._wandb.Video(path, format="gif")

    def show_dataset(self, path: str) -> None:
        """Log a plot of the observations of a data set."""
        require_extra("matplotlib", "plot")
        from matplotlib.figure import Figure

        obs, reward = _read_dataset(path)
        centred = torch.from_numpy(obs - obs.mean(0))
        _, _, directions = torch.linalg.svd(centred, full_matrices=False)
        places = (centred @ directions[:2].T).numpy()
        figure = Figure()
        figure.add_subplot().scatter(places[:, 0], places[:, -1], c=reward, s=2)
        os.makedirs(self._record_path or ".", exist_ok=True)
        picture = os.path.join(self._record_path or ".", "dataset.png")
        figure.savefig(picture)
        self._wandb.log({"dataset": self._wandb.Image(picture)})


def _last_outputs(eval_output: Mapping[str, Any]) -> list[Any]:
    """Return the policy's outputs at the last step, or at each step of the first recorded episode."""
    output = eval_output.get("output") or []
    return output[0] if output and isinstance(output[0], list) else list(output)


def _read_dataset(path: str) -> tuple[np.ndarray, np.ndarray]:
    """Return float32 observations ``[N, D]`` and rewards ``[N]`` of an HDF5 file or a file of ``naive_save``."""
    if path.endswith((".h5", ".hdf5")):
        with require_extra("h5py", "hdf5").File(path, "r") as file:
            obs, reward = file["obs"][:], file["reward"][:]
    else:
        rows = read_file(path)
        obs, reward = (np.stack([to_ndarray(row[key]) for row in rows]) for key in ("obs", "reward"))
    return obs.reshape(len(obs), -1).astype(np.float32), np.asarray(reward, dtype=np.float32).reshape(len(obs), -1)[
        :, 0
    ]
