#!/usr/bin/env bash
# bench/pytorch_pairs.sh [--rounds N] [--build FOLDER] [PAIR...]: the pairs of docs/from-pytorch.md, in one session:
# PyTorch's scripts (bench/pytorch) and Troupe's programs (bench/pairs) in turn, in the order ABBA, so that changes of
# the machine's speed affect both equally. Prints medians over the rounds in microseconds, and of the ratios with their
# 95 % intervals.
#
#   call forward hybrid ddp no_sync all_reduce:4096 all_reduce:1048576 all_reduce:67108864 sampler state
#
# PyTorch has a process for each trainer and for the server. Troupe runs both this way (--processes) and in one process,
# which PyTorch cannot. A round runs each twice and uses the mean; 15 rounds (the default) of all pairs take about an
# hour. Exit code 2 if measuring is impossible here.

set -euo pipefail
bench=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
readonly python=/usr/bin/python3
readonly all=(call forward hybrid ddp no_sync all_reduce:4096 all_reduce:1048576 all_reduce:67108864 sampler state)

fail() {
  printf 'pytorch_pairs: error: %s\n' "$*" >&2
  exit 2
}

rounds=15 build=$(dirname "$bench")/build/release pairs=()
while (($# > 0)); do
  case $1 in
    --rounds)
      [[ ${2-} =~ ^[1-9][0-9]{0,3}$ ]] || fail "--rounds '${2-}': must be a whole number of 1 or more"
      rounds=$2 && shift 2
      ;;
    --build) build=$(readlink -f "${2-}") && shift 2 ;;
    -h | --help) sed -n '2,/^$/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" && exit 0 ;;
    -*) fail "unknown option $1; there are --rounds and --build" ;;
    *)
      [[ " ${all[*]} " == *" $1 "* ]] || fail "there is no pair '$1'; there are: ${all[*]}"
      pairs+=("$1") && shift
      ;;
  esac
done
((${#pairs[@]} > 0)) || pairs=("${all[@]}")

for name in remote training collectives data; do
  [[ -x $build/bench/bench_pair_$name ]] || fail "there is no program $build/bench/bench_pair_$name: build it, or name" \
    "the folder with --build"
done
"$python" -c 'import torch' 2>/dev/null ||
  fail "PyTorch is missing: apt-get install --no-install-recommends python3-torch python3-numpy"

# The pair `state` writes its files here: in memory, since Troupe waits for the disk and PyTorch does not.
scratch=$(mktemp -d -p /dev/shm)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"

# run COMMAND...: prints the last word of the output's last line; on failure prints all output.
run() {
  "$@" >"$scratch/out" 2>"$scratch/err" || {
    cat "$scratch/out" "$scratch/err" >&2
    fail "this ended with an error: $*"
  }
  awk 'END { print $NF }' "$scratch/out"
}

torch_side() {
  case $1 in
    call | forward) run "$python" "$bench/pytorch/remote.py" "$1" ;;
    ddp | no_sync) run "$python" "$bench/pytorch/training.py" "$1" ;;
    all_reduce:*) run "$python" "$bench/pytorch/collectives.py" "${1#*:}" ;;
    sampler | state) run "$python" "$bench/pytorch/data.py" "$1" ;;
    hybrid)
      run "$python" "$bench/torch_hybrid.py" --trainers 2 --steps 500 >/dev/null
      "$python" -c 'import json, sys; print(1e6 / json.loads(sys.stdin.readlines()[-1])["steps_per_s"])' <"$scratch/out"
      ;;
  esac
}

# troupe_side PAIR [--processes]
troupe_side() {
  case $1 in
    call | forward) run "$build/bench/bench_pair_remote" --quiet --what "$@" ;;
    hybrid | ddp | no_sync) run "$build/bench/bench_pair_training" --quiet --what "$@" ;;
    all_reduce:*) run "$build/bench/bench_pair_collectives" --quiet --bytes "${1#*:}" "${@:2}" ;;
    sampler | state) run "$build/bench/bench_pair_data" --quiet --what "$@" ;;
  esac
}

# median_of FILE; ratios FILE: the median of the rounds' ratios to PyTorch's, and the 95 % interval of that median (with
# fewer than 6 rounds: the minimum and maximum).
median_of() { sort -g "$1" | awk '{ v[NR] = $1 } END { printf "%.1f", (v[int((NR + 1) / 2)] + v[int((NR + 2) / 2)]) / 2 }'; }
ratios() {
  paste times.torch "$1" | awk '{ print $1 / $2 }' | sort -g | awk '{ v[NR] = $1 } END {
    k = NR < 6 ? 1 : int((NR + 1) / 2 - 0.98 * sqrt(NR)); if (k < 1) k = 1
    printf "%.1f (%.1f to %.1f)", (v[int((NR + 1) / 2)] + v[int((NR + 2) / 2)]) / 2, v[k], v[NR + 1 - k] }'
}

mean() { awk -v a="$1" -v b="$2" 'BEGIN { print (a + b) / 2 }'; }

cpu=$(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo | head -n 1)
printf '%s\n' "$(date '+%Y-%m-%d %H:%M'), ${cpu:-unknown processor}, $(nproc) cores, load $(cut -d' ' -f1 /proc/loadavg), \
PyTorch $("$python" -c 'import torch; print(torch.__version__)'); $rounds rounds; medians in microseconds:" '' \
  '| what | PyTorch | Troupe, in processes | ratio | Troupe, in one process | ratio |' '|---|---|---|---|---|---|'
for pair in "${pairs[@]}"; do
  rm -f times.*
  for ((round = 0; round < rounds; ++round)); do
    torch=$(torch_side "$pair")
    processes=$(troupe_side "$pair" --processes)
    again=$(troupe_side "$pair" --processes)
    mean "$processes" "$again" >>times.processes
    again=$(torch_side "$pair")
    mean "$torch" "$again" >>times.torch
    process=$(troupe_side "$pair")
    again=$(troupe_side "$pair")
    mean "$process" "$again" >>times.process
  done
  printf '| %s | %s | %s | %s | %s | %s |\n' "$pair" "$(median_of times.torch)" "$(median_of times.processes)" \
    "$(ratios times.processes)" "$(median_of times.process)" "$(ratios times.process)"
done
