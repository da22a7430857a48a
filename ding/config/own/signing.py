"""Verification that a run's record was made by this user."""

import hashlib
import hmac
import json
import logging
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

logger = logging.getLogger("ding.config")

_KEY_BYTES = 32


def mac_of(data: Mapping[str, Any], config: Path, make_key: bool) -> str:
    """Return the HMAC of a record with its config; without a key a random string, which never matches."""
    key = _key(make_key)
    if key is None or not config.is_file():
        return secrets.token_hex(_KEY_BYTES)
    text = json.dumps(data, sort_keys=True).encode() + b"\0" + hashlib.sha256(config.read_bytes()).digest()
    return hmac.new(key, text, hashlib.sha256).hexdigest()


def _key(make: bool) -> bytes | None:
    """Return this user's key, created at the first run with user code; ``None`` if it is unavailable."""
    state = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    path = Path(state) / "ding" / "runs.key"
    try:
        if make and not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            partial = path.with_name(f"{path.name}.{os.getpid()}")
            descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(secrets.token_bytes(_KEY_BYTES))
            try:
                os.link(partial, path)  # of two processes the first one wins
            except FileExistsError:
                logger.debug("%s was made by another process", path)
            finally:
                partial.unlink()
        key = path.read_bytes()
    except OSError as error:
        logger.debug("no key of this user's runs: %s", error)
        return None
    return key if len(key) == _KEY_BYTES else None
