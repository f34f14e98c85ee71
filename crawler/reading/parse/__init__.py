"""From the bytes of a page to its links. No I/O: bytes and a URL in, values out.

    page        from a response to its links, by means of the others
    kinds       which documents a configuration chooses
    encoding    from bytes to text, as browsers do it; and from the text of a query to bytes
    elements    from text to the tags with links, by the fastest reader that there is
    tokens      from text to tags, by the tokeniser of the standard, in linear time for any text
    scanner     the compiled form of `tokens`
    xhtml       from XHTML to tags, by the rules of XML
    links       from tags to the references in them, and on to the links of the page
    requisites  from tags or style sheets to the URLs that are needed to show a page
    sheets      from the text of style sheets to the references in them
    resolution  from references to normalised URLs, within the bounds on a page
    anchors     the texts of links
    head        the title and the language of a page
    texts       texts for people in markup
    headers     Link, X-Robots-Tag, meta robots

`read` goes the whole way from a response to its links. It works in steps (see `reading.steps`), so
that a page of many megabytes, or a hostile page, doesn't block the loop.
"""

from crawler.reading.media import is_html, media_type
from crawler.reading.parse.elements import Form
from crawler.reading.parse.encoding import declared_encoding, decode
from crawler.reading.parse.headers import page_directives
from crawler.reading.parse.kinds import MediaTypes
from crawler.reading.parse.page import Page, extract, form_of, read, read_headers
from crawler.reading.steps import finish

__all__ = [
    "Form",
    "MediaTypes",
    "Page",
    "declared_encoding",
    "decode",
    "extract",
    "finish",
    "form_of",
    "is_html",
    "media_type",
    "page_directives",
    "read",
    "read_headers",
]
