#!/bin/bash
# One crawl under LSF, however many runs it takes:
#
#     config=CONFIG.toml session=SESSION bsub < launch/lsf.sh
#
# The crawl stops itself by --max-time with exit code 75, and LSF requeues the job for it (-Q). A
# lost host requeues it too (-r). SESSION must lie where all hosts see it.
#BSUB -J crawl
#BSUB -n 32
#BSUB -R "span[ptile=8]"
#BSUB -W 4:00
#BSUB -r
#BSUB -Q "75"
#BSUB -o crawl-%J.out

max_time=${max_time:-3h50m} # shorter than -W by session.stop_grace and some minutes
start=${start:-mpirun}      # with an MPI that knows LSF
python=${python:-python3}

: "${config:?the configuration, in the environment of bsub}" "${session:?the directory, likewise}"
# shellcheck disable=SC2086  # $start and $python may be several words
exec $start $python -m crawler crawl "$config" --session "$session" --resume --max-time "$max_time"
