"""What masters and slaves are built from."""

from ding.interaction.base.app import (
    ResponsibleException,
    failure_response,
    get_values_from_response,
    responsible,
    success_response,
)
from ding.interaction.base.common import (
    ControllableContext,
    ControllableService,
    default_func,
    random_token,
    translate_dict_func,
)
from ding.interaction.base.network import (
    HttpEngine,
    get_host_ip,
    get_http_engine_class,
    join_http_address,
    split_http_address,
)
from ding.interaction.base.threading import DblEvent
from ding.interaction.base.tls import TlsConfig
from ding.interaction.base.token import read_run_token, resolve_run_token, write_run_token
from ding.interaction.base.transport import Transport

__all__ = [
    "ControllableContext",
    "ControllableService",
    "DblEvent",
    "HttpEngine",
    "ResponsibleException",
    "TlsConfig",
    "Transport",
    "default_func",
    "failure_response",
    "get_host_ip",
    "get_http_engine_class",
    "get_values_from_response",
    "join_http_address",
    "random_token",
    "read_run_token",
    "resolve_run_token",
    "responsible",
    "split_http_address",
    "success_response",
    "translate_dict_func",
    "write_run_token",
]
