#!/bin/bash
# Several sessions under Slurm; each uses a partition of the session before:
#
#     launch/slurm-chain.sh CONFIG.toml DIRECTORY [NUMBER OF SESSIONS]
#
# crawl 1 -> partition -> crawl 2 -> partition -> ... Each job starts when the one before succeeded.
# DIRECTORY gets session-1, part-vector-1, session-2, ...
set -euo pipefail

config=${1:?missing: CONFIG.toml} directory=${2:?missing: DIRECTORY} sessions=${3:-2}
nodes=${NODES:-4} ranks_per_node=${RANKS_PER_NODE:-8} time=${TIME:-04:00:00}
model=${MODEL:-}                      # of python -m partition build; by default sites stay whole
partition_time=${PARTITION_TIME:-02:00:00}
partition_nodes=${PARTITION_NODES:-1} # more than 1: a rank on each, for graphs larger than a node
start=${START:-mpirun}                # as in slurm.sh
python=${PYTHON:-python3}

here=$(dirname "$0")
mkdir -p "$directory"
submit=(sbatch --parsable "--chdir=$PWD" --kill-on-invalid-dep=yes)
crawl=("--nodes=$nodes" "--ntasks-per-node=$ranks_per_node" "--time=$time" "$here/slurm.sh" "$config")

job=$("${submit[@]}" "${crawl[@]}" "$directory/session-1")
echo "session-1: job $job"
for ((before = 1; before < sessions; before++)); do
    vector=$directory/part-vector-$before
    build=("$directory/session-$before" -k "$((nodes * ranks_per_node))" --out "$vector")
    [[ -z $model ]] || build+=(--model "$model")
    command="$python -m partition build ${build[*]@Q}"
    ((partition_nodes == 1)) || command="$start $command"
    job=$("${submit[@]}" "--dependency=afterok:$job" --job-name=partition \
        "--nodes=$partition_nodes" --ntasks-per-node=1 "--time=$partition_time" \
        --output=%x-%j.out --wrap "$command")
    echo "part-vector-$before: job $job"
    job=$("${submit[@]}" "--dependency=afterok:$job" "${crawl[@]}" "$directory/session-$((before + 1))" \
        --set assignment.scheme=part-vector --set "assignment.part_vector=$vector" \
        --set "session.previous=$directory/session-$before")
    echo "session-$((before + 1)): job $job"
done
