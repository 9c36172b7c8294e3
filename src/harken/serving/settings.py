"""How a server runs: addresses, limits and what clients may do."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

MAX_CANDIDATES = 128  # of minimum Bayes risk
MAX_LENGTH_FACTOR, MAX_LENGTH_EXTRA = 10.0, 1000


class ServerSettings(BaseModel):
    """Settings of `create_app`; `harken serve` has an option for most of them.

    >>> ServerSettings().workers, ServerSettings(batch_tokens=512).batch_tokens
    (1, 512)
    """

    model_config = ConfigDict(extra="forbid")

    device: str = Field(default="auto", description="where models run: auto, cpu, cuda, cuda:1 ...")
    workers: int = Field(default=1, ge=0, le=64, description="worker processes; 0: a thread of this process, for tests")
    batch_tokens: int = Field(default=2048, ge=1, description="estimated source tokens of a batch")
    batch_texts: int = Field(default=256, ge=1, description="texts of a batch")
    queue_tokens: int = Field(default=65536, ge=1, description="tokens that may wait; past it requests get 429")
    streams: int = Field(default=32, ge=1, description="streams that run or wait at once")
    timeout: float = Field(default=60.0, gt=0, description="seconds until a request is given up")
    heartbeat: float = Field(default=10.0, gt=0, description="seconds without a sign of life until a worker is killed")
    max_body: int = Field(default=10_000_000, ge=1, description="bytes of a request")
    max_characters: int = Field(default=50_000, ge=1, description="characters of all texts of a request")
    max_texts: int = Field(default=512, ge=1, description="texts of a request")
    api_keys: Path | None = Field(default=None, description="file of API keys, by their hashes; None: no key is needed")
    rate_limit: int | None = Field(default=None, ge=1, description="requests a minute of each client")
    cors: list[str] = Field(default=[], description="origins that browsers may call from; empty: none")
    allowed_hosts: list[str] | None = Field(default=None, description="host names that are answered to; None: all")
    public_url: str | None = Field(
        default=None,
        pattern=r"^https?://[A-Za-z0-9.\[\]:-]+$",
        description="scheme, host and port under which clients reach the server; None: those of the request",
    )
    trusted_proxies: list[str] = Field(default=[], description="addresses of proxies whose X-Forwarded-For is believed")
    connections: int = Field(default=1000, ge=1, description="open connections; past it idle ones are closed")
    header_seconds: float = Field(default=10.0, gt=0, description="seconds to send the head of a request")
    body_seconds: float = Field(default=60.0, gt=0, description="seconds to send its body, or to read an answer")
    lab_seconds: float = Field(default=1800.0, gt=0, description="seconds until an experiment of the studio is ended")
    idle_seconds: float = Field(default=60.0, gt=0, description="seconds until an idle connection is closed")
    suggestions: Path | None = Field(default=None, description="file that POST /suggest appends to; None: it is off")
    state: Path | None = Field(default=None, description="folder of glossaries and files; None: a temporary one")
    reload_seconds: float = Field(default=2.0, ge=0, description="how often model folders are looked at; 0: never")
    access_log: bool = Field(default=False, description="log method, path, status and time, no text")
    stop_seconds: float = Field(default=30.0, gt=0, description="seconds to finish accepted requests on stopping")
