# cython: language_level=3, boundscheck=True, wraparound=False
"""The compiled form of `tokens`: from the bytes of an HTML page to the elements that hold links.

`tokens` says what each state means, and why. Both find the same elements in any text, which
tests/test_scanner.py checks. A page is hostile, so its bytes are read by three functions only, which
compare each place with its length: `_byte`, `_find` and `_decode`. Other code must not use
`_Text.bytes`. A byte is looked at a few times at most, so time grows with the length.

hatch_build.py compiles this file. Without it, `elements` reads by `tokens`.
"""

from functools import lru_cache
from itertools import chain

from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.string cimport memchr, memset

from crawler.reading.parse import tokens

cdef extern from *:
    """
    #ifndef ABC_SOURCE
    #define ABC_SOURCE ""
    #endif
    """
    const char* ABC_SOURCE

SOURCE = ABC_SOURCE.decode("ascii")  # SHA-256 of this file when it was compiled

cdef Py_ssize_t STEP = 1 << 17  # bytes read in one step, unless a tag is longer
cdef int ELEMENTS = 1 << 10  # returned in one step, or references added
cdef Py_ssize_t MOST_ATTRIBUTES = tokens.MOST_ATTRIBUTES
cdef int MOST_NAMED = tokens.MOST_NAMED
cdef Py_ssize_t MOST_NOFRAMES = tokens.MOST_NOFRAMES
cdef Py_ssize_t SHORT = 512  # bytes; the rules for long values needn't be asked
cdef Py_ssize_t USUAL_HEAD = 1 << 14  # bytes before the title
cdef Py_ssize_t USUAL_HTML = 1 << 10  # bytes of the attributes of `html`
cdef Py_ssize_t USUAL_TITLE = 1 << 12  # bytes

# --- The text of a page -----------------------------------------------------------------------


cdef struct _Text:
    const unsigned char* bytes
    Py_ssize_t length


cdef inline int _byte(_Text text, Py_ssize_t at) except -1:
    """Return the byte at a place."""
    if 0 <= at < text.length:
        return text.bytes[at]
    return _refuse()


cdef int _refuse() except -1:  # apart, so that compilers inline `_byte`
    raise IndexError("a place outside the page")


cdef inline Py_ssize_t _find(
    _Text text, int byte, Py_ssize_t at, Py_ssize_t end
) noexcept:
    """Return the first place of a byte from `at` on and before `end`, or -1."""
    cdef const void* found
    if end > text.length:
        end = text.length
    if not 0 <= at < end:
        return -1
    found = memchr(text.bytes + at, byte, end - at)
    return -1 if found is NULL else <const unsigned char*> found - text.bytes


cdef str _decode(_Text text, Py_ssize_t start, Py_ssize_t end):
    """Return the text between two places; invalid bytes become U+FFFD."""
    if not 0 <= start <= end <= text.length:
        _refuse()
    return PyUnicode_DecodeUTF8(<const char*> text.bytes + start, end - start, "replace")


# --- Bytes and names --------------------------------------------------------------------------

cdef enum:
    BLANK = 1
    SLASH = 2
    ANGLE = 4  # >
    EQUALS = 8
    LETTER = 16
    BREAK = BLANK | SLASH | ANGLE  # ends a name

cdef unsigned char KIND[256]
cdef unsigned char LOWER[256]


cdef void _fill_tables() noexcept:
    cdef int byte
    for byte in range(256):
        KIND[byte] = 0
        LOWER[byte] = byte
    for byte in (9, 10, 12, 13, 32):
        KIND[byte] = BLANK
    KIND[c"/"] = SLASH
    KIND[c">"] = ANGLE
    KIND[c"="] = EQUALS
    for byte in range(c"a", c"z" + 1):
        KIND[byte] = KIND[byte - 32] = LETTER
        LOWER[byte - 32] = byte


_fill_tables()

cdef enum:
    SLOTS = 256
    MOST_NAMES = 64
    MOST_GIVEN = 32  # bits of Scanner._given
    LONGEST_NAME = 16


cdef class _Names:
    """A set of names in lower case, which finds the number of a name in the text of a page."""

    cdef readonly tuple names
    cdef signed char slots[SLOTS]  # by hash: the number of a name, or -1; the next slots follow
    cdef unsigned char lengths[MOST_NAMES]
    cdef unsigned char spelled[MOST_NAMES][LONGEST_NAME]

    def __cinit__(self, names):
        self.names = tuple(sorted(names))
        if len(self.names) > MOST_NAMES:
            raise ValueError(f"{len(self.names)} names, of which {MOST_NAMES} fit")
        memset(self.slots, -1, SLOTS)
        cdef bytes name
        cdef int number, place, letter
        for number, text in enumerate(self.names):
            name = text.encode("ascii")
            if not 0 < len(name) <= LONGEST_NAME:
                raise ValueError(f"{text!r} has more than {LONGEST_NAME} letters, or none")
            for place in range(len(name)):
                letter = name[place]
                self.spelled[number][place] = letter
            self.lengths[number] = len(name)
            place = _hash(self.spelled[number][0], self.spelled[number][len(name) - 1], len(name))
            while self.slots[place] >= 0:
                place = (place + 1) % SLOTS
            self.slots[place] = number

    cdef inline int number(
        self, _Text text, Py_ssize_t start, Py_ssize_t end
    ) except -2:
        """Return the number of the name that stands at a place in any case, or -1."""
        cdef Py_ssize_t length = end - start, i
        cdef int number, place
        if not 0 < length <= LONGEST_NAME or end > text.length:
            return -1
        place = _hash(LOWER[_byte(text, start)], LOWER[_byte(text, end - 1)], length)
        while True:  # most slots are free
            number = self.slots[place]
            if number < 0:
                return -1
            if self.lengths[number] == length:
                for i in range(length):
                    if LOWER[_byte(text, start + i)] != self.spelled[number][i]:
                        break
                else:
                    return number
            place = (place + 1) % SLOTS


cdef inline int _hash(unsigned char first, unsigned char last, Py_ssize_t length) noexcept:
    return <int> ((first * 7 + last * 29 + length * 3) % SLOTS)


cdef enum:
    WANTED = 1
    NESTED = 2
    TEMPLATE = 4
    RAW = 8
    SCRIPT = 16
    PLAINTEXT = 32
    NOFRAMES = 64
    FRAMESET = 128
    TITLE = 256
    LINK = 512  # `a` and `area`
    RELATION = 1024  # `link`
    META = 2048
    HTML = 4096


cdef class _Tags(_Names):
    """The names of the tags at which a scanner stops, and what each of them means."""

    cdef int roles[MOST_NAMES]

    def __cinit__(self, names):
        cdef int number
        special = {
            "template": TEMPLATE, "script": SCRIPT, "plaintext": PLAINTEXT, "noframes": NOFRAMES,
            "frameset": FRAMESET, "title": TITLE, "a": LINK, "area": LINK, "link": RELATION,
            "meta": META, "html": HTML,
        }
        for number, name in enumerate(self.names):
            self.roles[number] = special.get(name, 0)
            if name in tokens.NESTED:
                self.roles[number] |= NESTED
            if name in tokens.RAW_TEXT:
                self.roles[number] |= RAW


@lru_cache(16)
def _tags_of(frozenset names):
    cdef _Tags found = _Tags(names | tokens.NESTED | tokens.RAW_TEXT | {"frameset", "html"})
    cdef int number
    for number, name in enumerate(found.names):
        if name in names:
            found.roles[number] |= WANTED
    return found


cdef _Names ATTRIBUTES = _Names(tokens.ATTRIBUTE_NAMES)
cdef int HREF = ATTRIBUTES.names.index("href")
cdef int REL = ATTRIBUTES.names.index("rel")
cdef int SRCDOC = ATTRIBUTES.names.index("srcdoc")
cdef int NAME = ATTRIBUTES.names.index("name")
cdef int HTTP_EQUIV = ATTRIBUTES.names.index("http-equiv")
assert len(ATTRIBUTES.names) <= MOST_GIVEN

# --- Searches ---------------------------------------------------------------------------------


cdef inline bint _begins(
    _Text text, Py_ssize_t at, const unsigned char* word, int length
) except -1:
    """Whether a word in lower case stands at a place, in any case."""
    cdef int i
    if at + length > text.length:
        return False
    for i in range(length):
        if LOWER[_byte(text, at + i)] != word[i]:
            return False
    return True


cdef inline bint _breaks(_Text text, Py_ssize_t at) except -1:
    """Whether a name that stands before a place ends there."""
    return at < text.length and (KIND[_byte(text, at)] & BREAK) != 0


cdef inline Py_ssize_t _end_of_name(_Text text, Py_ssize_t at) except -1:
    """Return where a name ends that starts at a place or before it."""
    while at < text.length and not KIND[_byte(text, at)] & BREAK:
        at += 1
    return at


cdef inline bint _is_abrupt(_Text text, Py_ssize_t at) except -1:
    """Whether a comment ends where it begins: <!--> and <!---> are whole comments."""
    if at < text.length and _byte(text, at) == c"-":
        at += 1
    return at < text.length and _byte(text, at) == c">"


cdef enum:  # what the text at a scanner's place belongs to
    MARKUP = 0
    COMMENT
    RAW_TEXT
    SCRIPT_DATA  # the modes of a script: as it begins,
    SCRIPT_ESCAPED  # after <!-- in it,
    SCRIPT_NESTED  # and after a <script> there

# What `_begins` compares with. The numbers beside them are their lengths.
cdef const unsigned char* DASHES = b"--"
cdef const unsigned char* BANG = b"!--"
cdef const unsigned char* END_OF_COMMENT = b"-->"
cdef const unsigned char* NAME_OF_SCRIPT = b"script"
cdef const unsigned char* END_OF_SCRIPT = b"/script"
cdef const unsigned char* IS_NOFOLLOW = b"nofollow"
cdef const unsigned char* IS_CANONICAL = b"canonical"
cdef const unsigned char* IS_NEXT = b"next"
cdef const unsigned char* IS_PREV = b"prev"
cdef const unsigned char* IS_ALTERNATE = b"alternate"
cdef const unsigned char* IS_REFRESH = b"refresh"

# --- The scanner ------------------------------------------------------------------------------


cdef class Scanner:
    """Iterates over the elements with some names, and yields None between two steps.

    An element is its name and the attributes that links need, as `tokens.attributes_of` returns
    them. `text` is UTF-8; what isn't valid in it counts as U+FFFD. `names` are in lower case.

    If `references` are given, the scanner adds the plain links to them, and leaves out what holds
    no link: see `elements.elements`. `follow` is the flag of a link that is followed. `room.left`
    says how many references may still be added. Both may change meanwhile. `metas`: names of `meta`
    that are wanted, in lower case.
    """

    cdef bytes _bytes
    cdef _Text _text  # the bytes of `_bytes`
    cdef _Tags _tags
    cdef frozenset _names
    cdef dict _references
    cdef object _room
    cdef long _follow
    cdef frozenset _metas
    cdef Py_ssize_t _at
    cdef Py_ssize_t _pause
    cdef int _returned  # elements in this step, and references that were added
    cdef int _inside
    cdef Py_ssize_t _start  # of the comment or the raw text
    cdef int _raw  # the number of the element with the raw text
    cdef long _templates
    cdef long _foreign
    cdef bint _has_frameset
    cdef list _unread  # start and end of each noframes before the frameset
    cdef object _hidden  # iterates over the elements in them
    cdef int _htmls  # tags `html` before the title
    cdef Py_ssize_t _html_start  # of the attributes of the first
    cdef Py_ssize_t _html_end
    cdef Py_ssize_t _title_start  # of the first title, or 0
    cdef Py_ssize_t _title_end  # 0 if it wasn't found
    # Of the last tag: which attributes are given that links need, and where their values are.
    cdef unsigned int _given
    cdef Py_ssize_t _starts[MOST_GIVEN]
    cdef Py_ssize_t _ends[MOST_GIVEN]

    def __cinit__(
        self,
        bytes text not None,
        frozenset names not None,
        dict references=None,
        room=None,
        long follow=0,
        frozenset metas not None=frozenset(),
    ):
        self._bytes = text
        self._text = _Text(text, len(text))
        self._names = names
        self._tags = _tags_of(names)
        self._references = references
        self._room = room
        self._follow = follow
        self._metas = metas
        self._pause = STEP
        self._unread = []

    def __iter__(self):
        return self

    def __next__(self):
        cdef Py_ssize_t at, length = self._text.length
        cdef int byte
        while True:
            if self._hidden is not None:
                for element in self._hidden:
                    return element
                self._hidden = None
            if self._at >= length:
                raise StopIteration
            if self._at >= self._pause or self._returned >= ELEMENTS:
                self._pause = self._at + STEP
                self._returned = 0
                return None
            if self._inside != MARKUP:
                if self._inside == COMMENT:
                    self._search_comment()
                elif self._inside == RAW_TEXT:
                    self._search_raw_text()
                else:
                    self._search_script()
                continue
            at = _find(self._text, c"<", self._at, length)
            if at < 0 or at + 1 >= length:
                self._at = length
                continue
            byte = _byte(self._text, at + 1)
            if KIND[byte] & LETTER:
                element = self._open(at + 1)
                if element is not None:
                    self._returned += 1
                    return element
            elif byte == c"/" and at + 2 < length and KIND[_byte(self._text, at + 2)] & LETTER:
                self._close(at + 2)
            elif byte == c"!" and _begins(self._text, at + 2, DASHES, 2):
                self._inside = COMMENT
                self._start = self._at = at + 4
            elif byte == c"!" or byte == c"?" or byte == c"/":
                at = _find(self._text, c">", at + 2, length)
                self._at = at + 1 if at >= 0 else length
            else:
                self._at = at + 1

    def head(self):
        """Return the text of the attributes of `html` and of the title, as the page writes them.

        Returns None if the page doesn't begin as most pages do, or isn't read up to its title.
        """
        if (
            not 0 < self._title_start <= self._title_end
            or self._title_start > USUAL_HEAD
            or self._title_end - self._title_start > USUAL_TITLE
            or self._htmls > 1
            or self._html_end - self._html_start > USUAL_HTML
            or self._has_frameset
        ):
            return None
        return (
            _decode(self._text, self._html_start, self._html_end),
            _decode(self._text, self._title_start, self._title_end),
        )

    cdef object _open(self, Py_ssize_t start):
        """Read a start tag whose name starts at a place. Return its element, or None."""
        cdef Py_ssize_t end = _end_of_name(self._text, start)
        cdef int number = self._tags.number(self._text, start, end)
        cdef int role = self._tags.roles[number] if number >= 0 else 0
        cdef bint closes_itself
        if not self._read_rest(end, (role & (WANTED | TEMPLATE)) != 0) or not role:
            return None
        closes_itself = _byte(self._text, self._at - 2) == c"/"
        if role & FRAMESET and not self._has_frameset:
            self._has_frameset = True
            self._hidden = chain(
                *[
                    Scanner(
                        self._bytes[first:last],
                        self._names,
                        self._references,
                        self._room,
                        self._follow,
                        self._metas,
                    )
                    for first, last in self._unread
                ]
            )
        element = None
        if role & WANTED and not self._templates and not (self._foreign and role & TITLE):
            if self._references is None or not self._is_settled(role):
                element = (self._tags.names[number], self._mapping())
        elif role & TEMPLATE:
            mode = self._mapping().get("shadowrootmode", "")
            if self._templates or mode.lower() not in tokens.SHADOW_ROOTS:
                self._templates += 1
        elif role & NESTED and not closes_itself:
            self._foreign += 1
        if role & (HTML | TITLE) and not self._templates and not self._title_start:
            if role & HTML:
                self._htmls += 1
                if self._htmls == 1:
                    self._html_start, self._html_end = end, self._at - 1
            elif not self._foreign:
                self._title_start = self._at
        if role & RAW and not (self._foreign and closes_itself):
            if role & PLAINTEXT:
                self._at = self._text.length
            elif not (role & NOFRAMES and self._has_frameset):
                self._inside = SCRIPT_DATA if role & SCRIPT else RAW_TEXT
                self._start = self._at
                self._raw = number
        return element

    cdef int _close(self, Py_ssize_t start) except -1:
        """Read an end tag whose name starts at a place."""
        cdef Py_ssize_t end = _end_of_name(self._text, start)
        cdef int number, role
        if not self._read_rest(end, False) or not (self._templates or self._foreign):
            return 0
        number = self._tags.number(self._text, start, end)
        role = self._tags.roles[number] if number >= 0 else 0
        if role & TEMPLATE:
            self._templates = max(0, self._templates - 1)
        elif role & NESTED:
            self._foreign = max(0, self._foreign - 1)
        return 0

    cdef inline bint _read_rest(self, Py_ssize_t at, bint wanted) except -1:
        """Do what `_read_attributes` does. Most tags have no attributes."""
        if at < self._text.length and _byte(self._text, at) == c">":
            self._given = 0
            self._at = at + 1
            return True
        return self._read_attributes(at, wanted)

    cdef bint _read_attributes(self, Py_ssize_t at, bint wanted) except -1:
        """Read a tag on from the end of its name. If wanted, note the attributes that links need.

        Returns whether the tag has an end. If it has none, neither has the page anything more.
        """
        cdef _Text text = self._text
        cdef Py_ssize_t length = text.length, name, end_of_name, start, end, count = 0
        cdef int number, named = 0
        cdef int byte
        self._given = 0
        self._at = length
        while True:
            while at < length and KIND[_byte(text, at)] & (BLANK | SLASH):
                at += 1
            if at >= length:
                return False
            if _byte(text, at) == c">":
                self._at = at + 1
                return True
            if count == MOST_ATTRIBUTES:
                return False
            count += 1
            name = at
            at += 1  # the name may start with =
            while at < length and not KIND[_byte(text, at)] & (BREAK | EQUALS):
                at += 1
            end_of_name = start = end = at
            while at < length and KIND[_byte(text, at)] & BLANK:
                at += 1
            if at < length and _byte(text, at) == c"=":
                at += 1
                while at < length and KIND[_byte(text, at)] & BLANK:
                    at += 1
                if at >= length:
                    return False
                byte = _byte(text, at)
                if byte == c'"' or byte == c"'":
                    start = at + 1
                    end = _find(text, byte, start, length)
                    if end < 0:
                        return False
                    at = end + 1
                else:
                    start = at
                    while at < length and not KIND[_byte(text, at)] & (BLANK | ANGLE):
                        at += 1
                    end = at
            if wanted:
                number = ATTRIBUTES.number(text, name, end_of_name)
                if number >= 0:
                    named += 1
                    if named <= MOST_NAMED and not self._given & (1 << number):
                        self._given |= 1 << number
                        self._starts[number] = start
                        self._ends[number] = end

    cdef bint _is_settled(self, int role) except -1:
        """Whether the element of the last tag changes nothing in the references, or not any more.

        Only plain cases are settled here.
        """
        if role & LINK:
            return not self._given & (1 << HREF) or self._add_link()
        if role & RELATION:  # see headers.link_kinds
            return not (
                self._may_hold(REL, IS_CANONICAL, 9)
                or self._may_hold(REL, IS_NEXT, 4)
                or self._may_hold(REL, IS_PREV, 4)
                or self._may_hold(REL, IS_ALTERNATE, 9)
            )
        return role & META and self._is_other_meta()

    cdef bint _is_other_meta(self) except -1:
        """Whether the last tag, a `meta`, surely has no name that is wanted, and no refresh."""
        cdef Py_ssize_t start = self._starts[NAME], end = self._ends[NAME]
        if self._may_hold(HTTP_EQUIV, IS_REFRESH, 7):
            return False
        if not self._given & (1 << NAME):
            return True
        if end - start > SHORT or self._is_escaped(start, end):
            return False
        return _decode(self._text, start, end).strip().lower() not in self._metas

    cdef bint _add_link(self) except -1:
        """Add the href of the last tag to the references, if it is plain and there is room.

        Returns whether that is done. See `links.bare`.
        """
        cdef _Text text = self._text
        cdef Py_ssize_t start = self._starts[HREF], end = self._ends[HREF], fragment
        cdef str reference
        cdef long flags = 0
        if end - start > SHORT or self._is_escaped(start, end):
            return False
        if end > start and (_byte(text, start) <= c" " or _byte(text, end - 1) <= c" "):
            return False
        fragment = _find(text, c"#", start, end)
        if fragment >= 0:
            end = fragment
            if end > start and _byte(text, end - 1) <= c" ":
                return False
        reference = _decode(text, start, end)
        known = self._references.get(reference)
        if known is not None:
            flags = known
            if flags & self._follow:
                return True
        if self._may_hold(REL, IS_NOFOLLOW, 8):
            return False
        if known is None:
            if self._room.left <= 0:
                return False
            self._room.left -= 1
            self._returned += 1
        self._references[reference] = flags | self._follow
        return True

    cdef bint _may_hold(self, int number, const unsigned char* word, int length) except -1:
        """Whether an attribute of the last tag may have a word in its value, in any case."""
        cdef Py_ssize_t start = self._starts[number], end = self._ends[number], at
        if not self._given & (1 << number):
            return False
        if end - start > SHORT or self._is_escaped(start, end):
            return True
        for at in range(start, end - length + 1):
            if _begins(self._text, at, word, length):
                return True
        return False

    cdef inline bint _is_escaped(self, Py_ssize_t start, Py_ssize_t end) except -1:
        """Whether a value isn't what it means: there may be a character reference in it, or NUL."""
        return _find(self._text, c"&", start, end) >= 0 or _find(self._text, 0, start, end) >= 0

    cdef dict _mapping(self):
        """Return the attributes of the last tag that links need."""
        cdef dict found = {}
        cdef int number
        cdef Py_ssize_t start, end
        for number in range(len(ATTRIBUTES.names)):
            if self._given & (1 << number):
                start, end = self._starts[number], self._ends[number]
                name = ATTRIBUTES.names[number]
                value = _decode(self._text, start, end)
                if number == SRCDOC or end - start > SHORT or self._is_escaped(start, end):
                    value = tokens.value_of(name, value)
                found[name] = value
        return found

    # In each of these, a mark may span two steps: it is looked at from its start, and as far as the
    # text goes. If the end isn't in this step, the place moves to the end of the step.

    cdef int _search_comment(self) except -1:
        """Go to the end of a comment, if it is in this step."""
        cdef _Text text = self._text
        cdef Py_ssize_t end = min(self._at + STEP, text.length), at = self._at, dashes
        while True:
            at = _find(text, c">", at, end)
            if at < 0:
                self._at = end
                return 0
            dashes = at - 1 if at - 1 >= self._start and _byte(text, at - 1) == c"!" else at
            if dashes - 2 >= self._start:
                if _byte(text, dashes - 1) == c"-" and _byte(text, dashes - 2) == c"-":
                    break
            if at <= self._start + 1 and _is_abrupt(text, self._start):
                break
            at += 1
        self._inside = MARKUP
        self._at = at + 1
        return 0

    cdef int _search_raw_text(self) except -1:
        """Go to the end tag of an element whose content is no markup, if it is in this step."""
        cdef _Text text = self._text
        cdef Py_ssize_t end = min(self._at + STEP, text.length), at = self._at
        cdef Py_ssize_t length = self._tags.lengths[self._raw]
        while True:
            at = _find(text, c"<", at, end)
            if at < 0:
                self._at = end
                return 0
            if (
                at + 1 < text.length
                and _byte(text, at + 1) == c"/"
                and self._tags.number(text, at + 2, at + 2 + length) == self._raw
                and _breaks(text, at + 2 + length)
            ):
                break
            at += 1
        if self._tags.roles[self._raw] & NOFRAMES and len(self._unread) < MOST_NOFRAMES:
            self._unread.append((self._start, at))
        if self._start == self._title_start:
            self._title_end = at
        self._inside = MARKUP
        self._at = at
        return 0

    cdef int _search_script(self) except -1:
        """Go to the end tag of a script, if it is in this step."""
        cdef _Text text = self._text
        cdef Py_ssize_t end = min(self._at + STEP, text.length), at = self._at
        while at < end:
            if self._inside == SCRIPT_DATA:
                at = _find(text, c"<", at, end)
                if at < 0:
                    break
            if _byte(text, at) == c"<":
                if _begins(text, at + 1, END_OF_SCRIPT, 7) and _breaks(text, at + 8):
                    if self._inside != SCRIPT_NESTED:
                        self._inside = MARKUP
                        self._at = at
                        return 0
                    self._inside = SCRIPT_ESCAPED
                    at += 8
                elif self._inside == SCRIPT_DATA and _begins(text, at + 1, BANG, 3):
                    at += 4
                    if not _is_abrupt(text, at):
                        self._inside = SCRIPT_ESCAPED
                elif (
                    self._inside == SCRIPT_ESCAPED
                    and _begins(text, at + 1, NAME_OF_SCRIPT, 6)
                    and _breaks(text, at + 7)
                ):
                    self._inside = SCRIPT_NESTED
                    at += 7
                else:
                    at += 1
            elif _byte(text, at) == c"-" and _begins(text, at, END_OF_COMMENT, 3):
                self._inside = SCRIPT_DATA
                at += 3
            else:
                at += 1
        self._at = end if at < 0 else max(at, end)
        return 0
