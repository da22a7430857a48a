"""Design patterns as metaclasses."""

from __future__ import annotations

import threading
from typing import Any, ClassVar


class SingletonMetaclass(type):
    """Each class of this metaclass has one object: ``Class()`` gives it, and so does ``Class.instance`` afterwards."""

    instances: ClassVar[dict[type, Any]] = {}
    _making: ClassVar[threading.RLock] = threading.RLock()

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        with SingletonMetaclass._making:
            if cls not in SingletonMetaclass.instances:
                SingletonMetaclass.instances[cls] = super().__call__(*args, **kwargs)
                cls.instance = SingletonMetaclass.instances[cls]
            return SingletonMetaclass.instances[cls]
