"""What the row of a page says of a response besides its payload: its types, and its validators."""

from functools import lru_cache
from typing import Final, NamedTuple

from crawler.ports import Earlier, Response
from crawler.reading import media

_VALIDATOR_BYTES: Final = 512
_MEDIA_TYPE_LENGTH: Final = 128


def validator(response: Response, name: bytes) -> str | None:
    """Return the value of a header.

    Returns None if a conditional request couldn't send the value back unchanged.
    """
    value = response.header(name)
    if value is None or not 0 < len(value) <= _VALIDATOR_BYTES:
        return None
    text = value.decode("latin-1")
    return text if text.isascii() and text.isprintable() else None


def media_type(content_type: str) -> str:
    """Return the media type in lower case, without parameters.

    Characters outside printable ASCII become `?`.
    """
    return _printable(content_type.partition(";")[0].strip().lower()[:_MEDIA_TYPE_LENGTH])


@lru_cache(256)  # of short keys: a header may be as long as `fetch.max_header_bytes`
def _printable(essence: str) -> str:
    return "".join(c if c.isascii() and c.isprintable() else "?" for c in essence)


class Metadata(NamedTuple):
    """What the row of a page says of a response besides its payload."""

    content_type: str | None = None
    media_type: str | None = None
    etag: str | None = None
    last_modified: str | None = None


def metadata_of(response: Response, earlier: Earlier | None) -> Metadata:
    """Return what the row of a page says of a response besides its payload.

    `earlier`: what the previous session has stored of the page. It counts after status 304.
    """
    content_type = response.content_type
    sniffed = media.types_of(response)[0] if response.body else None
    etag, last_modified = validator(response, b"etag"), validator(response, b"last-modified")
    if response.status == 304 and earlier is not None:  # a 304 may omit these
        before = earlier.row
        content_type, sniffed = before.content_type, before.media_type
        etag, last_modified = etag or before.etag, last_modified or before.last_modified
    return Metadata(
        content_type and media_type(content_type),
        sniffed and media_type(sniffed),
        etag,
        last_modified,
    )
