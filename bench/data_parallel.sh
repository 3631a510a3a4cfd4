#!/usr/bin/env bash
# bench/data_parallel.sh [--rounds N] [--build FOLDER] [--plot FILE.svg] [--trace]: the cost of data parallelism. Runs
# the same job, the network of apps/examples/mnist.toml on generated images, with 1 to 8 trainers that exchange what
# they learn in three ways, in one process and with a process each (bench/data_parallel.cpp describes the ways):
#
#   gather     all through rank 0, as PyTorch's DataParallel does
#   allreduce  buckets, during the backward pass, as DistributedDataParallel does
#   server     weights on a parameter server
#
# First checks that all ways give the same weights. Then every run trains on 6,144 samples in all, once in each round.
# Prints medians, beside one trainer that exchanges nothing; --plot draws them. 3 rounds, the default, take about 2
# minutes on 2 cores. With --trace, it instead records a run of each way with 4 trainers in processes, and prints where
# a step's time goes, and what each process sends and receives.
#
# Exit code 0, 1 if the weights differ, 2 if measuring is impossible here.

# shellcheck source=bench/common.sh
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/common.sh"
readonly python=/usr/bin/python3 samples=6144 batch=64
readonly ways=(gather allreduce server) counts=(1 2 4 8)

plot='' trace=false
while (($# > 0)); do
  case $1 in
    --rounds) whole "$1" "${2-}" && rounds=$2 && shift 2 ;;
    --build) build=${2-} && shift $(($# > 1 ? 2 : 1)) ;;
    --plot) plot=${2-} && shift $(($# > 1 ? 2 : 1)) ;;
    --trace) trace=true && shift ;;
    -h | --help) help_of "${BASH_SOURCE[0]}" && exit 0 ;;
    *) fail "unknown option $1; there are --rounds, --build, --plot and --trace" ;;
  esac
done
program=$build/bench/bench_data_parallel troupe=$build/troupe
need "$program" "$troupe"

machine
"$troupe" --version | sed -n 1p

if "$trace"; then
  readonly steps=60
  for way in "${ways[@]}"; do
    measure traced "$program" --quiet --way "$way" --trainers 4 --steps "$steps" --processes --trace full \
      --trace-dir "$scratch/$way"
    "$python" "$bench/data_parallel.py" trace "$troupe" "$scratch/$way" "$way" $((steps + 4))
  done
  exit 0
fi

# Few steps: rounding errors grow with each step, where a ReLU just opens in one way and just closes in another.
for trainers in "${counts[@]}"; do
  for way in "${ways[@]}"; do
    measure checked "$program" --quiet --way "$way" --trainers "$trainers" --steps 4 \
      --weights "$scratch/weights.$way.$trainers"
  done
done
"$python" "$bench/data_parallel.py" same "$scratch" || exit 1
printf '%s\n' "all ways have the same weights after 8 steps, up to rounding; $rounds rounds" ''

for ((round = 0; round < rounds; ++round)); do
  for trainers in "${counts[@]}"; do
    for way in "${ways[@]}"; do
      run=("$program" --quiet --way "$way" --trainers "$trainers" --steps $((samples / batch / trainers)))
      measure "$way.process.$trainers" "${run[@]}"
      measure "$way.processes.$trainers" "${run[@]}" --processes
    done
  done
done
"$python" "$bench/data_parallel.py" table "$scratch" ${plot:+"$plot"}
