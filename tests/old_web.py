"""The web of the old sessions in instances/sessions-50aa9cd, a session of each mode.

They were written by the code at commit 50aa9cd on two ranks, and stopped after 20 pages:

    mpirun -n 2 python -m crawler crawl http://a.example/0 http://b.example/0 http://c.example/0
        http://d.example/0 --session MODE --max-pages 20 --set session.mode=MODE
        --set politeness.delay_s=0 --set fetch.allow_private_addresses=true
        --set 'dns.hosts={"a.example" = "127.0.0.1:PORT", ...}'
"""

from collections.abc import Mapping

from servers import Page, PageServer

HOSTS = ("a.example", "b.example", "c.example", "d.example")
MODES = ("exchange", "firewall", "cross-over", "independent")
_PAGES = 10  # of a host, each in a chain of links from the first one
_HTML = {"Content-Type": "text/html"}

SEEDS = tuple(f"http://{host}/0" for host in HOSTS)
MOVED = tuple(f"http://{host}/moved" for host in HOSTS)  # redirect to a page
HIDDEN = tuple(f"http://{host}/hidden" for host in HOSTS)  # robots.txt forbids them
PAGES = tuple(f"http://{host}/{number}" for host in HOSTS for number in range(_PAGES))


def served() -> PageServer:
    """A server of this web, for all its hosts."""
    return PageServer({}, {host: _pages(index) for index, host in enumerate(HOSTS)})


def _pages(host: int) -> Mapping[str, Page | bytes]:
    following = HOSTS[(host + 1) % len(HOSTS)]
    robots = b"User-agent: *\nDisallow: /hidden\n"
    pages: dict[str, Page | bytes] = {
        "/robots.txt": Page(robots, headers={"Content-Type": "text/plain"}),
        "/moved": Page(status=302, headers={"Location": f"http://{following}/{_PAGES - 1}"}),
    }
    for number in range(_PAGES):
        links = [f"/{(number + 1) % _PAGES}", f"http://{following}/{number}", "/moved", "/hidden"]
        text = "".join(f'<a href="{link}">{number}</a>' for link in links)
        pages[f"/{number}"] = Page(f"<p>{text}".encode(), headers=_HTML)
    return pages
