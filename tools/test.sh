#!/usr/bin/env bash
# tools/test.sh [release|asan-ubsan|tsan ...]: for each preset (release if none is named) sets up what is missing,
# builds with warnings as errors and runs all tests. Ends at the first preset that fails, with ctest's summary.

# shellcheck source=tools/common.sh
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/common.sh"

main() {
  local presets=("${@:-release}") preset jobs browser
  for preset in "${presets[@]}"; do
    check_preset "$preset"
  done
  jobs=$(job_count)
  cd "$root"
  tools/setup.sh "${presets[0]}"  # before the other set-up begins: APT serves one at a time
  tools/setup.sh browser &
  browser=$!
  for preset in "${presets[@]}"; do
    tools/build.sh "$preset" troupe tests/all fuzz/all  # what bench/ has, no test needs
    wait "$browser" || say "going on without the tests that need a browser"
    say "testing the preset $preset"
    # One more than there are cores: many tests wait for the processes that they have started.
    ctest --preset "$preset" --no-tests=error --parallel $((jobs + 1)) </dev/null
  done
}

main "$@"
