"""Files of variables that are not text: images, audio and video."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path

from agentv.importing.source import read_bytes

_IMAGES = {
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".png": "image/png",
    ".gif": "image/gif",
    ".bmp": "image/bmp",
    ".webp": "image/webp",
}
_OTHERS = {".mp3", ".wav", ".ogg", ".flac", ".m4a", ".aac", ".mp4", ".webm", ".mov", ".avi", ".mkv"}
_MAGIC = {b"\xff\xd8\xff": "image/jpeg", b"\x89PNG": "image/png", b"GIF8": "image/gif", b"BM": "image/bmp"}


def is_media(path: Path) -> bool:
    return path.suffix.lower() in _IMAGES or path.suffix.lower() in _OTHERS


def as_base64(path: Path) -> str:
    """An image as a `data:` URL, other files as base64. Raises UnreadableError."""
    data = read_bytes(path)
    text = b64encode(data).decode()
    if path.suffix.lower() not in _IMAGES:
        return text
    kind = next((kind for start, kind in _MAGIC.items() if data.startswith(start)), _IMAGES[path.suffix.lower()])
    return f"data:{kind};base64,{text}"
