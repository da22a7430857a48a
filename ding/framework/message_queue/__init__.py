"""Message queues between the processes of a run, selected by registered name."""

from ding.utils import MQ_REGISTRY
from ding.utils.exports import lazy_exports, register_lazily

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)

for _alias in ("socket", "nng"):
    register_lazily(MQ_REGISTRY, _alias, f"{__name__}.socket_mq:SocketMQ")
register_lazily(MQ_REGISTRY, "redis", f"{__name__}.redis:RedisMQ")
