#!/bin/bash
# One crawl under LSF, however many runs it takes:
#
#     config=CONFIG.toml session=SESSION bsub < launch/lsf.sh
#
# The crawl stops itself by --max-time. Its exit code 75 makes LSF requeue the job (-Q). LSF also
# requeues the job after a lost host (-r). SESSION must lie on a file system that all hosts see.
#BSUB -J crawl
#BSUB -n 32
#BSUB -R "span[ptile=8]"
#BSUB -W 4:00
#BSUB -r
#BSUB -Q "75"
#BSUB -o crawl-%J.out

max_time=${max_time:-3h50m} # -W less session.stop_grace and some minutes
start=${start:-mpirun}      # the mpirun of an MPI that supports LSF
python=${python:-python3}

: "${config:?missing: config=CONFIG.toml before bsub}"
: "${session:?missing: session=SESSION before bsub}"
# shellcheck disable=SC2086  # $start and $python may be several words
exec $start $python -m crawler crawl "$config" --session "$session" --resume --max-time "$max_time"
