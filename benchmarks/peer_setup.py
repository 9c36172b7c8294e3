"""A venv for each peer, and the prepared Multi30k that all of them train on.

Every `pip install` is held to `torch==2.13.0`, installed first, so that no peer brings another build of torch (and with
it the CUDA packages, which `install` refuses).
"""

import gzip
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

TORCH = "torch==2.13.0"
SPLITS = ("train", "val", "test_2016_flickr")


class SetupError(Exception):
    """A peer could not be installed or the data not prepared; the message says which command failed and how."""


@dataclass(frozen=True, slots=True)
class Peer:
    """A tool to compare with and what pip has to be asked for, one call for each tuple."""

    name: str
    installs: tuple[tuple[str, ...], ...]


PEERS = {
    # joeynmt forgets to require importlib_metadata, and needs the older sentencepiece.
    "joeynmt": Peer("joeynmt", ((TORCH,), ("joeynmt==2.3.0",), ("importlib_metadata", "sentencepiece==0.2.0"))),
    # the eole command does not start without aiohttp.
    "eole": Peer("eole", ((TORCH,), ("eole==0.6.4", "aiohttp"))),
}


def clean_environment(**extra: str) -> dict[str, str]:
    """The environment for a peer: this project's PYTHONPATH and venv must not leak into it."""
    variables = {
        key: value for key, value in os.environ.items() if key not in {"PYTHONPATH", "VIRTUAL_ENV", "PYTHONHOME"}
    }
    return variables | extra


def checked(command: list[str], what: str) -> str:
    """Runs the command and returns its output.

    Raises:
        SetupError: the command failed; the message ends with the last lines it printed.
    """
    done = subprocess.run(command, capture_output=True, text=True, env=clean_environment())
    if done.returncode != 0:
        tail = " | ".join((done.stdout + done.stderr).strip().splitlines()[-3:])
        raise SetupError(f"{what} failed with status {done.returncode}: {tail}")
    return done.stdout


def installed_versions(python: Path) -> dict[str, str]:
    """Package name -> version, as pip lists them."""
    listing = checked([str(python), "-m", "pip", "list", "--format=json"], "pip list")
    return {entry["name"].lower(): entry["version"] for entry in json.loads(listing)}


def refuse_cuda(python: Path) -> dict[str, str]:
    """The versions, once it is certain that torch's CPU build is what was installed."""
    versions = installed_versions(python)
    cuda = sorted(name for name in versions if name.startswith(("nvidia-", "cuda-")) or name == "triton")
    if cuda:
        raise SetupError(f"{TORCH} brought {cuda[0]}; point pip (PIP_FIND_LINKS) at a folder with torch's CPU wheel.")
    return versions


def linked(folder: Path) -> tuple[Path, dict[str, str]]:
    """The python of a venv that exists already, and its package versions."""
    python = folder / "bin" / "python"
    if not python.exists():
        raise SetupError(f"{folder} has no bin/python.")
    return python, refuse_cuda(python)


def install(peer: Peer, venvs: Path) -> tuple[Path, dict[str, str]]:
    """Makes the peer's venv under `venvs` unless it stands; returns its python and its package versions."""
    folder = venvs / peer.name
    python, stamp = folder / "bin" / "python", folder / "installed.json"
    stamp_text = json.dumps(peer.installs)
    if stamp.exists() and stamp.read_text() == stamp_text:
        return python, installed_versions(python)
    venvs.mkdir(parents=True, exist_ok=True)
    constraints = venvs / "constraints.txt"
    constraints.write_text(TORCH + "\n")
    checked([sys.executable, "-m", "venv", "--clear", str(folder)], f"making the venv of {peer.name}")
    for packages in peer.installs:
        pip = [str(python), "-m", "pip", "install", "--quiet", "--constraint", str(constraints), *packages]
        checked(pip, f"pip install {' '.join(packages)}")
        versions = refuse_cuda(python)
    stamp.write_text(stamp_text)
    return python, versions


def unpack(data: Path, raw: Path, languages: tuple[str, str]) -> None:
    """Plain text files out of the .gz files of Multi30k."""
    raw.mkdir(parents=True, exist_ok=True)
    for split in SPLITS:
        for language in languages:
            (raw / f"{split}.{language}").write_bytes(gzip.decompress((data / f"{split}.{language}.gz").read_bytes()))


def prepare(python: Path, scripts: Path, raw: Path, prepared: Path) -> None:
    """Joint 8k BPE, and raw and segmented files, by the peers' own prep script (python: one that has sentencepiece)."""
    if not (prepared / "test.sp.en").exists():
        checked([str(python), str(scripts / "prep_multi30k.py"), str(raw), str(prepared)], "prep_multi30k.py")
