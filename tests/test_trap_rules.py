"""A rule on traps that fails on a URL has nothing against the URL."""

import pytest

from crawler import config
from crawler.core.trap_rules import TrapRules
from crawler.faults import Faults
from crawler.ports import CrawlUrl, Failure, errand
from crawler.reading.traps import TrapMonitor

PAGE = CrawlUrl(1, "http://a.example/", "http://a.example", 0)
ERRAND = PAGE._replace(url=errand("http://a.example/robots.txt", 1))


def rules() -> tuple[TrapRules, Faults]:
    faults = Faults()
    return TrapRules(TrapMonitor(config.Traps(max_bytes_per_site=1)), faults), faults


def test_a_rule_that_fails_costs_nothing_but_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> bool:
        raise ValueError

    for name in ("welcome", "admit", "is_poor", "is_full", "is_crowded"):
        monkeypatch.setattr(TrapMonitor, name, fail)
    asked, faults = rules()
    asked.welcome(PAGE.url)
    assert asked.admits(PAGE, None)
    assert not asked.is_poor(PAGE)
    assert asked.refusal(PAGE) is None
    assert asked.refusal_at(PAGE, "10.0.0.1") is None
    assert faults.count == 5


def test_an_errand_is_made_to_a_full_site_but_not_to_a_closed_domain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(TrapMonitor, "is_full", lambda *_: True)
    asked, _ = rules()
    assert asked.refusal(PAGE) is Failure.SITE_FULL
    assert asked.refusal(ERRAND) is None
    monkeypatch.setattr(TrapMonitor, "is_crowded", lambda *_: True)
    assert asked.refusal(ERRAND) is Failure.TOO_MANY_HOSTS
    assert asked.refusal_at(PAGE, "10.0.0.1") is Failure.TOO_MANY_HOSTS
