"""API keys: a file of their hashes, made and read here. The keys themselves are shown once, when they are made.

    {"keys": [{"name": "alice", "sha256": "9f86d0...", "per_minute": 60, "characters": 500000}]}

A key is 192 random bits, so a plain SHA-256 cannot be reversed by guessing, and no salt is needed.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from harken.errors import UserError
from harken.files import atomic_write


class ApiKey(BaseModel):
    """One key, without itself."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(min_length=1, description="whose it is; shown in logs and metrics")
    sha256: str = Field(pattern="^[0-9a-f]{64}$", description="hash of the key")
    per_minute: int | None = Field(None, ge=1, description="requests a minute; None: the server's limit")
    characters: int | None = Field(None, ge=1, description="characters in all until the server is restarted")


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")

    keys: list[ApiKey] = []


@dataclass(frozen=True)
class Client:
    """Who sends a request: the holder of a key, or an address."""

    name: str
    per_minute: int | None = None
    characters: int | None = None


def read_keys(path: Path) -> _File:
    """The file of keys.

    Raises:
        UserError: it cannot be read.
    """
    try:
        return _File.model_validate_json(path.read_bytes())
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}); make it with harken serve --new-key") from None
    except ValidationError as error:
        first = error.errors()[0]
        reason = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
        raise UserError(f"{path} is no file of API keys ({reason}); make one with --new-key") from None


def new_key(path: Path, name: str, per_minute: int | None = None, characters: int | None = None) -> str:
    """Add a key to a file, which is made where it is missing; returns the key, which is kept nowhere.

    Raises:
        UserError: the name is taken.
    """
    file = read_keys(path) if path.exists() else _File()
    if any(key.name == name for key in file.keys):
        raise UserError(f"{path} has a key called {name!r}; choose another name, or remove it from the file")
    key = secrets.token_urlsafe(24)
    file.keys.append(ApiKey(name=name, sha256=hash_of(key), per_minute=per_minute, characters=characters))
    atomic_write(path, file.model_dump_json(indent=1) + "\n")
    path.chmod(0o600)
    return key


def hash_of(key: str) -> str:
    """SHA-256 in hexadecimal."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


class Keys:
    """The keys of a server; without a file every key is accepted and none is needed."""

    def __init__(self, path: Path | None) -> None:
        self.needed = path is not None
        self._by_hash = {} if path is None else {key.sha256: key for key in read_keys(path).keys}

    def client(self, key: str | None, address: str) -> Client | None:
        """Who holds a key; None where the key is missing or wrong and one is needed.

        Keys are looked up by their hash, so the time says nothing about how much of a key is right.
        """
        if not self.needed:
            return Client(address)
        known = self._by_hash.get(hash_of(key)) if key else None
        return None if known is None else Client(known.name, known.per_minute, known.characters)
