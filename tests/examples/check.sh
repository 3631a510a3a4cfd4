#!/usr/bin/env bash
# check.sh PROGRAM LINE...: runs an example in one process and in several. Both must print the same, except digests and
# times of runs whose order is free, and each LINE, an extended regular expression for a whole line.

set -euo pipefail
program=$1
shift

for processes in "" --processes; do
  output=$("$program" --servers 2 --quiet $processes)
  for line in "$@"; do
    grep -qxE -- "$line" <<<"$output" || { printf '%s\n' "no line '$line' in what $program $processes wrote:" "$output"; exit 1; }
  done
  [[ ${before-$output} == "$output" ]] || { printf '%s\n' "it wrote" "$before" "and with $processes" "$output"; exit 1; }
  before=$output
done
