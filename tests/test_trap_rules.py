"""A rule on traps that fails on a URL has nothing against the URL."""

import logging

import pytest

from crawler import config
from crawler.core.trap_rules import TrapRules
from crawler.faults import Faults
from crawler.ports import CrawlUrl, Failure, PageRow, errand
from crawler.reading.traps import TrapMonitor

SITE = "http://a.example"
PAGE = CrawlUrl(1, f"{SITE}/", SITE, 0)
ERRAND = PAGE._replace(url=errand(f"{SITE}/robots.txt", 1))


def rules(*rows: PageRow) -> tuple[TrapRules, Faults]:
    """Rules by which a site is full after a byte, and one barren host closes its domain."""
    monitor, faults = TrapMonitor(config.Traps(max_bytes_per_site=1, max_barren_hosts=1)), Faults()
    for row in rows:
        monitor.stored(row)
    return TrapRules(monitor, faults), faults


def row(*, status: int, size: int) -> PageRow:
    return PageRow(PAGE.url, 1, SITE, 0, 0, 0, 0.0, 0.0, "10.0.0.1", status, bytes=size)


def test_a_rule_that_fails_costs_nothing_but_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rules hash the text of a URL, and this one can't be encoded.

    So pytest couldn't report what is logged, either.
    """
    monkeypatch.setattr(logging.getLogger("crawler"), "disabled", True)
    asked, faults = rules(row(status=404, size=0))
    asked.poor.add(1)
    odd = PAGE._replace(url="http://\ud800.example/", site="http://\ud800.example")
    asked.welcome(odd.url)
    assert asked.admits(odd, None)
    assert not asked.is_poor(odd)
    assert asked.refusal(odd) is None
    assert asked.refusal_at(odd, "10.0.0.1") is None
    assert faults.count == 5


def test_an_errand_is_made_to_a_full_site_but_not_to_a_closed_domain() -> None:
    asked, _ = rules(row(status=200, size=1))
    assert asked.refusal(PAGE) is Failure.SITE_FULL
    assert asked.refusal(ERRAND) is None
    asked, _ = rules(row(status=404, size=1))
    assert asked.refusal(ERRAND) is Failure.TOO_MANY_HOSTS
    assert asked.refusal_at(PAGE, "10.0.0.1") is Failure.TOO_MANY_HOSTS
    assert asked.refusal_at(PAGE, "10.0.0.2") is None
