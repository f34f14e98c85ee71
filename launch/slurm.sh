#!/bin/bash
# One crawl under Slurm, however many jobs it takes:
#
#     sbatch launch/slurm.sh CONFIG.toml SESSION [more words for the crawl]
#
# Shortly before its time limit the job stops the crawl and requeues itself, until the crawl is
# complete. A node failure or a preemption requeues it too. SESSION must lie where all nodes see it.
#SBATCH --job-name=crawl
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=8
#SBATCH --time=04:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=%x-%j.out
# To this script, 120 s before the end (or up to a minute earlier): more than session.stop_grace.
#SBATCH --signal=B:USR1@120

config=${1:?the configuration} session=${2:?the directory of the session}
shift 2
# How your cluster starts the ranks: the mpirun of your MPI, which knows Slurm's nodes by itself; or
# srun with --kill-on-bad-exit=1, so that a lost rank ends them all, as mpirun does.
start=${START:-mpirun}
python=${PYTHON:-python3}
lives=${LIVES:-3} # how often a job takes a crawl up again whose ranks were lost
pause_s=${PAUSE_S:-10}

stopping=0
trap 'stopping=1; kill -USR1 "$crawl" 2>/dev/null' USR1
while true; do
    # As a child, so that this script hears the signal; srun and mpirun pass it on to the ranks.
    # shellcheck disable=SC2086  # $start and $python may be several words
    $start $python -m crawler crawl "$config" --session "$session" --resume "$@" &
    crawl=$!
    wait "$crawl"
    while kill -0 "$crawl" 2>/dev/null; do # the signal has ended the wait, not the crawl
        wait "$crawl"
    done
    wait "$crawl" # bash keeps the exit code
    code=$?
    if [[ $code == 3 ]]; then # complete, so jobs that depend on this one may begin
        echo "some pages met an internal error: see agent.log of each rank" >&2
        code=0
    fi
    # It has ended itself: complete, misused, stopped.
    if [[ $code == 0 || $code == 2 || $code == 75 ]]; then break; fi
    echo "the crawl was lost (exit code $code)" >&2
    # Also by the signal, if it comes before the ranks listen. Nothing is lost by that.
    if ((stopping || lives-- == 0)); then break; fi
    sleep "$pause_s"
done

# Stopped, to be resumed. The job keeps its number, so that jobs that depend on it wait on.
if [[ $code == 75 ]] || ((stopping && code != 0 && code != 2)); then
    scontrol requeue "$SLURM_JOB_ID"
fi
exit "$code"
