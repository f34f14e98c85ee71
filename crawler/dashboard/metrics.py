"""A status as metrics for Prometheus."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from crawler.session import Bound, RankStatus, State, Status

_Value = Callable[[RankStatus], float]
_COUNTERS: Final[dict[str, tuple[str, _Value]]] = {
    "abc_pages": ("responses in this run", lambda row: row.pages),
    "abc_errors": ("URLs with an error class, after their last try", lambda row: row.errors),
    "abc_received_bytes": ("bytes of payloads", lambda row: row.bytes),
}
_GAUGES: Final[dict[str, tuple[str, _Value]]] = {
    "abc_waiting_urls": ("URLs that are known and not fetched yet", lambda row: row.waiting),
    "abc_ready_sites": ("sites that may be asked now, up to 1000", lambda row: row.sites_ready),
    "abc_resting_sites": ("sites that must rest first", lambda row: row.sites_resting),
    "abc_failing_hosts": ("hosts whose latest requests failed", lambda row: row.hosts_failing),
    "abc_visits": ("visits under way", lambda row: row.fetching),
    "abc_connections": ("connections that may be used", lambda row: row.connections),
    "abc_cpu_cores": ("cores that the rank uses", lambda row: row.cpu),
    "abc_loop_lag_seconds": ("how late the event loop is", lambda row: row.lag_s),
    "abc_loop_longest_break_seconds": (
        "the longest time in which the rank kept its event loop from any other task",
        lambda row: row.longest_break_s,
    ),
    "abc_resident_memory_bytes": ("memory of the process", lambda row: row.memory),
    "abc_send_backlog_bytes": ("bytes that wait for the slowest rank", lambda row: row.backlog),
    "abc_silence_seconds": ("time since the latest note", lambda row: row.silent_s),
}


def exposition(status: Status) -> bytes:
    """Return the metrics of a status in the text format of Prometheus."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Metrics(status))
    return generate_latest(registry)


class _Metrics(Collector):
    """Gives the metrics of one status."""

    def __init__(self, status: Status) -> None:
        self._status = status

    def collect(self) -> Iterator[Metric]:
        yield from self._of_crawl()
        rows = self._status.rows
        for name, (about, value) in _COUNTERS.items():
            yield _labelled(
                CounterMetricFamily(name, about, labels=["rank"]),
                ((str(row.rank), value(row)) for row in rows),
            )
        for name, (about, value) in _GAUGES.items():
            yield _labelled(
                GaugeMetricFamily(name, about, labels=["rank"]),
                ((str(row.rank), value(row)) for row in rows),
            )
        yield _labelled(
            GaugeMetricFamily("abc_limited_by", "ranks, by what limits them", labels=["by"]),
            ((bound.value, sum(row.bound is bound for row in rows)) for bound in Bound),
        )

    def _of_crawl(self) -> Iterator[Metric]:
        status = self._status
        info = GaugeMetricFamily("abc_session_info", "the session", labels=["session"])
        info.add_metric([status.session], 1)
        yield info
        yield _labelled(
            GaugeMetricFamily("abc_state", "1 for what the crawl does", labels=["state"]),
            ((state.value, state is status.state) for state in State),
        )
        yield _labelled(
            CounterMetricFamily("abc_responses", "responses by status class", labels=["status"]),
            status.statuses.items(),
        )
        yield _labelled(
            CounterMetricFamily(
                "abc_failures", "URLs that gave no page, after their last try", labels=["reason"]
            ),
            status.by_failure.items(),
        )
        yield _labelled(
            CounterMetricFamily("abc_plugin_errors", "errors of plug-ins", labels=["plugin"]),
            status.plugin_errors.items(),
        )
        for name, about, count in (
            ("abc_requests", "requests for pages, requisites and robots.txt", status.requests),
            ("abc_good", "responses of success, and redirects", status.good),
            ("abc_messages", "messages between ranks", status.messages),
            ("abc_requisites", "responses for requisites", status.requisites),
            ("abc_early_requests", "requests that came earlier than promised", status.early),
        ):
            yield CounterMetricFamily(name, about, value=count)
        for name, about, value in (
            ("abc_session_pages", "responses of all runs", status.pages),
            ("abc_max_pages", "session.max_pages; 0: no limit", status.max_pages),
            ("abc_run_seconds", "duration of this run", status.seconds),
            ("abc_ranks", "ranks of this run", status.ranks),
        ):
            yield GaugeMetricFamily(name, about, value=value)


def _labelled(
    family: CounterMetricFamily | GaugeMetricFamily, values: Iterable[tuple[str, float]]
) -> Metric:
    """Return the family with these values of its label."""
    for label, value in values:
        family.add_metric([label], value)
    return family
