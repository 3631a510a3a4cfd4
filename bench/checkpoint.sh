#!/usr/bin/env bash
# Measures the cost of checkpoints: the longest time between two steps while one is written, and the time to write it,
# beside the rate at which dd writes as many bytes to the same disk.
#
# usage: bench/checkpoint.sh [--rounds N] [--build DIR] [--folder DIR] [--tables LIST] [--program NAME=FILE]...
#
#   --rounds N           how often each is measured (3)
#   --build DIR          where the programs are (build/release)
#   --folder DIR         the checkpoints' folder, on the disk to be measured (a new one among the temporary files)
#   --tables LIST        rows x width of tables (1000000x64,20000000x32, which have 244 MiB and 2.4 GiB)
#   --program NAME=FILE  a program to measure besides DIR/apps/troupe, such as an earlier version
#
# A run of one trainer and one server with this table writes a checkpoint every so many steps, with three optimizers:
# SGD and row-wise Adagrad change a few rows per step, Adagrad with state; Adam changes every row. The gaps are those
# between the ends of trainer 0's steps, from the recording: the longest one during a checkpoint, the longest other one,
# and the median of the others. "still" is the same program with --consistency ssp, whose trainers wait until all is on
# the disk.

# shellcheck source=bench/common.sh
source "$(dirname "$(readlink -f "$0")")/common.sh"

folder= tables=1000000x64,20000000x32 programs=()
while (($# > 0)); do
  case $1 in
    --rounds) whole "$1" "${2-}"; rounds=$2; shift 2 ;;
    --build) build=${2-}; shift 2 ;;
    --folder) folder=${2-}; shift 2 ;;
    --tables) tables=${2-}; shift 2 ;;
    --program) programs+=("${2-}"); shift 2 ;;
    -h | --help) help_of "$0"; exit 0 ;;
    *) fail "unknown option $1; --help lists all" ;;
  esac
done
folder=${folder:-$scratch/on-disk}
mkdir -p "$folder"
programs=("now=$build/apps/troupe" "${programs[@]}")
for one in "${programs[@]}"; do need "${one#*=}"; done
command -v python3 >/dev/null || fail "needs python3"

# measure_run PROGRAM OPTIONS OPTIMIZER ROWS DIM STEPS: a run with a checkpoint every STEPS steps, and its figures.
measure_run() {
  local program=$1 options=$2 optimizer=$3 rows=$4 dim=$5 steps=$6 bytes
  rm -rf "$folder/run" "$scratch/trace"
  # shellcheck disable=SC2086  # options are several words
  "$program" train --data synthetic --rows "$rows" --dim "$dim" --tables 1 --batch-size 512 --trainers 1 --servers 1 \
    --sparse-optimizer "$optimizer" --steps "$((steps * 2))" --save "$folder/run" --checkpoint-every "$steps" \
    --trace full --trace-dir "$scratch/trace" --json $options >"$scratch/events" 2>"$scratch/err" || {
    cat "$scratch/err" >&2
    fail "the run ended with an error"
  }
  "$build/apps/troupe" trace timeline --csv -o "$scratch/timeline.csv" "$scratch/trace" >/dev/null
  bytes=$("$build/apps/troupe" checkpoint list --json "$folder/run" | sed -n '1s/.*"bytes":\([0-9]*\).*/\1/p')
  python3 "$bench/checkpoint_gaps.py" "$scratch/events" "$scratch/timeline.csv" "$bytes"
}

machine
for table in ${tables//,/ }; do
  rows=${table%x*} dim=${table#*x}
  bytes=$((rows * dim * 4))
  printf '\ntable of %s x %s, %s MiB\n' "$rows" "$dim" "$((bytes >> 20))"
  sync
  printf 'dd %s\n' "$(dd if=/dev/zero of="$folder/dd" bs=1M count=$((bytes >> 20)) conv=fsync 2>&1 | tail -n 1 | sed 's/.*copied, //')"
  rm -f "$folder/dd"
  printf '%-10s %-12s %-16s %s\n' program mode optimizer '  gap, ms  other, ms   step, ms  seconds    MiB/s'
  for ((round = 1; round <= rounds; ++round)); do
    for optimizer in sgd rowwise-adagrad adam; do
      [[ $optimizer == adam && $bytes -gt $((1 << 30)) ]] && continue # it needs three times the memory
      for one in "${programs[@]}"; do
        for mode in beside still; do
          options=''
          [[ $mode == still ]] && options='--consistency ssp:1'
          printf '%-10s %-12s %-16s ' "${one%%=*}" "$mode" "$optimizer"
          # Enough steps to last while a checkpoint is written; runs that stand still, or with long steps, need fewer.
          steps=$((bytes >> 17))
          [[ $mode == still ]] && steps=1000
          [[ $optimizer == adam ]] && steps=60
          measure_run "${one#*=}" "$options" "$optimizer" "$rows" "$dim" "$steps"
        done
      done
    done
  done
done
