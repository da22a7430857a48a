"""Layout of an experiment folder.

::

    EXP/                       one run; with several seeds a folder of runs, EXP/seed<k>/
      total_config.py          the whole config
      ckpt/                    checkpoints (ckpt_<role>/ of a parallel run)
      log/                     curves (log/serial), text logs, error.txt
      result.json              result and end of the run
      eval/<time>/             an evaluation, with the files of its own run
"""

import itertools
import re
import shlex
import time
from pathlib import Path

from ding.config import ConfigValueError
from ding.config.own.record import read_run_code
from ding.utils.checkpoint import progress_of

#: Config files of a run; the first existing one is used.
CONFIGS = ("total_config.py", "policy_config.py", "eval_config.py")
# Names of checkpoints, best first: of agents and task runs, of serial runs, of parallel runs.
_CHECKPOINTS = ("eval.pth.tar", "ckpt_best.pth.tar", "ckpt_final.pth.tar", "final.pth.tar")
_BEST = _CHECKPOINTS[:2]
_SEED_SUFFIX = re.compile(r"_seed_?\d+$")


def seed_folder(exp_name: str, seed: int) -> str:
    """Return the experiment folder of one of several seeds; a seed at the end of the config's name is removed."""
    return f"{_SEED_SUFFIX.sub('', exp_name)}/seed{seed}"


def config_file(exp_dir: str | Path) -> Path:
    """Return the config saved by the run in an experiment folder.

    Raises:
        ConfigValueError: The folder does not exist, or contains no run.
    """
    folder = Path(exp_dir)
    for name in CONFIGS:
        if (folder / name).is_file():
            return folder / name
    runs = sorted(path.parent.name for path in folder.glob("*/total_config.py"))
    if runs:
        raise ConfigValueError(
            f"{exp_dir} holds the runs {', '.join(runs)}: name one of them, such as {folder / runs[0]}"
        )
    what = "is no experiment folder: it has no total_config.py" if folder.is_dir() else "does not exist"
    raise ConfigValueError(f"{exp_dir} {what}")


def experiment_of(checkpoint: str | Path) -> Path | None:
    """Return the experiment folder of a checkpoint in a ``ckpt`` folder, or ``None``."""
    folder = Path(checkpoint).parent
    return folder.parent if folder.name.startswith("ckpt") else None


def best_checkpoint(exp_dir: str | Path) -> Path | None:
    """Return the best checkpoint of an experiment folder, else that with the most train iterations, else ``None``."""
    folders = [folder for folder in sorted(Path(exp_dir).glob("ckpt*")) if folder.is_dir()]
    for name in _CHECKPOINTS:
        for folder in folders:
            if (folder / name).is_file():
                return folder / name
    return last_checkpoint(exp_dir)


def last_checkpoint(exp_dir: str | Path) -> Path | None:
    """Return the checkpoint of an experiment folder with the most train iterations; ``None`` without one."""
    return max(Path(exp_dir).glob("ckpt*/*.pth.tar"), key=progress_of, default=None)


def next_steps(exp_dir: str | Path) -> str:
    """Return the location of the best policy, and commands that use it; empty without a checkpoint."""
    best = best_checkpoint(exp_dir)
    if best is None:
        return ""
    folder = shlex.quote(str(exp_dir))
    steps = f"ding plot {folder}"
    code = read_run_code(exp_dir)
    if code.network is None or code.network.fits_config:
        steps = f"ding -m eval {folder}{code.command_option}, or {steps}"
    which = "best" if best.name in _BEST else "last"
    return f"; the {which} policy is in {best}; next: {steps}"


def eval_folder(exp_dir: str | Path) -> str:
    """Return a new folder name for an evaluation: ``EXP/eval/<time>``."""
    first = Path(exp_dir) / "eval" / time.strftime("%y%m%d_%H%M%S")
    names = itertools.chain([first], (first.with_name(f"{first.name}_{number}") for number in itertools.count(1)))
    return str(next(name for name in names if not name.exists()))
