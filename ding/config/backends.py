"""``system_config.backend``: a single key that selects how a parallel run exchanges data and where its parts run."""

from collections.abc import Mapping
from dataclasses import dataclass

from easydict import EasyDict

from ding.config.checks.keys import refuse_misspelt
from ding.config.errors import ConfigValueError
from ding.utils import did_you_mean


@dataclass(frozen=True)
class Backend:
    """Settings implied by a backend.

    Attributes:
        comm: Type of ``create_config.comm_learner`` and ``.comm_collector``, replacing types of other backends.
        planes: Type of the planes of learners, collectors and coordinator.
        transport: Transport of the control messages; ``None``: HTTP.
    """

    comm: str
    planes: str
    transport: str | None = None


BACKENDS = {
    "flask_fs": Backend("flask_fs", "file"),
    "inproc": Backend("inproc", "inproc", "inproc"),
    "ray": Backend("flask_fs", "ray"),
}
RAY_ROLES = ("coordinator", "learner", "collector", "store", "shard")
RAY_KEYS = ("address", "init", *RAY_ROLES)


def choose_backend(create: EasyDict, system: EasyDict) -> None:
    """Apply the settings implied by ``system.backend``; without the key the configs are unchanged.

    Raises:
        ConfigValueError: The backend does not exist, or does not support the config.
        UnknownKeyError: A key of ``system_config.ray`` looks misspelt.
    """
    name = system.get("backend")
    section = system.get("ray", {})
    if not isinstance(section, Mapping) or not all(isinstance(section.get(role, {}), Mapping) for role in RAY_ROLES):
        raise ConfigValueError(f"system_config.ray must be a dict of {', '.join(RAY_KEYS)}, got {section!r}")
    refuse_misspelt(section, RAY_KEYS, "system_config.ray")
    if name is None:
        return
    if name not in BACKENDS:
        raise ConfigValueError(f"system_config.backend: there is no {name!r}.{did_you_mean(str(name), BACKENDS)}")
    if name == "inproc" and int(system.get("learner_gpu_num", 0)) > 1:
        raise ConfigValueError(
            "system_config.learner_gpu_num must be 0 or 1 with the backend 'inproc', which has one process"
        )
    chosen = BACKENDS[name]
    types = {backend.comm for backend in BACKENDS.values()}
    for part in ("comm_learner", "comm_collector"):
        if create[part].type in types:
            create[part].type = chosen.comm
        create[part].planes = chosen.planes
    own = system.setdefault("coordinator", EasyDict())
    own.update(planes=chosen.planes, transport=chosen.transport)
