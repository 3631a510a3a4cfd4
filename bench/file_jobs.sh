#!/usr/bin/env bash
# bench/file_jobs.sh [--rounds N] [--build FOLDER]: one epoch from files on this processor, beside the required rates.
# Other programs do not run here: their published figures for comparable jobs are in brackets. The files are generated
# (bench_make_rows), 500 MB in a folder of TMPDIR.
#
#   dlrm      Criteo's format, DLRM with dots, batches of 512, 2 trainers: 60,000 samples/s (DeepRec: 59,068 on 4 cores)
#   hashed    12 categorical columns of a CSV file, hashed logistic regression, 1 trainer on one core: 600,000 rows/s
#             (Fwumious Wabbit: 583,000 on one thread)
#   logistic  Criteo's format, hashed logistic regression, 2 trainers: 300,000 rows/s
#
# Prints each round and the medians. Exit code 0 if the medians reach the rates, 1 if any misses its rate, 2 if
# measuring is impossible here.

# shellcheck source=bench/common.sh
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/common.sh"
readonly python=/usr/bin/python3 criteo_rows=1000000 csv_rows=3000000

while (($# > 0)); do
  case $1 in
    --rounds) whole "$1" "${2-}" && rounds=$2 && shift 2 ;;
    --build) build=${2-} && shift $(($# > 1 ? 2 : 1)) ;;
    -h | --help) help_of "${BASH_SOURCE[0]}" && exit 0 ;;
    *) fail "unknown option $1; there are --rounds and --build" ;;
  esac
done
troupe=$build/troupe make_rows=$build/bench/bench_make_rows
need "$troupe" "$make_rows"

# epoch NAME ROUND ARGUMENT...: measures an epoch of `troupe train` with these arguments; ${before[@]} precedes the
# command.
epoch() {
  local name=$1 round=$2
  shift 2
  measure "$name.$round" "${before[@]}" "$troupe" train "$@" --device cpu --epochs 1 --eval-every 0 --json
}

criteo=$scratch/criteo.tsv csv=$scratch/categories.csv columns='{"kind": "label"}'
for ((column = 0; column < 12; ++column)); do columns+=', {"kind": "categorical"}'; done
"$make_rows" criteo "$criteo_rows" "$criteo" || fail "$scratch has no room for the files: set TMPDIR"
"$make_rows" categories "$csv_rows" "$csv" || fail "$scratch has no room for the files: set TMPDIR"

machine
printf '%s\n' "$("$troupe" --version | sed -n 1p), $criteo_rows rows in Criteo's format, $csv_rows rows of CSV" ''
for ((round = 1; round <= rounds; ++round)); do
  before=()
  epoch dlrm "$round" --data "criteo:$criteo" --interaction dot --dim 16 --bottom-hidden 512,256,64 --hidden 256 \
    --batch-size 512 --trainers 2
  epoch logistic "$round" --data "criteo:$criteo" --hidden none --dim 1 --batch-size 1024 --trainers 2
  before=(taskset -c 0)
  epoch hashed "$round" --data "csv:$csv" --header false --columns "[$columns]" --hidden none --dim 1 \
    --batch-size 1024 --trainers 1
done

status=0
# show NAME TITLE ASKED
show() { "$python" "$bench/asked.py" "$scratch" "$rounds" "$2" samples_per_s "$3" "$1" || status=1; }
show dlrm "DLRM on Criteo's format (DeepRec: 59,068 on 4 cores)" 60000
show hashed "hashed logistic regression on CSV, one core (Fwumious Wabbit: 583,000 on one thread)" 600000
show logistic "hashed logistic regression on Criteo's format" 300000
exit "$status"
