#!/bin/bash
# One crawl under Grid Engine (SGE, Univa, Altair, OCS), however many runs it takes:
#
#     qsub launch/gridengine.sh CONFIG.toml SESSION [further options of the crawl]
#
# The crawl stops itself by --max-time. Exit code 99 then makes Grid Engine run the job again.
# SESSION must lie on a file system that all hosts see.
#$ -N crawl
#$ -pe mpi 32
#$ -l h_rt=04:00:00
#$ -r y
#$ -cwd
#$ -V
#$ -j y
#$ -S /bin/bash

config=${1:?missing: CONFIG.toml} session=${2:?missing: SESSION, the directory}
shift 2
max_time=${max_time:-3h50m}            # h_rt less session.stop_grace and some minutes
start=${start:-mpirun -n ${NSLOTS:-1}} # the mpirun of an MPI that supports Grid Engine
python=${python:-python3}

# shellcheck disable=SC2086  # $start and $python may be several words
$start $python -m crawler crawl "$config" --session "$session" --resume --max-time "$max_time" "$@"
code=$?
if [[ $code == 75 ]]; then # the crawl was stopped and can be resumed
    exit 99
fi
exit "$code"
