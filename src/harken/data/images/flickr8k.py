"""Flickr8k: photographs with five captions each (Hodosh et al., 2013), from a folder that holds

    Flickr8k.token.txt                           image.jpg#k TAB caption
    Flickr_8k.trainImages.txt, .devImages.txt, .testImages.txt     one name a line
    images*.tar.xz (.tar, .tar.gz), or a folder of JPEG files such as Flicker8k_Dataset

each plain, .gz or .xz. Names without a picture are left out and counted, so part of the pictures will do.

>>> split_caption("123.jpg#0\\tA dog runs .", "tokens, line 1")
('123.jpg', 'a dog runs')
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from harken.data.images.captioned import CaptionCorpus, Captioned
from harken.data.images.files import ENDINGS, decode_image, read_image, to_square
from harken.data.io.files import COMPRESSIONS, read_lines
from harken.errors import UserError
from harken.files import expand_user

TOKENS = "Flickr8k.token.txt"
SPLITS = {"train": "Flickr_8k.trainImages.txt", "valid": "Flickr_8k.devImages.txt", "test": "Flickr_8k.testImages.txt"}


def load_flickr8k(folder: str | Path, size: int) -> CaptionCorpus:
    """The three splits, as far as there are pictures.

    Raises:
        UserError: a file is missing, or none of a split's pictures is there.
    """
    folder = expand_user(folder)
    captions: dict[str, list[str]] = {}
    tokens = find(folder, TOKENS)
    for number, line in enumerate(read_lines(tokens), start=1):
        if line.strip():
            name, caption = split_caption(line, f"{tokens}, line {number}")
            captions.setdefault(name, []).append(caption)
    names = {split: [line.strip() for line in read_lines(find(folder, file))] for split, file in SPLITS.items()}
    chosen = {name for split in names.values() for name in split if name in captions}
    images = {name: to_square(image, size) for name, image in pictures(folder, chosen)}
    splits: dict[str, list[Captioned]] = {}
    for split, listed in names.items():
        splits[split] = [Captioned(images[name], captions[name], (), name) for name in listed if name in images]
        if not splits[split]:
            raise UserError(f"{folder} has no picture of {SPLITS[split]}; put images.tar.xz or a folder of JPEGs there")
    missing = len(chosen) - len(images)
    notes = [f"{missing:,} of {len(chosen):,} pictures are not in {folder} and were left out"] if missing else []
    return CaptionCorpus("flickr8k", splits["train"], splits["valid"], {"test": splits["test"]}, notes)


def split_caption(line: str, where: str) -> tuple[str, str]:
    """The picture's name and the caption, in lower case and without the stop and the spaces around marks.

    Raises:
        UserError: a line of another form.
    """
    name, tab, caption = line.partition("\t")
    if not tab or "#" not in name:
        raise UserError(f"{where} is not of the form image.jpg#0 TAB caption; is this {TOKENS}?")
    return name.split("#")[0], " ".join(caption.lower().rstrip(" .").split())


def pictures(folder: Path, chosen: set[str]) -> Iterator[tuple[str, np.ndarray]]:
    """Name and pixels of every chosen picture in the folder's archives, else in the folders inside it."""
    archives = sorted(path for path in folder.iterdir() if ".tar" in path.suffixes)
    for path in archives:
        try:
            with tarfile.open(path) as archive:
                for member in archive:
                    name = Path(member.name).name
                    content = archive.extractfile(member) if name in chosen else None
                    if content is not None:
                        yield name, decode_image(content.read(), f"{path}, {name}")
        except (tarfile.TarError, EOFError, OSError) as problem:
            raise UserError(f"{path} is no readable archive ({problem}); copy it anew") from None
    if not archives:
        for path in sorted(folder.rglob("*")):
            if path.name in chosen and path.suffix.lower() in ENDINGS:
                yield path.name, read_image(path)


def find(folder: Path, name: str) -> Path:
    """The file as it is, or packed.

    Raises:
        UserError: neither is there.
    """
    if not folder.is_dir():
        raise UserError(f"{folder} is no folder; give the one that holds {TOKENS}")
    for ending in ("", *COMPRESSIONS):
        if (folder / f"{name}{ending}").is_file():
            return folder / f"{name}{ending}"
    raise UserError(f"{folder} has no {name} (nor {name}.gz or .xz); is it Flickr8k's folder?")
