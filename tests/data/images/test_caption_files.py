"""Pictures and captions from files: what is read, and the one sentence that bad input gets."""

import io
import re
import tarfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from harken.data.images.caption_table import read_caption_corpus, read_captions
from harken.data.images.files import as_pixels, decode_image, read_image, to_square
from harken.data.images.flickr8k import load_flickr8k
from harken.errors import UserError
from harken.tasks.caption.recipe import CaptionDataConfig


def picture(seed: int, height: int = 8, width: int = 8) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def encode_png(pixels: np.ndarray) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def test_a_png_is_read_pixel_for_pixel() -> None:
    pixels = picture(1, 5, 9)
    assert (decode_image(encode_png(pixels), "it") == pixels).all()


def test_a_camera_held_on_its_side_and_grey_files(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned clockwise by a quarter
    Image.fromarray(picture(1, 4, 8)).save(tmp_path / "side.png", exif=exif)
    assert read_image(tmp_path / "side.png").shape == (8, 4, 3)
    Image.fromarray(picture(1)[:, :, 0]).save(tmp_path / "grey.png")
    assert (read_image(tmp_path / "grey.png")[:, :, 2] == picture(1)[:, :, 0]).all()


def test_the_middle_square_is_kept_and_scaled() -> None:
    wide = np.zeros((4, 12, 3), np.uint8)
    wide[:, 4:8] = 200  # the middle square
    assert (to_square(wide, 2) == 200).all()
    same = picture(2, 6, 6)
    assert to_square(same, 6) is same


def test_arrays_of_other_kinds() -> None:
    assert as_pixels(np.full((2, 2), 0.5)).tolist() == [[[128] * 3] * 2] * 2
    assert as_pixels(np.full((2, 2, 4), 7, np.int64)).tolist() == [[[7] * 3] * 2] * 2
    no_colours = [(np.full((2, 2, 3), value), "are not colours") for value in (1.5, np.nan)]
    for wrong, said in [(np.zeros(3), "shape (3,)"), (np.zeros((0, 2, 3)), "no picture"), *no_colours]:
        with pytest.raises(UserError, match=re.escape(said)):
            as_pixels(wrong)


def test_what_is_no_image_is_said(tmp_path: Path) -> None:
    (tmp_path / "text.png").write_text("hello")
    with pytest.raises(UserError, match=r"text.png is not an image that Pillow knows .*; give a PNG or JPEG file$"):
        read_image(tmp_path / "text.png")
    (tmp_path / "half.png").write_bytes(encode_png(picture(1, 64, 64))[:4000])
    with pytest.raises(UserError, match=r"half\.png is damaged"):
        read_image(tmp_path / "half.png")
    with pytest.raises(UserError, match=r"txt.png does not exist: did you mean text.png\?"):
        read_image(tmp_path / "txt.png")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pictures").mkdir()
    for number in range(6):
        (tmp_path / "pictures" / f"{number}.png").write_bytes(encode_png(picture(number)))
    rows = "".join(f"{number}.png,a number {number}\n{number}.png,it is  {number}\n" for number in range(6))
    (tmp_path / "table.csv").write_text("image,caption\n" + rows)
    return tmp_path


def test_a_table_gathers_the_captions_of_a_picture(folder: Path) -> None:
    found = read_captions(folder / "table.csv", folder / "pictures", 4)
    assert [one.captions for one in found[:2]] == [["a number 0", "it is 0"], ["a number 1", "it is 1"]]
    assert found[0].image.shape == (4, 4, 3) and found[0].name == "0.png"


def test_pictures_are_held_out_whole(folder: Path) -> None:
    def config(**changes: object) -> CaptionDataConfig:
        given = {"train": str(folder / "table.csv"), "images": str(folder / "pictures"), "image_size": 8}
        return CaptionDataConfig(**{**given, "valid_size": 2, "test_size": 1, **changes})

    corpus = read_caption_corpus(config())
    names = [{one.name for one in split} for split in (corpus.train, corpus.valid, corpus.tests["test"])]
    assert [len(some) for some in names] == [3, 2, 1]
    assert len(set.union(*names)) == 6
    with pytest.raises(UserError, match="of 6 examples in 6 groups leaves none for train"):
        read_caption_corpus(config(valid_size=5))
    (folder / "pictures" / "copy.png").write_bytes((folder / "pictures" / "0.png").read_bytes())
    (folder / "test.csv").write_text("image,caption\ncopy.png,another caption\n")
    given = read_caption_corpus(config(test=str(folder / "test.csv"), valid=str(folder / "test.csv")))
    assert [one.name for one in given.train] == [f"{number}.png" for number in range(1, 6)]
    assert given.notes == ["left 1 training pictures out: also in the validation or test data"]
    beside = read_caption_corpus(config(valid=str(folder / "test.csv")))
    assert [len(split) for split in (beside.valid, beside.tests["test"])] == [1, 1]  # a validation file, and test_size


def test_mistakes_in_a_table_name_the_line(folder: Path) -> None:
    table = folder / "table.csv"
    text = table.read_text()
    cases = {
        text + "9.png,nothing\n": "line 14 names 9.png, which is not in",
        text + "0.png,\n": "line 14 has an empty caption",
        text.replace("caption", "captoin"): "no column 'caption'; did you mean 'captoin'?",
        "image,caption\n": "has no rows below its header",
    }
    for content, said in cases.items():
        table.write_text(content)
        with pytest.raises(UserError, match=re.escape(said)):
            read_captions(table, folder / "pictures", 4)
    (folder / "pictures" / "3.png").write_text("no picture")
    table.write_text(text)
    with pytest.raises(UserError, match=re.escape("3.png (table.csv, line 8) is not an image")):
        read_captions(table, folder / "pictures", 4)
    (folder / "empty").mkdir()
    with pytest.raises(UserError, match="empty holds no picture"):
        read_captions(table, folder / "empty", 4)


def test_flickr8k_with_some_of_its_pictures(tmp_path: Path) -> None:
    tokens = "".join(f"{name}.jpg#{k}\tA dog , number {k} .\n" for name in "abcd" for k in range(2))
    (tmp_path / "Flickr8k.token.txt").write_text(tokens)
    for file, names in (("train", "ab"), ("dev", "c"), ("test", "d")):
        (tmp_path / f"Flickr_8k.{file}Images.txt").write_text("".join(f"{name}.jpg\n" for name in names))
    with tarfile.open(tmp_path / "images.tar.xz", "w:xz") as archive:
        for name in "acd":
            content = encode_png(picture(ord(name)))
            entry = tarfile.TarInfo(f"images/{name}.jpg")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    corpus = load_flickr8k(tmp_path, 8)
    assert [one.name for one in corpus.train] == ["a.jpg"] and len(corpus.valid) == len(corpus.tests["test"]) == 1
    assert corpus.train[0].captions == ["a dog , number 0", "a dog , number 1"]
    assert (corpus.train[0].image == picture(ord("a"))).all()
    assert corpus.notes == [f"1 of 4 pictures are not in {tmp_path} and were left out"]
    (tmp_path / "images.tar.xz").write_bytes(b"no archive")
    with pytest.raises(UserError, match=r"images.tar.xz is no readable archive"):
        load_flickr8k(tmp_path, 8)
    (tmp_path / "Flickr8k.token.txt").write_text("a.jpg a dog\n")
    with pytest.raises(UserError, match="line 1 is not of the form"):
        load_flickr8k(tmp_path, 8)
    with pytest.raises(UserError, match="is no folder"):
        load_flickr8k(tmp_path / "no", 8)
