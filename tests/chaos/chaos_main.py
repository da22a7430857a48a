"""A parallel run in a process of its own, for the tests to hurt: ``python chaos_main.py FOLDER JSON``.

The working directory is FOLDER. ``status.json`` in it always holds the newest status of the run, with the process ids.
JSON: ``seed``, ``limits`` (keyword arguments of the pipeline), ``config_file`` (else the test config) and changes of
the three configs by dotted path.
"""

import json
import os
import sys
from dataclasses import asdict

from easydict import EasyDict

from ding.config.utils import parallel_test_create_config, parallel_test_main_config, parallel_test_system_config
from ding.entry import parallel_pipeline
from ding.entry.parallel_entry import load_parallel_input


def put(config, path, value):
    """Set ``config[a][b]...`` for the path ``a.b...``."""
    *sections, key = path.split(".")
    for section in sections:
        config = config.setdefault(section, EasyDict())
    config[key] = EasyDict(value) if isinstance(value, dict) else value


class FileView:
    """Writes the newest status of the run into a file."""

    def start(self, status):
        self.update(status)

    def update(self, status):
        processes = {name: asdict(process) for name, process in status.processes.items()}
        self._write({"status": dict(status.report), "processes": processes})

    def finish(self, sentence, ok):
        self._write({"end": sentence, "ok": ok})

    def _write(self, value):
        with open("status.json.new", "w") as file:
            json.dump(value, file)
        os.replace("status.json.new", "status.json")


def main(folder, changes):
    os.chdir(folder)
    changes = json.loads(changes)
    configs = {
        "main": parallel_test_main_config,
        "create": parallel_test_create_config,
        "system": parallel_test_system_config,
    }
    if "config_file" in changes:
        configs = dict(zip(configs, load_parallel_input(changes["config_file"])))
    for path, value in changes.get("config", {}).items():
        name, _, rest = path.partition(".")
        put(configs[name], rest, value)
    parallel_pipeline(tuple(configs.values()), changes.get("seed", 0), view=FileView(), **changes.get("limits", {}))


if __name__ == "__main__":
    main(*sys.argv[1:])
