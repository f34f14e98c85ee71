#!/bin/bash
# One crawl under Grid Engine (SGE, Univa, Altair, Open Cluster Scheduler), however many runs it takes:
#
#     qsub launch/gridengine.sh CONFIG.toml SESSION [more words for the crawl]
#
# The crawl stops itself by --max-time; exit code 99 then makes Grid Engine run the job again.
# SESSION must lie where all hosts see it.
#$ -N crawl
#$ -pe mpi 32
#$ -l h_rt=04:00:00
#$ -r y
#$ -cwd
#$ -V
#$ -j y
#$ -S /bin/bash

config=${1:?the configuration} session=${2:?the directory of the session}
shift 2
max_time=${max_time:-3h50m}            # shorter than h_rt by session.stop_grace and some minutes
start=${start:-mpirun -n ${NSLOTS:-1}} # with an MPI that knows Grid Engine
python=${python:-python3}

# shellcheck disable=SC2086  # $start and $python may be several words
$start $python -m crawler crawl "$config" --session "$session" --resume --max-time "$max_time" "$@"
code=$?
if [[ $code == 75 ]]; then # stopped, to be resumed
    exit 99
fi
exit "$code"
