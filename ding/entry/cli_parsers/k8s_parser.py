"""``ditask`` on Kubernetes: one call per pod."""

from collections.abc import Mapping
from typing import Any

from ding.entry.cli_parsers.scheduled import ScheduledTask, numbers_of, variable, whole_number

FIRST_PORT = 50515


class K8SParser(ScheduledTask):
    """Options of this pod: number ``DI_RANK`` of the comma-separated hosts ``DI_NODES``.

    Raises:
        ConfigValueError: A variable is missing, or they do not match.
    """

    def __init__(self, platform_spec: "Mapping[str, Any] | None" = None, **kwargs: Any) -> None:
        hosts = [host.strip() for host in variable("DI_NODES").split(",")]
        first = numbers_of(kwargs.get("ports") or FIRST_PORT)[0]
        super().__init__(hosts, [first] * len(hosts), whole_number("DI_RANK"), platform_spec, kwargs)


def k8s_parser(platform_spec: "Mapping[str, Any] | None", **kwargs: Any) -> dict[str, Any]:
    """Return the options of ``ditask`` for this pod, see :class:`K8SParser`."""
    return K8SParser(platform_spec, **kwargs).parse()
