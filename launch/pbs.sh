#!/bin/bash
# One crawl under PBS Pro, OpenPBS or Torque, however many jobs it takes:
#
#     qsub -v config=CONFIG.toml,session=SESSION launch/pbs.sh
#
# PBS warns a job only a few seconds before its end, so the crawl stops itself by --max-time. The
# job then submits the next one. SESSION must lie on a file system that all nodes see.
#PBS -N crawl
#PBS -l select=4:ncpus=8:mpiprocs=8
#PBS -l walltime=04:00:00
#PBS -r y
#PBS -j oe
# With Torque, the second line is: #PBS -l nodes=4:ppn=8

max_time=${max_time:-3h50m} # the walltime less session.stop_grace and some minutes
start=${start:-mpirun}      # of an MPI that supports PBS; else "mpirun -f $PBS_NODEFILE" (MPICH)
python=${python:-python3}

cd "$PBS_O_WORKDIR" || exit
: "${config:?missing: qsub -v config=CONFIG.toml,...}"
: "${session:?missing: qsub -v session=SESSION,...}"
# shellcheck disable=SC2086  # $start and $python may be several words
$start $python -m crawler crawl "$config" --session "$session" --resume --max-time "$max_time"
code=$?

# 75: the crawl was stopped and can be resumed. Submit jobs that need the whole crawl here, after
# exit code 0.
if [[ $code == 75 ]]; then
    qsub -v "config=$config,session=$session,max_time=$max_time,start=$start,python=$python" \
        launch/pbs.sh
fi
exit "$code"
