"""Final results of a run as files."""

import json
import os
from collections.abc import Callable
from typing import Any

from ding.framework.context import Context
from ding.framework.task import current_task
from ding.utils.file_helper import atomic_write, save_file

_COUNTERS = ("total_step", "train_iter", "last_eval_iter", "env_step", "env_episode", "trained_env_step")


def final_ctx_saver(name: str) -> Callable[[Context], None]:
    """Return a middleware that writes ``result.pkl`` and ``result.json`` to the folder ``name`` when the task ends.

    Both contain the counters of the context and ``eval_value``, the mean return of the last evaluation. Read the first
    with ``ding.utils.read_file``.
    """

    def save(ctx: Any) -> None:
        if not current_task().finish:
            return
        result = {key: getattr(ctx, key) for key in _COUNTERS if hasattr(ctx, key)}
        result["eval_value"] = float(ctx.last_eval_value)
        os.makedirs(name, exist_ok=True)
        save_file(os.path.join(name, "result.pkl"), result)
        with atomic_write(os.path.join(name, "result.json")) as file:
            file.write(json.dumps(result, indent=1).encode())

    return save
