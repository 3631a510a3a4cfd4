#!/usr/bin/env bash
# tools/simulate.sh [SECONDS [SEED]]: installs what is missing, builds the simulation and tries seeds for SECONDS (60),
# beginning with SEED (else with the time of day), on all cores. Ends with an error if a seed fails, and prints the
# faults that make it fail and the command that repeats it.

# shellcheck source=tools/common.sh
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/common.sh"

main() {
  local seconds=${1:-60} seed=${2:-$(date +%s)000} jobs job status=0
  local program=$root/build/release/tests/simulation/simulation_test
  local -a running=()
  [[ $seconds =~ ^[1-9][0-9]*$ && $seed =~ ^[0-9]{1,15}$ && $# -le 2 ]] ||
    fail "usage: tools/simulate.sh [SECONDS [SEED]]"
  "$root/tools/build.sh" release simulation_test
  jobs=$(job_count)
  say "simulating for $seconds s, from seed $seed on ($jobs at a time)"
  for ((job = 0; job < jobs; ++job)); do
    "$program" --seconds "$seconds" --from $((seed + job * 1000000)) &
    running+=($!)
  done
  for job in "${running[@]}"; do wait "$job" || status=1; done
  ((status == 0)) || fail "a seed fails"
}

main "$@"
