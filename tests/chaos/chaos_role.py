"""One role of a run that nobody supervises: ``python chaos_role.py FOLDER ROLE JSON``, for runs behind proxies.

JSON: changes of the three configs by dotted path, ``port`` to listen on, ``address`` that is told to others, and
``coordinator``, where workers find that.
"""

import json
import os
import sys

from chaos_main import put

from ding.config import compile_config_parallel
from ding.config.utils import parallel_test_create_config, parallel_test_main_config, parallel_test_system_config
from ding.entry.parallel.coordinator import coordinate
from ding.entry.parallel.places import set_folder
from ding.entry.parallel.workers import collect, learn
from ding.parallel.launch import Role, run_here


def show(status):
    with open("status.json.new", "w") as file:
        json.dump(status, file)
    os.replace("status.json.new", "status.json")


def main(folder, role, options):
    os.chdir(folder)
    options = json.loads(options)
    configs = {
        "main": parallel_test_main_config,
        "create": parallel_test_create_config,
        "system": parallel_test_system_config,
    }
    for path, value in options["config"].items():
        name, _, rest = path.partition(".")
        put(configs[name], rest, value)
    cfg = compile_config_parallel(*configs.values(), seed=0, save_cfg=False, renew_dir=False, free_ports=False)
    for key in ("path_data", "path_policy"):
        set_folder(cfg, key, os.path.join(folder, key.removeprefix("path_")))
    cfg.system[role].update(port=options["port"], my_address=options["address"])
    peers = {"coordinator": {"address": options["coordinator"]}} if "coordinator" in options else {}
    payload = {"cfg": cfg, "limits": {}, "patience_s": 60.0, "first_contact_s": options.get("first_contact_s")}
    target = {"coordinator": coordinate, "learner0": learn}.get(role, collect)
    run_here(Role(role, target, payload), os.environ["DING_RUN_TOKEN"], peers, folder, show)


if __name__ == "__main__":
    main(*sys.argv[1:])
