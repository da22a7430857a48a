"""Commanders decide what the other workers do next."""

from ding.worker.coordinator.base_serial_commander import BaseSerialCommander

__all__ = ["BaseSerialCommander"]
