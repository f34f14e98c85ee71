"""Crawls a session on all ranks together, goes on when some of them are lost, and ends it.

The command line and the demonstration enter `crawl` on all ranks at a time, with the plan that
`planning` has made on rank 0.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

from crawler import session
from crawler.agent.agent import Agent
from crawler.agent.job import Ending, Job
from crawler.agent.planning import Plan, prepare_again
from crawler.agent.progress import Board
from crawler.core.order import pagerank_by_key
from crawler.modes import mode_of
from crawler.ports import Group, LostRankError, NoRoomError
from crawler.report.correcting import correction_of
from crawler.report.counters import Counters, write_counters
from crawler.report.endings import is_success
from crawler.report.report import write_metrics

_DEAD_LOCK_S = 120.0  # a file server holds the locks of a dead node for a minute or more


async def crawl(plan: Plan, group: Group, reachable: Collection[int] | None = None) -> Ending:
    """Run one session on all ranks; how it ended, on all.

    When ranks are lost, and the MPI lets the others go on, these begin a further run of the
    session: they replay the logs, also those of the lost ranks, as a resume on fewer ranks does.
    In the modes whose number of ranks must stay the same, LostRankError is raised instead.

    `reachable`: see report.write_counters; rank 0's counts.
    """
    session.join_session(plan.directory)
    ending = None
    try:
        ending = await _crawl_to_the_end(plan, group, reachable)
    finally:
        session.leave_session(plan.directory)
        session.unlock_session(plan.directory, crawled=ending is not None)
    return ending


async def _crawl_to_the_end(plan: Plan, group: Group, reachable: Collection[int] | None) -> Ending:
    """Make one run after the other, until a run ends without the loss of a rank."""
    job = Job(Board(plan.settings.session.max_pages))
    while True:
        transport = agent = ending = None
        try:
            if job.lost:
                plan = await _plan_again(plan, group, job)
            transport = await group.connect()
            with session.mistakes_told():
                agent = Agent(plan, group, transport, await _earlier_scores(plan, group), job)
            ending = await _crawl_once(agent, plan, group, job, reachable)
        except LostRankError:
            if not mode_of(plan.settings).may_change_ranks:
                raise
            if transport is not None:
                transport.abandon()
        # All or none: a rank that dies at the very end may have told only some that all is done.
        if await group.all_done(ending is not None):
            assert ending is not None
            assert agent is not None
            agent.close()
            return ending
        for left in (transport, agent):
            if left is not None:
                left.abandon()
        ranks = group.size
        await group.survive()
        job.lost += ranks - group.size


async def _plan_again(plan: Plan, group: Group, job: Job) -> Plan:
    """The plan of the ranks that are left. An order to stop that has just come holds for them."""
    again = None
    if group.rank == 0:
        # The lock may have been the lost rank's. An intruder who has it finds that ranks are alive.
        session.lock_session(plan.directory, session.CRAWLED, _DEAD_LOCK_S)
        if session.is_asked_to_stop(plan.directory):  # `prepare_again` takes it away
            job.stopped = job.stopped or "stop"
        lost = session.load(plan.directory).last.ranks - group.size
        session.finish(plan.directory, False, "lost rank", lost=lost)
        again = prepare_again(plan.directory, plan.settings, group.size, _DEAD_LOCK_S)
    again = await group.bcast(again)
    assert again is not None
    return again


async def _earlier_scores(plan: Plan, group: Group) -> session.EarlierScores | None:
    """The PageRank of the previous session's pages, if the order asks for it; computed once."""
    settings, path = plan.settings, plan.directory / "previous-pagerank.npy"
    if settings.frontier.order != "pagerank" or not settings.session.previous:
        return None
    if group.rank == 0:
        previous = Path(settings.session.previous)
        links = session.read_links(previous, correction_of(previous))
        session.EarlierScores.write(path, *pagerank_by_key(*links))
    await group.bcast(None)
    scores = session.EarlierScores(path)
    await group.gather(None)
    if group.rank == 0:
        path.unlink()  # the ranks go on to have it in memory
    return scores


async def _crawl_once(
    agent: Agent, plan: Plan, group: Group, job: Job, reachable: Collection[int] | None
) -> Ending:
    """Make one run of the session, and let rank 0 write its report."""
    everybody = await group.gather(await agent.run())
    endings = [one for _, one, _ in everybody]
    ending = await group.bcast(  # only rank 0's counts
        Ending(
            all(one.complete for one in endings),
            next((one.stopped for one in endings if one.stopped), ""),
        )
    )
    if not ending.complete:
        agent.leave_snapshot()
    if group.rank == 0:
        for _, _, warnings in everybody:
            job.board.say_rest(warnings)
        ending = _report(plan, ending, [counters for counters, _, _ in everybody], reachable)
    return await group.bcast(ending)


def _report(
    plan: Plan, ending: Ending, counters: Sequence[Counters], reachable: Collection[int] | None
) -> Ending:
    """Write how the run ended, the tables and the measures; the ending with what they say."""
    try:
        with session.mistakes_told(str(plan.directory)):
            if not ending.stopped and not session.holds(plan.directory, is_success):
                ending = replace(ending, fetched=False)
            complete = ending.complete and ending.fetched
            session.finish(plan.directory, complete, ending.reason)
            if ending.complete:
                plan.snapshots.remove()
            write_counters(plan.directory, plan.run, counters, reachable)
            metrics = write_metrics(plan.directory)
            return replace(ending, internal_errors=metrics["internal_errors"])
    except (NoRoomError, OSError) as error:
        if isinstance(error, OSError) and not session.is_no_room(error):
            raise
        return replace(ending, reported=False)
