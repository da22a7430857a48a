"""Initialisation of a script before it creates loggers."""

from easydict import EasyDict

from ding.framework.parallel import Parallel
from ding.utils import DistributedWriter


def ding_init(cfg: EasyDict) -> None:
    """Redirect loggers to ``cfg.exp_name`` by replacing the writer of this process.

    In a run of several processes node 0 writes the values of all, so that there is one file with one curve per tag.
    """
    DistributedWriter.reset_root()
    writer = DistributedWriter.get_instance(cfg.exp_name)
    assert writer is not None
    router = Parallel()
    writer.plugin(router, is_writer=router.node_id == 0)
