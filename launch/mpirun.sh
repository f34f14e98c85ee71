#!/bin/bash
# One crawl on hosts of your own, without a scheduler:
#
#     launch/mpirun.sh HOSTFILE RANKS CONFIG.toml SESSION [more words for the crawl]
#
# HOSTFILE has a host a line; ssh must reach each without a password. If a rank or a host is lost,
# the crawl is resumed; to stop it: python -m crawler stop SESSION. SESSION must lie where all hosts
# see it. With Open MPI 5, MPIRUN="mpirun --with-ft ulfm" lets the others go on without a lost rank.
hosts=${1:?a file with a host a line} ranks=${2:?how many ranks}
config=${3:?the configuration} session=${4:?the directory of the session}
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
        0 | 1 | 2 | 3 | 75) exit "$code" ;; # ended itself: done, failed, misused, internal errors, stopped
    esac
    echo "the crawl was lost (exit code $code); it is resumed in $pause_s s" >&2
    sleep "$pause_s"
done
