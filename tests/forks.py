"""Runs the crawler in forks of a process that has imported it, on one rank or under mpirun.

The import takes longer than most crawls of the tests. Each process of pytest has two such
processes, one for the ranks with even numbers and one for those with odd numbers. So the ranks of a
crawl don't all hash texts alike, and a result that depends on the order of a set still shows.

As a program, this file is either such a process, or a command, which may be a rank that mpirun
starts: a fork does its work, and it ends as the fork ends. It passes on no signals.
"""

import marshal
import os
import select
import signal
import socket
import sys

SERVERS = 2
_REQUEST_BYTES = 1 << 20


def ask(place, words, descriptors, path=None, timeout_s=None):
    """Run `python WORDS` in a fork, here and in this environment. Returns its exit code, which is
    negative if a signal ended it.

    `descriptors` become its standard files; a fourth one is its way to mpirun. `path` becomes its
    sys.path. If the caller dies or has waited too long (TimeoutError), the fork is killed.
    """
    here = os.getcwd()  # noqa: PTH109  # importing pathlib would take as long as all the rest
    request = marshal.dumps((list(words), path, here, dict(os.environ)))
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.settimeout(timeout_s)
        connection.connect(place)
        socket.send_fds(connection, [request], descriptors)
        return int(connection.recv(16))


def serve(listener):
    """Fork for each request, until the standard input is closed. Returns in the forks, with the
    words of the request."""
    import preloaded  # noqa: F401

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that watch the forks
    while listener in select.select([listener, sys.stdin], [], [])[0]:
        connection, _ = listener.accept()
        with connection:
            if not os.fork():
                listener.close()
                return _fork_and_watch(connection)
    os._exit(0)


def _fork_and_watch(connection):
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    request, descriptors, _, _ = socket.recv_fds(connection, _REQUEST_BYTES, 4)
    process = os.fork()
    if not process:
        connection.close()
        return _become(*marshal.loads(request), descriptors)
    for descriptor in descriptors:
        os.close(descriptor)
    ended = os.pidfd_open(process)
    if ended not in select.select([ended, connection], [], [])[0]:  # whoever asked is dead
        os.kill(process, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    try:
        connection.send(str(code).encode())
    finally:
        os._exit(0)


def _become(words, path, place, environment, descriptors):
    for standard, descriptor in enumerate(descriptors[:3]):
        os.dup2(descriptor, standard)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(environment)
    if descriptors[3:]:
        os.environ["PMI_FD"] = str(descriptors[3])
    os.chdir(place)
    sys.path[:] = path or sys.path
    return words


def _run(words):
    import runpy
    import types

    if words[0] == "-m":
        sys.modules.pop(f"{words[1]}.__main__", None)  # it is to be run, and not only imported
        sys.argv[:] = words[1:]
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    elif words[0] == "-c":
        sys.argv[:] = ["-c", *words[2:]]
        sys.modules["__main__"] = types.ModuleType("__main__")
        exec(words[1], sys.modules["__main__"].__dict__)
    else:
        sys.argv[:] = words
        runpy.run_path(words[0], run_name="__main__")


def _be_forked(folder, words):
    server = int(os.environ.get("PMI_RANK", "0")) % SERVERS
    mpirun = [int(os.environ["PMI_FD"])] if "PMI_FD" in os.environ else []
    code = ask(f"{folder}/{server}", words, [0, 1, 2, *mpirun])
    if code < 0:
        os.kill(os.getpid(), -code)
    sys.exit(code)


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        _run(serve(socket.socket(fileno=int(sys.argv[2]))))
    elif "OMPI_COMM_WORLD_RANK" in os.environ:  # Open MPI has other ways to its processes
        os.execv(sys.executable, [sys.executable, *sys.argv[2:]])
    else:
        _be_forked(sys.argv[1], sys.argv[2:])
