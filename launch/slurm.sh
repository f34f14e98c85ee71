#!/bin/bash
# One crawl under Slurm, however many jobs it takes:
#
#     sbatch launch/slurm.sh CONFIG.toml SESSION [further options of the crawl]
#
# Shortly before its time limit the job stops the crawl and requeues itself, until the crawl is
# complete. Slurm also requeues it after a node failure or a preemption. SESSION must lie on a file
# system that all nodes see.
#SBATCH --job-name=crawl
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=8
#SBATCH --time=04:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=%x-%j.out
# This script gets the signal 120 to 180 s before the end, which is more than session.stop_grace.
#SBATCH --signal=B:USR1@120

config=${1:?missing: CONFIG.toml} session=${2:?missing: SESSION, the directory}
shift 2
# The command that starts the ranks: the mpirun of your MPI, which gets the nodes from Slurm; or
# srun with --kill-on-bad-exit=1, so that a lost rank ends all ranks, as with mpirun.
start=${START:-mpirun}
python=${PYTHON:-python3}
lives=${LIVES:-3} # how often the job resumes the crawl after its ranks were lost
pause_s=${PAUSE_S:-10}

stopping=0
trap 'stopping=1; kill -USR1 "$crawl" 2>/dev/null' USR1
while true; do
    # In the background, so that this script gets the signal. srun and mpirun pass it to the ranks.
    # shellcheck disable=SC2086  # $start and $python may be several words
    $start $python -m crawler crawl "$config" --session "$session" --resume "$@" &
    crawl=$!
    wait "$crawl"
    while kill -0 "$crawl" 2>/dev/null; do # the signal has ended the wait, but not the crawl
        wait "$crawl"
    done
    wait "$crawl" # returns the exit code, which bash has kept
    code=$?
    if [[ $code == 3 ]]; then # the crawl is complete, so jobs that depend on this one may begin
        echo "some pages met an internal error: see agent.log of each rank" >&2
        code=0
    fi
    # The crawl ended itself: complete, wrong usage, stopped.
    if [[ $code == 0 || $code == 2 || $code == 75 ]]; then break; fi
    echo "the crawl broke off (exit code $code)" >&2
    # The signal kills the ranks if it comes before they listen. That loses no page.
    if ((stopping || lives-- == 0)); then break; fi
    sleep "$pause_s"
done

# The crawl can be resumed. The job keeps its number, so jobs that depend on it go on waiting.
if [[ $code == 75 ]] || ((stopping && code != 0 && code != 2)); then
    scontrol requeue "$SLURM_JOB_ID"
fi
exit "$code"
