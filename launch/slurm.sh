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
# How your cluster starts the ranks: "mpirun" for Open MPI; this for MPICH. A lost rank ends them all.
start=${START:-srun --mpi=pmi2 --kill-on-bad-exit=1}
python=${PYTHON:-python3}
most=${MOST:-100} # requeues; each is a run of the session

# As a child, so that this script hears the signal; srun and mpirun pass it on to the ranks.
trap 'kill -USR1 "$crawl"' USR1
# shellcheck disable=SC2086  # $start and $python may be several words
$start $python -m crawler crawl "$config" --session "$session" --resume "$@" &
crawl=$!
wait "$crawl"
while kill -0 "$crawl" 2>/dev/null; do # the signal has ended the wait, not the crawl
    wait "$crawl"
done
wait "$crawl" # bash keeps the exit code
code=$?

# 75: stopped, to be resumed. Above 128, or 9: ranks were killed, as by the signal if it comes before
# they listen; nothing is lost by that. The job keeps its number, so jobs that depend on it wait on.
if [[ $code == 75 ]] || ((code > 128 || code == 9)) && ((${SLURM_RESTART_COUNT:-0} < most)); then
    scontrol requeue "$SLURM_JOB_ID"
fi
exit "$code"
