#!/usr/bin/env bash
# tools/test.sh [release|asan-ubsan|tsan ...]: for each preset (release if none is named) sets up what is missing,
# builds with warnings as errors and runs all tests. Ends at the first preset that fails, with ctest's summary.

# shellcheck source=tools/common.sh
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/common.sh"

main() {
  local presets=("${@:-release}") preset jobs
  for preset in "${presets[@]}"; do
    check_preset "$preset"
  done
  jobs=$(job_count)
  cd "$root"
  tools/setup.sh browser || say "going on without the tests that need a browser"
  for preset in "${presets[@]}"; do
    tools/build.sh "$preset"
    say "testing the preset $preset"
    ctest --preset "$preset" --no-tests=error --parallel "$jobs" </dev/null
  done
}

main "$@"
