#!/usr/bin/env bash
# tools/test.sh [release|asan-ubsan|tsan ...]: for each preset (default: release) installs what is missing,
# builds with warnings as errors and runs all tests. Ends at the first preset that fails, with ctest's summary.

# shellcheck source=tools/common.sh
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/common.sh"

without_browser="continuing without the tests that need a browser"

main() {
  local presets=("${@:-release}") preset jobs browser=
  for preset in "${presets[@]}"; do
    check_preset "$preset"
    [[ $preset != fuzz ]] || fail "the preset fuzz has no tests; tools/fuzz.sh runs its targets"
  done
  jobs=$(job_count)
  cd "$root"
  tools/setup.sh "${presets[0]}"  # before the other set-up begins: APT runs one at a time
  if ((EUID == 0)); then
    tools/setup.sh browser &  # a signal does not reach it: APT would leave half-installed packages
    browser=$!
  else
    tools/setup.sh browser || say "$without_browser"  # it may ask for a password
  fi
  for preset in "${presets[@]}"; do
    tools/build.sh "$preset" troupe tests/all fuzz/all || { wait && exit 1; }  # tests do not need bench/
    if [[ -n $browser ]]; then
      wait "$browser" || say "$without_browser"
      browser=
    fi
    say "testing the preset $preset"
    # One more than the cores: many tests wait for the processes that they have started.
    ctest --preset "$preset" --no-tests=error --parallel $((jobs + 1)) </dev/null
  done
}

main "$@"
