#!/usr/bin/env python3
"""Puts the command into the Python SDK's wheel: `wheel.py PURE.whl BINARY DIRECTORY`.

The wheel is for the systems that the binary runs on: those of this processor
whose C library has what it asks for.
"""

import base64
import hashlib
import platform
import re
import sys
import zipfile
from pathlib import Path


def tag_of(binary: bytes) -> str:
    """The platform, by the newest version of the C library that the binary names."""
    versions = [tuple(map(int, found.groups())) for found in re.finditer(rb"\0GLIBC_(\d+)\.(\d+)(?=[.\d]*\0)", binary)]
    if not versions:
        sys.exit("the binary names no version of the C library")
    major, minor = max(versions)
    return f"py3-none-manylinux_{major}_{minor}_{platform.machine()}"


def main(pure: Path, binary: Path, directory: Path) -> None:
    program = binary.read_bytes()
    name, version = pure.name.split("-")[:2]
    info, tag = f"{name}-{version}.dist-info", tag_of(program)
    files: dict[str, bytes] = {}
    with zipfile.ZipFile(pure) as wheel:
        for entry in wheel.namelist():
            files[entry] = wheel.read(entry)
    head = files[f"{info}/WHEEL"].decode()
    head = head.replace("Root-Is-Purelib: true", "Root-Is-Purelib: false").replace("Tag: py3-none-any", f"Tag: {tag}")
    files[f"{info}/WHEEL"] = head.encode()
    command = f"{name}-{version}.data/scripts/styx"
    files[command] = program
    del files[f"{info}/RECORD"]
    record = [f"{entry},sha256={digest(data)},{len(data)}" for entry, data in files.items()] + [f"{info}/RECORD,,", ""]
    files[f"{info}/RECORD"] = "\n".join(record).encode()
    target = directory / f"{name}-{version}-{tag}.whl"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as wheel:
        for entry, data in files.items():
            about = zipfile.ZipInfo(entry)
            about.compress_type = zipfile.ZIP_DEFLATED
            about.external_attr = (0o100755 if entry == command else 0o100644) << 16
            wheel.writestr(about, data)
    print(target)


def digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


main(*map(Path, sys.argv[1:]))
