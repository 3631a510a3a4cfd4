#!/usr/bin/env bash
# tools/build.sh [release|asan-ubsan|tsan|fuzz] [TARGET...]: installs what is missing, then builds into build/<preset>.

# shellcheck source=tools/common.sh
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/common.sh"

main() {
  local preset=${1:-release} jobs targets=("${@:2}")
  ((${#targets[@]} > 0)) || targets=(all)
  check_preset "$preset"
  jobs=$(job_count)
  "$root/tools/setup.sh" "$preset"
  say "building ${targets[*]} in build/$preset ($jobs at a time)"
  quietly cmake -S "$root" --preset "$preset" || fail_with_log "CMake could not configure build/$preset"
  showing_progress "build/$preset" cmake --build "$root/build/$preset" --target "${targets[@]}" --parallel "$jobs" ||
    fail_with_log "build/$preset could not be built"
}

main "$@"
