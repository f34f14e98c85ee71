"""Writes the HTML of pages: random sentences with words of a topic, and links in all spellings."""

import posixpath
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Final, Literal
from urllib.parse import unquote

TOPICS: Final = {
    "botany": "fern orchid moss herbarium petal root pollen meadow seedling bark leaf conifer",
    "astronomy": "comet orbit telescope nebula eclipse planet lens galaxy dusk meteor moon dome",
    "railway": "engine signal platform gauge tunnel carriage siding timetable boiler track depot",
    "music": "violin chord tempo choir fugue melody organ rehearsal score quartet reed drum",
    "cookery": "oven dough pepper broth simmer recipe butter lentil skillet herb crust pantry",
    "sailing": "harbour mast tide keel anchor compass rudder regatta hull gale rope buoy",
    "printing": "typeface margin folio press engraving ink binding quire paper proof serif plate",
    "geology": "basalt fault mineral quarry strata fossil glacier granite crater ridge silt ore",
}
WORDS: Final = """
the of and to in a is that it was for on are as with his they at be this from have or by one had
not but what all were when we there can an your which their said if do will each about how up out
them then she many some so these would other into has more her two like him see time could no make
than first been its who now people my made over did down only way find use may water long little
very after called just where most know get through back much before go good new write our used me
man too any day same right look think also around another came come work three word must because
does part even place well such here take why things help put years different away again off went
old number great tell men say small every found still between name should home big give air line
set own under read last never us left end along while might next sound below saw something thought
both few those always looked show large often together asked house world going want school important
until form food keep children feet land side without boy once animals life enough took sometimes
four head above kind began almost live page got earth need far hand high year mother light parts
country father let night following picture being study second eyes soon times story boys since
white days ever paper hard near sentence better best across during today others however sure means
knew try told young miles sun ways thing whole hear example heard several change answer room sea
against top turned learn point city play toward five using himself usually
""".split()  # noqa: SIM905

Encoding = Literal["utf-8", "windows-1252", "windows-1251", "shift_jis"]
_GREETINGS: Final[Mapping[Encoding, str]] = {
    "utf-8": "Crème brûlée — “voilà”.",
    "windows-1252": "Déjà vu: une façade naïve, für 20 €.",
    "windows-1251": "Добро пожаловать на нашу страницу.",
    "shift_jis": "ようこそ、私たちのページへ。",
}


@dataclass(frozen=True, slots=True)
class Link:
    """A link, with the value of its `rel` attribute."""

    target: str  # normalised URL
    rel: str = ""


@dataclass(slots=True)
class Page:
    """The plan of an HTML page, from which `write` makes its HTML."""

    url: str  # normalised
    topic: str
    size: int  # approximate, in bytes
    navigation: Sequence[Link]  # links that every page of the site has
    links: list[Link] = field(default_factory=list)
    base: str = ""  # path in the base element; empty for a page without a base element
    encoding: Encoding = "utf-8"

    def targets(self) -> list[str]:
        """The different targets of the page's links, without the page itself."""
        targets = dict.fromkeys(link.target for link in (*self.navigation, *self.links))
        targets.pop(self.url, None)
        return list(targets)


def make_sentences(rng: random.Random, topic: str) -> list[str]:
    """Make 3,000 random sentences of common words and words of the topic."""
    words = WORDS + TOPICS[topic].split() * 6
    weights = [1 / (rank + 8) for rank in range(len(WORDS))]
    weights += [0.004] * (len(words) - len(WORDS))
    sentences = []
    for _ in range(3000):
        chosen = rng.choices(words, weights, k=rng.randint(5, 18))
        if len(chosen) > 11:
            chosen[6] += ","
        sentences.append(" ".join(chosen).capitalize() + ".")
    return sentences


def write(page: Page, seed: int, sentences: list[str]) -> bytes:
    """Write the HTML of a page, of about its planned size."""
    rng = random.Random(f"{seed} {page.url}")
    own = TOPICS[page.topic].split()
    title = f"{rng.choice(own)} and {rng.choice(own)}".capitalize()
    blocks = []
    room = page.size - 600 - 60 * (len(page.navigation) + len(page.links))
    while room > 0:
        blocks.append(_block(rng, own, rng.choices(sentences, k=rng.randint(3, 6))))
        room -= len(blocks[-1])
    blocks = blocks or [f"<p>{rng.choice(sentences)}</p>\n"]
    for link in page.links:
        words = f"{rng.choice(own)} {rng.choice(own)}"
        see = f"<p>{rng.choice(sentences)[:-1]} {_anchor(rng, page, link, words)}.</p>\n"
        blocks[rng.randrange(len(blocks))] += see
    menu = "".join(
        f"<li>{_anchor(rng, page, link, unquote(link.target).split('/')[-2])}</li>\n"
        for link in page.navigation
    )
    top = "" if page.base else '<a href="#main" class="skip">To the text</a>'
    head = f'<base href="{page.base}">\n' if page.base else ""
    if page.size % 3 == 0:
        head += f'<link rel="canonical" href="{escape(page.url)}">\n'
    html = f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="{page.encoding}">
<title>{title}</title>
{head}<link rel="stylesheet" href="/style.css">
</head>
<body>
<header>{top}<nav><ul>
{menu}</ul></nav></header>
<main id="main">
<h1>{title}</h1>
<p lang="">{_GREETINGS[page.encoding]}</p>
{"".join(blocks)}</main>
<footer><a href="mailto:us@{page.url.split("/")[2]}">Write to us</a></footer>
</body>
</html>
"""
    return html.encode(page.encoding)


def _block(rng: random.Random, words: list[str], sentences: list[str]) -> str:
    kind = rng.random()
    if kind < 0.15:
        items = "".join(f"<li>{sentence}</li>\n" for sentence in sentences)
        return f"<ul class='simple'>\n{items}</ul>\n"
    if kind < 0.25:
        rows = "".join(
            f"<tr><td>{rng.choice(words)}</td><td>{rng.randint(1, 999)}</td></tr>\n"
            for _ in sentences
        )
        return f"<table class='data'>\n{rows}</table>\n"
    name = rng.choice(words)
    heading = f"<h2 id='{name}'>On {name}</h2>\n" if kind < 0.5 else ""
    return f"{heading}<p>{' '.join(sentences)}</p>\n"


def _anchor(rng: random.Random, page: Page, link: Link, text: str) -> str:
    rel = f' rel="{link.rel}"' if link.rel else ""
    return f'<a href="{escape(_reference(rng, page, link.target))}"{rel}>{text}</a>'


def _reference(rng: random.Random, page: Page, target: str) -> str:
    """Choose one of the spellings of a link, relative or absolute."""
    _, _, host, rest = target.split("/", 3)
    chance = rng.random()
    if f"//{host}/" not in page.url:
        return target if chance < 0.9 else f"//{host}/{rest}"
    if chance < 0.1:
        return target
    path, question, query = f"/{rest}".partition("?")
    if chance < 0.7:
        base = page.base or page.url.partition("?")[0].removeprefix(f"http://{host}")
        folder, _, name = path.rpartition("/")
        way = posixpath.relpath(folder or "/", base[: base.rindex("/") + 1])
        path = f"{way}/{name}" if way != "." or not name else name
    if page.encoding == "utf-8":
        path = unquote(path)
    fragment = "#main" if chance < 0.15 else ""
    return path + question + query + fragment
