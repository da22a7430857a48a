"""What a script does before it makes its loggers."""

from easydict import EasyDict

from ding.framework.parallel import Parallel
from ding.utils import DistributedWriter


def ding_init(cfg: EasyDict) -> None:
    """Let loggers write into ``cfg.exp_name``: makes the writer of this process anew, in place of an earlier one.

    In a run of several processes node 0 writes what all of them log, so that there is one file with one curve per tag.
    """
    DistributedWriter.reset_root()
    writer = DistributedWriter.get_instance(cfg.exp_name)
    assert writer is not None
    router = Parallel()
    writer.plugin(router, is_writer=router.node_id == 0)
