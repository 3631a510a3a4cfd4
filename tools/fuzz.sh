#!/usr/bin/env bash
# tools/fuzz.sh [SECONDS] [TARGET...]: installs what is missing (also clang and libFuzzer), builds the fuzz targets and
# runs all, or those named, for SECONDS (10) each. Ends with an error if one crashes, and names the input's file.
# New inputs stay in build/fuzz/corpus; commit an input that crashed to fuzz/corpus/TARGET, with the fix.

# shellcheck source=tools/common.sh
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/common.sh"

# fuzz TARGET SECONDS: its output goes to a log.
fuzz() {
  local learnt=$root/build/fuzz/corpus/$1 crashes=$root/build/fuzz/crashes
  mkdir -p "$learnt" "$crashes"
  UBSAN_OPTIONS=print_stacktrace=1 "$root/build/fuzz/fuzz/fuzz_$1" -max_total_time="$2" -max_len=4096 -timeout=30 \
    -rss_limit_mb=2048 -artifact_prefix="$crashes/$1-" "$learnt" "$root/tests/fuzz/corpus/$1" >"$scratch/$1" 2>&1 </dev/null &&
    say "$1: no crash in $(sed -n 's/^Done \([0-9]*\) runs.*/\1/p' "$scratch/$1") runs" && return
  touch "$scratch/failed"
  tail -n 60 "$scratch/$1" >&2
  say "error: fuzz target $1 crashed; the input, if it left one, is named above; to repeat it: " \
    "build/fuzz/fuzz/fuzz_$1 INPUT"
}

main() {
  local seconds=10 targets jobs target
  if (($# > 0)); then
    [[ $1 =~ ^[1-9][0-9]*$ ]] || fail "'$1' is not a number of seconds; usage: tools/fuzz.sh [SECONDS] [TARGET...]"
    seconds=$1
    shift
  fi
  targets=("$@")
  (($# > 0)) || mapfile -t targets < <(ls "$root/tests/fuzz/corpus")
  for target in "${targets[@]}"; do
    [[ -d $root/tests/fuzz/corpus/$target ]] ||
      fail "there is no fuzz target $target; there are $(ls -x -w 1000 "$root/tests/fuzz/corpus")"
  done
  jobs=$(job_count)
  "$root/tools/build.sh" fuzz
  say "fuzzing ${targets[*]} for $seconds s each ($jobs at a time)"
  for target in "${targets[@]}"; do
    while (($(jobs -rp | wc -l) >= jobs)); do wait -n; done
    fuzz "$target" "$seconds" &
  done
  wait
  [[ ! -e $scratch/failed ]] || fail "a fuzz target crashed"
}

main "$@"
