#!/bin/bash
# One crawl under PBS Pro, OpenPBS or Torque, however many jobs it takes:
#
#     qsub -v config=CONFIG.toml,session=SESSION launch/pbs.sh
#
# PBS gives a job a few seconds' notice at most, so the crawl stops itself by --max-time; the job
# then submits the next one. SESSION must lie where all nodes see it.
#PBS -N crawl
#PBS -l select=4:ncpus=8:mpiprocs=8
#PBS -l walltime=04:00:00
#PBS -r y
#PBS -j oe
# Torque says the second line as: nodes=4:ppn=8

max_time=${max_time:-3h50m} # shorter than the walltime by session.stop_grace and some minutes
start=${start:-mpirun}      # with an MPI that knows PBS; else "mpirun -f $PBS_NODEFILE" (MPICH)
python=${python:-python3}

cd "$PBS_O_WORKDIR" || exit
: "${config:?the configuration, by qsub -v config=...}" "${session:?the directory, likewise}"
# shellcheck disable=SC2086  # $start and $python may be several words
$start $python -m crawler crawl "$config" --session "$session" --resume --max-time "$max_time"
code=$?

# 75: stopped, to be resumed. Jobs that are to run after the whole crawl: submit them here, after 0.
if [[ $code == 75 ]]; then
    qsub -v "config=$config,session=$session,max_time=$max_time,start=$start,python=$python" \
        launch/pbs.sh
fi
exit "$code"
