#!/usr/bin/env bash
# tools/tidy.sh [changed [SECONDS]]: runs clang-tidy (.clang-tidy) over the production sources as build/release compiles
# them, many in a unit, and lists its findings. With `changed` it checks the units with a file changed since the last
# release (since its tag, else since the commit that set the version in the changelog), for at most SECONDS (300): it
# lists the units for which the time did not suffice, and does not fail because of them. It omits CUDA sources (*.cu).

# shellcheck source=tools/common.sh
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/common.sh"

version=14
build=$root/build/release

# Prints the program's name, if that version is installed.
find_checker() {
  local program
  for program in "clang-tidy-$version" clang-tidy; do
    if [[ $("$program" --version 2>/dev/null) =~ version\ $version\. ]]; then
      echo "$program"
      return
    fi
  done
}

# Prints the compiler's inputs in all components: units, and sources that are compiled alone.
production_units() {
  sed -n 's/^ *"file": "\(.*\.c[px][px]\)",\{0,1\}$/\1/p' "$build/compile_commands.json" | sort -u |
    awk -v root="$root/" -v build="$build/" '{
      place = index($0, build) == 1 ? substr($0, length(build) + 1) : substr($0, length(root) + 1)
      if (place !~ /^(tests|bench|fuzz|CMakeFiles)\//) print
    }'
}

# Prints the commit of the last release: its tag, else the commit that set the version and its date in the changelog.
last_release() {
  git -C "$root" describe --tags --abbrev=0 --match 'v[0-9]*' 2>/dev/null && return
  git -C "$root" log -1 --format=%H -G'^## \[[0-9.]+\] - ' -- CHANGELOG.md
}

# sources_of UNIT: prints its sources, relative to the project's folder.
sources_of() {
  if [[ $1 == "$build"/* ]]; then
    sed -n "s|^#include \"$root/\(.*\)\"\$|\1|p" "$1"
  else
    echo "${1#"$root"/}"
  fi
}

# changed_units: reads units, and prints those with a changed source, or a source whose header has changed.
changed_units() {
  local base unit
  base=$(last_release)
  [[ -n $base ]] || fail "the last release is unknown: there is no tag, and no commit that set the version"
  say "changed since ${base:0:12}"
  git -C "$root" diff --name-only "$base" -- '*.cpp' '*.hpp' | sed 's/\.[ch]pp$//' | sort -u >"$scratch/changed"
  while IFS= read -r unit; do
    sources_of "$unit" | sed 's/\.cpp$//' | grep -qxFf "$scratch/changed" && echo "$unit"
  done || true
}

# check_unit UNIT: writes the findings to a file of the unit's own; appends the unit to `late` if the time is up.
check_unit() {
  local left=$((end - $(date +%s))) name status=0
  name=${1#"$root"/}
  if ((left > 0)); then
    # The disabled check forbids to include sources, as units do; clang does not know all of gcc's warnings.
    timeout "$left" "$checker" -quiet -p "$build" -checks=-bugprone-suspicious-include \
      --extra-arg=-Wno-error --extra-arg=-Wno-unknown-warning-option "$1" >"$scratch/found/${name//\//_}" 2>/dev/null ||
      status=$?
  fi
  if ((left <= 0 || status == 124)); then
    echo "$name" >>"$scratch/late"
  elif ((status != 0)) && ! grep -q ': error: ' "$scratch/found/${name//\//_}"; then
    echo "$name: error: clang-tidy ended with status $status" >>"$scratch/found/${name//\//_}"
  fi
}

main() {
  local mode=${1-} seconds=${2:-300} units found late
  case $mode in
    '') seconds=86400 ;;
    changed) [[ $seconds =~ ^[1-9][0-9]*$ ]] || fail "'$seconds' is not a number of seconds" ;;
    *) fail "usage: tools/tidy.sh [changed [SECONDS]]" ;;
  esac
  [[ -f $build/compile_commands.json ]] || fail "build/release does not exist; tools/build.sh release makes it"
  checker=$(find_checker)
  if [[ -z $checker ]]; then
    install_tool "clang-tidy-$version"
    checker=clang-tidy-$version
  fi
  mkdir "$scratch/found"
  : >"$scratch/late"
  end=$(($(date +%s) + seconds))
  export checker build root scratch end
  export -f check_unit
  mapfile -t units < <(if [[ $mode == changed ]]; then production_units | changed_units; else production_units; fi)
  say "clang-tidy checks ${#units[@]} units"
  ((${#units[@]} > 0)) || return 0
  # shellcheck disable=SC2016  # the inner shell expands it
  printf '%s\0' "${units[@]}" | xargs -0 -n 1 -P "$(job_count)" bash -c 'check_unit "$1"' _
  cat "$scratch"/found/* | grep -E '^[^ ].*: (warning|error): ' | sed "s|^$root/||" | sort -u >"$scratch/all" || true
  cat "$scratch/all"
  found=$(wc -l <"$scratch/all")
  late=$(wc -l <"$scratch/late")
  if ((late > 0)); then
    say "$seconds s were not enough for these $late units; tools/tidy.sh checks all:"
    sort "$scratch/late" >&2
  fi
  ((found == 0)) || fail "clang-tidy has $found findings"
  say "clang-tidy found nothing in $((${#units[@]} - late)) units"
}

main "$@"
