#!/usr/bin/env bash
# bench/compare.sh [--rounds N] [--steps N] [--wide-steps N] [--build FOLDER]: Troupe and PyTorch on the same jobs (2
# trainers, 1 parameter server), in turn, in one session. PyTorch uses a process for each role; Troupe runs them all in
# one process, and again in one process per role. Both use the same OpenBLAS kernels.
#
#   tutorial   a table of 100 x 16 and a Linear(16, 8): steps/s, and sustained, over 200 times as many steps
#   wide       a table of 1,000,000 x 64, layers 512 and 256, batches of 1024: samples/s, beside this machine's limit
#              (bench_limit, measured in each round), beside the limit if products on each core were as fast as on one
#              core alone, and Troupe's peak memory
#   lookup     rows of a table in another process: the round trip, beside that of a bare TCP socket
#
# Prints each round and the medians. Exit code 0 if Troupe has 300 times PyTorch's steps/s on the tutorial job, and 10
# times in separate processes; 3.5 times its samples/s and 75 % of the limit on the wide job, of which processes lose
# less than 15 %, with at most 1.15 times the table and 150 MiB of memory; if a lookup of 16 rows takes at most 2.5
# times a bare socket's time, and one of 26,624 rows has 60 % of its bandwidth; and if bench/file_jobs.sh, which runs
# last, meets its requirements. 1 if any of these is missed, 2 if measuring is impossible here. Troupe's Adult job, for
# which PyTorch has no run, is shown beside them.

# shellcheck source=bench/common.sh
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/common.sh"
readonly python=/usr/bin/python3
# A Troupe run of as many steps as PyTorch's takes only milliseconds: so there are several, and a long one.
readonly runs_per_round=5 sustained_factor=200 processes_factor=20 wide_factor=10
readonly wide=(--data synthetic --rows 1000000 --dim 64 --bag 26 --batch-size 1024 --hidden "512,256" --classes 2
  --trainers 2 --sparse-optimizer sgd --eval-every 0)

steps=1000 wide_steps=30
while (($# > 0)); do
  case $1 in
    --rounds) whole "$1" "${2-}" && rounds=$2 && shift 2 ;;
    --steps) whole "$1" "${2-}" && steps=$2 && shift 2 ;;
    --wide-steps) whole "$1" "${2-}" && wide_steps=$2 && shift 2 ;;
    --build) build=${2-} && shift $(($# > 1 ? 2 : 1)) ;;
    -h | --help) help_of "${BASH_SOURCE[0]}" && exit 0 ;;
    *) fail "unknown option $1; there are --rounds, --steps, --wide-steps and --build" ;;
  esac
done

troupe=$build/troupe limit=$build/bench/bench_limit
need "$troupe" "$limit" "$build/bench/bench_make_rows"
"$python" -c 'import torch' 2>/dev/null ||
  fail "PyTorch is missing: apt-get install --no-install-recommends python3-torch python3-numpy"

# measure_lines FILE COMMAND...: appends all of the command's output.
measure_lines() {
  local file=$1
  measure "$@"
  cp "$scratch/out" "$scratch/$file"
}

measure limit.0 "$limit"
kernels=$("$python" -c 'import json, sys; print(json.load(sys.stdin)["blas_kernels"])' <"$scratch/limit.0")
export OPENBLAS_CORETYPE=$kernels

machine
printf '%s\n' \
  "$("$troupe" --version | sed -n 1p), PyTorch $("$python" -c 'import torch; print(torch.__version__)')," \
  "OpenBLAS's kernels for ${kernels:-this processor}" \
  "tutorial: $steps steps, sustained $((steps * sustained_factor))" \
  "wide: PyTorch $wide_steps steps, Troupe $((wide_steps * wide_factor))" ''

for ((round = 1; round <= rounds; ++round)); do
  measure "torch.$round" "$python" "$bench/torch_hybrid.py" --trainers 2 --steps "$steps"
  for ((run = 0; run < runs_per_round; ++run)); do
    measure "troupe.$round" "$troupe" train --data tutorial --trainers 2 --steps "$steps" --json
  done
  measure "sustained.$round" "$troupe" train --data tutorial --trainers 2 --steps $((steps * sustained_factor)) --json
  measure "processes.$round" "$troupe" train --data tutorial --trainers 2 --steps $((steps * processes_factor)) \
    --processes --quiet --json
  measure "limit.$round" "$limit"
  measure "wide_torch.$round" "$python" "$bench/torch_hybrid.py" --job wide --trainers 2 --steps "$wide_steps"
  measure "wide.$round" "$troupe" train "${wide[@]}" --steps $((wide_steps * wide_factor)) --json
  measure "wide_processes.$round" "$troupe" train "${wide[@]}" --steps $((wide_steps * wide_factor)) --processes \
    --quiet --json
  measure_lines "lookup.$round" "$troupe" bench lookup --json
  measure_lines "lookup_torch.$round" "$python" "$bench/torch_lookup.py"
done
measure adult "$troupe" train --data adult --json

status=0
"$python" "$bench/compare.py" "$scratch" "$rounds" || status=$?
echo
"$bench/file_jobs.sh" --rounds "$rounds" --build "$build" || status=$?
exit "$status"
