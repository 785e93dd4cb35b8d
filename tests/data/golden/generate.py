#!/usr/bin/env python3
"""Makes the files that tests/data reads, with the programs whose formats they are: numpy, Pillow, Python's tarfile and
csv, PyTorch for what resizing should give, torchvision's formulas written out in numpy for colours.

  python3 generate.py     (needs numpy, torch, pillow)
"""

import gzip
import io
import json
import pathlib
import struct
import tarfile

import numpy as np
import torch
from PIL import Image, ImageEnhance

here = pathlib.Path(__file__).resolve().parent
rng = np.random.default_rng(7)


def save_npy():
    arrays = {
        "f64": np.array([[1.5, -2.25], [np.inf, 1e-300]]),
        "f32": np.arange(6, dtype=np.float32).reshape(2, 3) / 7,
        "f16": np.array([0.1, -65504, 6e-8], dtype=np.float16),
        "i64": np.array([-(2**62), 5]),
        "i32": np.array([[[-7]]], dtype=np.int32),
        "i16": np.array([-32768, 3], dtype=np.int16),
        "i8": np.array([-128, 127], dtype=np.int8),
        "u64": np.array([2**63], dtype=np.uint64),
        "u32": np.array([2**32 - 1], dtype=np.uint32),
        "u16": np.array([65535], dtype=np.uint16),
        "u8": np.arange(4, dtype=np.uint8).reshape(2, 2),
        "bool": np.array([True, False, True]),
        "scalar": np.array(2.5, dtype=np.float32),
        "none": np.zeros((0, 3), dtype=np.float32),
    }
    for name, array in arrays.items():
        np.save(here / f"{name}.npy", array)
    np.save(here / "fortran.npy", np.asfortranarray(np.arange(24, dtype=np.int32).reshape(2, 3, 4)))
    np.save(here / "big_endian.npy", np.arange(5, dtype=">f4"))
    with open(here / "version2.npy", "wb") as file:
        np.lib.format.write_array(file, np.arange(3, dtype=np.int16), version=(2, 0))
    np.savez(here / "stored.npz", **arrays)
    np.savez_compressed(here / "deflated.npz", **arrays)


def picture(height, width):
    """Smooth, so that JPEG keeps it well, with some edges."""
    y, x = np.mgrid[0:height, 0:width]
    red = 128 + 100 * np.sin(x / 5)
    green = 128 + 100 * np.cos(y / 4)
    blue = np.where((x + y) % 16 < 8, 60, 190)
    return np.stack([red, green, blue], -1).astype(np.uint8)


def save_images():
    pixels = picture(37, 45)
    image = Image.fromarray(pixels)
    for name, options in {
        "colour.jpg": {"quality": 90},
        "progressive.jpg": {"quality": 80, "progressive": True},
        "full.jpg": {"quality": 95, "subsampling": 0},
    }.items():
        image.save(here / name, **options)
    image.convert("L").save(here / "grey.jpg", quality=90)
    image.convert("CMYK").save(here / "cmyk.jpg", quality=95)
    image.save(here / "colour.png")
    image.convert("L").save(here / "grey.png")
    image.quantize(16).save(here / "palette.png")
    rgba = np.dstack([pixels, np.full(pixels.shape[:2], 128, np.uint8)])
    Image.fromarray(rgba).save(here / "alpha.png")
    Image.fromarray((pixels[..., 0].astype(np.uint16) * 257)).save(here / "deep.png")
    image.convert("1").save(here / "bits.png")
    decoded = {}
    for name in ["colour.jpg", "progressive.jpg", "full.jpg", "grey.jpg", "cmyk.jpg", "colour.png", "grey.png",
                 "palette.png", "alpha.png", "bits.png"]:
        opened = Image.open(here / name)
        decoded[name + ":3"] = np.asarray(opened.convert("RGB"))
        decoded[name + ":1"] = np.asarray(opened.convert("L"))
    decoded["deep.png:1"] = pixels[..., 0]
    decoded["deep.png:3"] = np.repeat(pixels[..., :1], 3, -1)
    np.savez_compressed(here / "decoded.npz", **decoded)


def save_resized():
    pixels = torch.from_numpy(rng.random((3, 13, 17), dtype=np.float32))[None]
    out = {"input": pixels[0].numpy()}
    for height, width in [(13, 17), (7, 9), (26, 40), (1, 1), (5, 31)]:
        size = (height, width)
        resize = torch.nn.functional.interpolate
        out[f"bilinear_{height}x{width}"] = resize(pixels, size, mode="bilinear", align_corners=False)[0].numpy()
        out[f"smooth_{height}x{width}"] = resize(pixels, size, mode="bilinear", align_corners=False,
                                                 antialias=True)[0].numpy()
        out[f"area_{height}x{width}"] = resize(pixels, size, mode="area")[0].numpy()
    np.savez_compressed(here / "resized.npz", **out)


def save_affine():
    """grid_sample with zeros outside, for a turn by 20 degrees, a scale of 1.1, a shear of 5 and a shift of (2, -1)."""
    image = torch.from_numpy(rng.random((1, 2, 11, 15), dtype=np.float32))
    out = {"input": image[0].numpy()}
    height, width = 11, 15
    for name, (angle, scale, shear, dx, dy) in {"turn": (20, 1, 0, 0, 0), "all": (20, 1.1, 5, 2, -1)}.items():
        a, s = np.deg2rad(angle), np.deg2rad(shear)
        forward = np.array([[np.cos(a), -np.sin(a)], [np.sin(a), np.cos(a)]]) @ np.array([[1, np.tan(s)], [0, 1]]) * scale
        back = np.linalg.inv(forward)
        y, x = np.mgrid[0:height, 0:width].astype(np.float64)
        cx, cy = (width - 1) / 2, (height - 1) / 2
        px, py = x - cx - dx, y - cy - dy
        sx, sy = back[0, 0] * px + back[0, 1] * py + cx, back[1, 0] * px + back[1, 1] * py + cy
        grid = np.stack([(2 * sx + 1) / width - 1, (2 * sy + 1) / height - 1], -1).astype(np.float32)
        out[name] = torch.nn.functional.grid_sample(image, torch.from_numpy(grid)[None], align_corners=False)[0].numpy()
    np.savez_compressed(here / "affine.npz", **out)


def save_colours():
    """Brightness, contrast and saturation by Pillow's enhancers; hue by turning HSV in floats."""
    import colorsys
    pixels = picture(12, 10)
    image = Image.fromarray(pixels)
    out = {"input": pixels}
    for factor in (0.6, 1.3):
        out[f"brightness_{factor}"] = np.asarray(ImageEnhance.Brightness(image).enhance(factor))
        out[f"contrast_{factor}"] = np.asarray(ImageEnhance.Contrast(image).enhance(factor))
        out[f"saturation_{factor}"] = np.asarray(ImageEnhance.Color(image).enhance(factor))
    turned = np.zeros(pixels.shape, np.float32)
    for y in range(pixels.shape[0]):
        for x in range(pixels.shape[1]):
            h, s, v = colorsys.rgb_to_hsv(*(pixels[y, x] / 255))
            turned[y, x] = colorsys.hsv_to_rgb((h + 0.1) % 1, s, v)
    out["hue_0.1"] = turned
    np.savez_compressed(here / "colours.npz", **out)


def add(tar, name, data):
    info = tarfile.TarInfo(name)
    info.size = len(data)
    tar.addfile(info, io.BytesIO(data))


def save_tars():
    long = "folder/" + "deep/" * 30 + "0002"
    for name, kind in {"pax.tar": tarfile.PAX_FORMAT, "gnu.tar": tarfile.GNU_FORMAT, "ustar.tar": tarfile.USTAR_FORMAT}.items():
        with tarfile.open(here / name, "w", format=kind) as tar:
            folder = tarfile.TarInfo("folder")
            folder.type = tarfile.DIRTYPE
            tar.addfile(folder)
            add(tar, "folder/0001.cls", b"3")
            add(tar, "folder/0001.left.txt", b"hello")
            add(tar, "README", b"no sample")
            key = long if kind != tarfile.USTAR_FORMAT else "folder/" + "deep/" * 20 + "0002"
            add(tar, key + ".cls", b"4")
            add(tar, key + ".left.txt", bytes(range(256)) * 5)
            link = tarfile.TarInfo("folder/0003.cls")
            link.type = tarfile.SYMTYPE
            link.linkname = "0001.cls"
            tar.addfile(link)
            if kind == tarfile.PAX_FORMAT:
                add(tar, "folder/zwölf.cls", b"5")
    with gzip.GzipFile(here / "pax.tar.gz", "wb", mtime=0) as out:
        out.write((here / "pax.tar").read_bytes())


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def varint(number):
    out = b""
    number &= 2**64 - 1
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def field(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data


def example(features):
    """A tf.train.Example by the rules of the wire format alone."""
    body = b""
    for key, value in features.items():
        if isinstance(value[0], bytes):
            inner = field(1, b"".join(field(1, v) for v in value))
        elif isinstance(value[0], float):
            inner = field(2, field(1, struct.pack(f"<{len(value)}f", *value)))
        else:
            inner = field(3, field(1, b"".join(varint(v) for v in value)))
        body += field(1, field(1, key.encode()) + field(2, inner))
    return field(1, body)


def save_tfrecord():
    records = b""
    for i in range(5):
        data = example({"x": [float(i), i / 2, -1.5], "label": [i, -i], "name": [f"sample {i}".encode(), b"\0\xff"]})
        length = struct.pack("<Q", len(data))
        records += length + struct.pack("<I", masked(length)) + data + struct.pack("<I", masked(data))
    (here / "five.tfrecord").write_bytes(records)
    with gzip.GzipFile(here / "five.tfrecord.gz", "wb", mtime=0) as out:
        out.write(records)


def save_cifar():
    labels = [3, 9, 0]
    images = rng.integers(0, 256, (3, 3, 32, 32), dtype=np.uint8)
    (here / "cifar10.bin").write_bytes(b"".join(bytes([l]) + i.tobytes() for l, i in zip(labels, images)))
    (here / "cifar100.bin").write_bytes(
        b"".join(bytes([c, f]) + i.tobytes() for c, f, i in zip([1, 19, 0], [99, 5, 42], images)))
    np.savez_compressed(here / "cifar.npz", images=images)


if __name__ == "__main__":
    for save in (save_npy, save_images, save_resized, save_affine, save_colours, save_tars, save_tfrecord, save_cifar):
        save()
