#!/bin/bash
# One crawl on hosts of your own, without a scheduler:
#
#     launch/mpirun.sh HOSTFILE RANKS CONFIG.toml SESSION [further options of the crawl]
#
# HOSTFILE has one host a line; ssh must reach each host without a password. SESSION must lie on a
# file system that all hosts see. If a rank or a host is lost, the script resumes the crawl. With
# Open MPI 5, MPIRUN="mpirun --with-ft ulfm" lets the other ranks go on without a lost rank. To stop
# the crawl: python -m crawler stop SESSION
hosts=${1:?missing: HOSTFILE, with one host a line} ranks=${2:?missing: RANKS, their number}
config=${3:?missing: CONFIG.toml} session=${4:?missing: SESSION, the directory}
shift 4
mpirun=${MPIRUN:-mpirun}
python=${PYTHON:-python3}
pause_s=${PAUSE_S:-30} # before the crawl is resumed

while true; do
    # shellcheck disable=SC2086  # $mpirun and $python may be several words
    $mpirun -hostfile "$hosts" -n "$ranks" \
        $python -m crawler crawl "$config" --session "$session" --resume "$@"
    code=$?
    case $code in
        # The crawl ended itself: done, failed, wrong usage, internal errors, stopped.
        0 | 1 | 2 | 3 | 75) exit "$code" ;;
    esac
    echo "the crawl broke off (exit code $code); it is resumed in $pause_s s" >&2
    sleep "$pause_s"
done
