"""Crawls a session on all ranks together, run by run, and ends it.

A further run follows if ranks are lost, if URLs with the same key get different keys, and after a
checkpoint.

The command line and the demonstration call `crawl` on all ranks at the same time, with the plan
that `planning` has made on rank 0.
"""

from collections.abc import Collection, Sequence
from pathlib import Path

from msgspec.structs import replace

from crawler import config, session, url
from crawler.agent.agent import Agent
from crawler.agent.board import Board, Voice
from crawler.agent.job import CHECKPOINT, SHARED_KEYS, Ending, Job
from crawler.agent.losses import DEAD_LOCK_S
from crawler.agent.planning import Plan, prepare_again
from crawler.agent.telling_apart import tell_apart
from crawler.messages import Note
from crawler.modes import mode_of
from crawler.ports import Group, LostRankError, NoRoomError
from crawler.report.correcting import correction_of
from crawler.report.counters import Counters, write_counters
from crawler.report.endings import is_success
from crawler.report.importance import pagerank_by_key


async def crawl(
    plan: Plan,
    group: Group,
    reachable: Collection[int] | None = None,
    voice: Voice = Voice.NORMAL,
) -> Ending:
    """Crawl one session on all ranks. Returns on each rank how the crawl ended.

    If ranks are lost, and the MPI lets the other ranks go on, they begin a further run of the
    session. They replay all logs, as a resume on fewer ranks does, also the logs of the lost ranks.
    In modes whose number of ranks must stay the same, this raises LostRankError instead. If a seed
    server loses a client, the run itself goes on (`losses`). If URLs get other keys at the end of a
    run, all ranks begin a further run, in the same way. After a checkpoint
    (`config.Session.checkpoint`), the further run begins with the snapshots that the last one has
    left.

    `reachable`: see report.write_counters. `voice`: how much the user is told. Only the arguments
    of rank 0 are used.
    """
    session.join_session(plan.directory)
    ending = None
    try:
        ending = await _crawl_to_the_end(plan, group, reachable, voice)
    finally:
        session.leave_session(plan.directory)
        session.unlock_session(plan.directory, crawled=ending is not None)
    return ending


async def _crawl_to_the_end(
    plan: Plan, group: Group, reachable: Collection[int] | None, voice: Voice
) -> Ending:
    """Make one run after the other, until no further run must follow."""
    job = Job(Board(plan.directory, plan.settings, group.size, voice))
    if group.rank == 0:
        job.board.begin()
    while True:
        transport = agent = ending = None
        ranks = group.size
        try:
            if job.begins_anew:
                plan = await _plan_again(plan, group, job)
            url.tell_apart(plan.given_up)
            transport = await group.connect()
            with session.mistakes_told():
                agent = Agent(plan, group, transport, await _earlier_scores(plan, group), job)
            counted = await agent.run()
            if transport.lost:
                await _leave_behind(transport.lost, group)
            ending = await _end(agent, counted, transport.lost, plan, group, job, reachable)
        except LostRankError:
            if not mode_of(plan.settings).may_change_ranks:
                raise
            if transport is not None:
                transport.abandon()
        # The ranks end together, or none ends. A rank that dies at the very end may have told only
        # some of the others that the crawl is done.
        if await group.all_done(ending is not None):
            assert ending is not None
            assert agent is not None
            if not ending.goes_on:
                agent.close()
                return ending
            agent.make_way()
            job.begins_anew = True
            continue
        for left in (transport, agent):
            if left is not None:
                left.abandon()
        await group.survive()
        job.lost += ranks - group.size
        job.begins_anew = True


async def _plan_again(plan: Plan, group: Group, job: Job) -> Plan:
    """Return the plan of a further run. An order to stop that has just come still counts."""
    again = None
    if group.rank == 0:
        # A lost rank may have held the lock. If another command has taken the lock since then,
        # that command notices that ranks are alive, and gives up.
        session.lock_session(plan.directory, session.CRAWLED, DEAD_LOCK_S)
        if session.is_asked_to_stop(plan.directory):  # `prepare_again` removes the order
            job.stopped = job.stopped or "stop"
        last = session.load(plan.directory).last
        lost = last.ranks - group.size
        if lost or last.ended is None:
            session.finish(plan.directory, False, "lost rank", lost=lost)
        settings = _with_fewer_spares(plan.settings, lost)
        again = prepare_again(plan.directory, settings, group.size, DEAD_LOCK_S, plan.retried)
    again = await group.bcast(again)
    assert again is not None
    return again


def _with_fewer_spares(settings: config.Config, lost: int) -> config.Config:
    """Return settings in which a spare client takes the place of each lost rank."""
    spares = max(0, settings.dynamic.spares - lost)
    dynamic = settings.dynamic.replace(spares=spares)
    return settings.replace(dynamic=dynamic)


async def _earlier_scores(plan: Plan, group: Group) -> session.EarlierScores | None:
    """Return the PageRank of the previous session's pages, or None if the ordering needs none.

    The ranks compute it together. Each rank writes the scores of the pages that it holds, and maps
    the files of all ranks into its memory.
    """
    settings = plan.settings
    if settings.frontier.order != "pagerank" or not settings.session.previous:
        return None
    previous = Path(settings.session.previous)
    links = session.read_links(previous, correction_of(previous, session.load(previous)), group)
    pages = await pagerank_by_key(*links, group)
    name = "previous-pagerank-{}.npy"
    paths = [plan.directory / name.format(rank) for rank in range(group.size)]
    own = paths[group.rank]
    await session.done_by_all(group, lambda: session.EarlierScores.write(own, *pages))
    scores = session.EarlierScores(paths)
    await group.gather(None)
    if group.rank == 0:
        for path in plan.directory.glob(name.format("*")):  # also what a kill has left
            path.unlink()  # it stays mapped into the memory of the ranks
    return scores


async def _leave_behind(lost: Collection[int], group: Group) -> None:
    """Let the group go on without ranks that were lost in a run which all others have ended.

    Raises LostRankError if other ranks have not ended it, or have lost more ranks.
    """
    left = group.size - len(lost)
    if not await group.all_done(True, lost):
        raise LostRankError
    await group.survive()
    if group.size != left:
        raise LostRankError


async def _end(
    agent: Agent,
    counted: tuple[Counters, Ending, Note],
    lost: Collection[int],
    plan: Plan,
    group: Group,
    job: Job,
    reachable: Collection[int] | None,
) -> Ending:
    """End a run of the session together, and write its tables and its report.

    `counted`: what `Agent.run` has returned. `lost`: the ranks that were lost in this run.
    """
    everybody = await group.gather(counted)
    ending = await group.bcast(_joint([one for _, one, _ in everybody]))
    if ending.complete:
        agent.forget_snapshot()
    else:
        await agent.leave_snapshot()
    if group.rank == 0:
        for counters, _, note in everybody:
            job.board.update_last(counters.rank, note)
        if not ending.goes_on:
            await job.board.tell(session.State.REPORTING)
    if plan.settings.seen.exact and not ending.goes_on:
        ending = await _tell_apart(ending, plan, group, job)
    all_counters = [counters for counters, _, _ in everybody]
    ending = await _report(plan, ending, all_counters, lost, reachable, group)
    if group.rank == 0 and not ending.goes_on:
        await job.board.tell(session.State.ENDED, ending.reason)
    return ending


def _joint(endings: Sequence[Ending]) -> Ending:
    """Return how a run ended on all ranks together. What the user wants comes before a checkpoint.

    Only rank 0 has the endings of all ranks.
    """
    complete = all(one.complete for one in endings)
    reasons = {one.stopped: None for one in endings if one.stopped}  # in the order of the ranks
    is_checkpoint = CHECKPOINT in reasons
    reasons.pop(CHECKPOINT, None)
    stopped = next(iter(reasons), "")
    if is_checkpoint and not (stopped or complete):
        stopped = CHECKPOINT
    return Ending(complete, stopped)


async def _tell_apart(ending: Ending, plan: Plan, group: Group, job: Job) -> Ending:
    """Give URLs that have the same key different keys. If there are any, the crawl isn't complete.

    A snapshot that the ranks have just left doesn't fit any more then.
    """
    directory, starts = plan.directory, list[str]()
    if group.rank == 0:
        starts = [*map(url.of_seed, session.seeds(directory)), *session.replicated(directory)]
    count = await tell_apart(directory, starts, group)
    if not count:
        return ending
    if group.rank == 0:
        goes_on = "the crawl goes on" if ending.complete else "a resume fetches them"
        job.board.say([f"{count:,} URLs had the key of another URL, and get new keys; {goes_on}"])
    return Ending(False, SHARED_KEYS) if ending.complete else ending


async def _report(
    plan: Plan,
    ending: Ending,
    counters: Sequence[Counters],
    lost: Collection[int],
    reachable: Collection[int] | None,
    group: Group,
) -> Ending:
    """Write how the run ended, and together the tables and the measures.

    `counters`: those of all ranks, on rank 0. Returns the ending, completed by what the tables and
    measures say.
    """
    from crawler.report.report import write_metrics  # noqa: PLC0415  it takes a while to import

    def finish() -> Ending:
        return ending if group.rank else _finish(plan, ending, counters, lost, reachable)

    try:
        with session.mistakes_told(str(plan.directory)):
            ending = await group.bcast(await session.done_by_all(group, finish))
            if ending.goes_on:
                return ending
            metrics = await write_metrics(plan.directory, group)
            if metrics is not None:
                seeded = metrics["seeds_failed"] < metrics["seeds"] or bool(ending.stopped)
                internal = metrics["internal_errors"]
                ending = replace(ending, internal_errors=internal, seeded=seeded)
    except NoRoomError:
        ending = replace(ending, reported=False)
    return await group.bcast(ending)


def _finish(
    plan: Plan,
    ending: Ending,
    counters: Sequence[Counters],
    lost: Collection[int],
    reachable: Collection[int] | None,
) -> Ending:
    """Write how the run ended, and what the ranks have counted."""
    if not ending.stopped and not session.holds(plan.directory, is_success):
        ending = replace(ending, fetched=False)
    complete = ending.complete and ending.fetched
    session.finish(plan.directory, complete, ending.reason, lost=len(lost) or None)
    if ending.complete:
        plan.snapshots.remove()
    write_counters(plan.directory, plan.run, counters, lost, reachable)
    return ending
