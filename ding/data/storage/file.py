"""Objects and models in files: a handle is sent instead of what may be large."""

from abc import ABC, abstractmethod

from ding.data.roles import StateDict
from ding.data.safe_file import read_tree, write_tree
from ding.utils.file_helper import read_file, save_file
from ding.utils.nested import Tree

_KIND = "object"


class Storage(ABC):
    """Where one object lies.

    Args:
        path: its place.
    """

    def __init__(self, path: str) -> None:
        self.path = path

    @abstractmethod
    def save(self, data: object) -> None:
        """Write the object; what was there is replaced."""

    @abstractmethod
    def load(self) -> Tree:
        """Read the object; each call returns a copy of its own."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.path!r})"


class FileStorage(Storage):
    """One file in the ``safetensors`` format: arrays as they are, the rest as JSON; to read it runs nothing.

    Raises:
        SafeFileError: (on saving) something is no dict, list, tuple, tensor, array, text, number or ``None``; (on
            loading) the file is broken or foreign.
    """

    def save(self, data: object) -> None:
        write_tree(self.path, data, _KIND)

    def load(self) -> Tree:
        return read_tree(self.path, _KIND)


class FileModelStorage(Storage):
    """The state dict of a model in one file, in the format of ``torch.save``; it is read with ``weights_only=True``."""

    def save(self, data: object) -> None:
        save_file(self.path, data)

    def load(self) -> StateDict:
        state: StateDict = read_file(self.path)
        return state
