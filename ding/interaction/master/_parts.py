"""What the connections and the handlers of a master share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ding.interaction.base.common import Counters
from ding.interaction.base.transport import Client, Target
from ding.interaction.master._callbacks import CallbackThread
from ding.interaction.master._registry import Registry
from ding.interaction.master.base import MasterHooks


@dataclass(frozen=True)
class MasterParts:
    """The parts of a master.

    ``client_to`` and ``my_address`` raise ``ServiceClosed`` before the master is started and after it is shut down.
    """

    hooks: MasterHooks
    registry: Registry
    callbacks: CallbackThread
    counters: Counters
    clock: Callable[[], float]
    client_to: Callable[[Target, str], Client]
    my_address: Callable[[], str]
