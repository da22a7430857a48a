"""One role of a run that nobody supervises: ``python chaos_role.py FOLDER ROLE JSON``, for runs behind proxies.

JSON: changes of the three configs by dotted path, ``port`` to listen on, ``address`` that is told to others, and
``coordinator``, where workers find that.
"""

import json
import os
import sys

from chaos_parts import put

from ding.config import compile_config_parallel
from ding.config.utils import parallel_test_create_config, parallel_test_main_config, parallel_test_system_config
from ding.entry import _roles
from ding.entry._role_local import LocalContext
from ding.entry.parallel_entry import set_folder


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
    cfg = compile_config_parallel(*configs.values(), seed=0, save_cfg=False, renew_dir=False)
    for key in ("path_data", "path_policy"):
        set_folder(cfg, key, os.path.join(folder, key.removeprefix("path_")))
    cfg.system[role].update(port=options["port"], my_address=options["address"])
    peers = {"coordinator": {"address": options["coordinator"]}} if "coordinator" in options else {}
    payload = {"cfg": cfg, "limits": {}, "patience_s": 60.0}
    context = LocalContext(role, payload, folder, os.environ["DING_RUN_TOKEN"], peers, show)
    target = getattr(_roles, {"coordinator": "coordinate", "learner0": "learn"}.get(role, "collect"))
    with context.running():
        target(context)


if __name__ == "__main__":
    main(*sys.argv[1:])
