# shellcheck shell=bash
# Shared by the scripts of this folder: paths, messages, the number of jobs. Sourced, not run.

set -euo pipefail

# shellcheck disable=SC2034  # used by the scripts that source this
root=$(dirname "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")")
export HOME="${HOME:-$(getent passwd "$(id -u)" | cut -d: -f6)}"
[[ ${XDG_CACHE_HOME-} == /* ]] || unset XDG_CACHE_HOME  # the XDG specification requires to ignore relative paths
# shellcheck disable=SC2034
cache=${XDG_CACHE_HOME:-$HOME/.cache}/troupe  # as in tools/cmake/dependencies.cmake

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# say TEXT: prints a line of progress on stderr; stdout is for the results of the program.
say() { printf 'troupe: %s\n' "$*" >&2; }

# fail TEXT: prints an error in one line and ends the script.
fail() {
  printf 'troupe: error: %s\n' "$*" >&2
  exit 1
}

# quietly COMMAND...: runs it, and keeps its output in a log.
quietly() { "$@" >"$scratch/log" 2>&1 </dev/null; }

# showing_progress WHAT COMMAND...: like `quietly`, for a build by Ninja: shows how many of its steps are done and the
# time so far, in one line of a terminal, else in a line every ten seconds.
showing_progress() {
  local what=$1 begin=$SECONDS told=$SECONDS line done_of
  shift
  NINJA_STATUS='[%f/%t] ' "$@" 2>&1 </dev/null | while IFS= read -r line; do
    printf '%s\n' "$line"
    [[ $line =~ ^\[([0-9]+/[0-9]+)\]\  ]] || continue
    done_of="${BASH_REMATCH[1]/\// of } files, $((SECONDS - begin)) s"
    if [[ -t 2 ]]; then
      printf '\r\033[Ktroupe: %s: %s' "$what" "$done_of" >&2
    elif ((SECONDS - told >= 10)); then
      told=$SECONDS
      say "$what: $done_of"
    fi
  done >"$scratch/log"
  local status=${PIPESTATUS[0]}
  [[ ! -t 2 ]] || printf '\r\033[K' >&2
  ((status != 0)) || say "$what: done in $((SECONDS - begin)) s"
  return "$status"
}

# fail_with_log TEXT: shows the log of the last `quietly` without ninja's progress, then fails.
fail_with_log() {
  sed '/^\[[0-9]*\/[0-9]*\] /d' "$scratch/log" >&2
  fail "$@"
}

# install_tool PACKAGE: installs a program that a script needs, by APT.
install_tool() {
  local root_user=() command
  ((EUID == 0)) || root_user=(sudo)
  command=("${root_user[@]}" apt-get install -y --no-install-recommends --no-remove "$1")
  say "installing $1"
  quietly "${command[@]}" || { quietly "${root_user[@]}" apt-get update && quietly "${command[@]}"; } ||
    fail_with_log "$1 is missing and cannot be installed"
}

# Prints this system's addresses of Debian's own archive, without those of security updates or of third parties.
debian_archives() {
  # shellcheck disable=SC2016  # APT substitutes the fields
  apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' 'Label: Debian' \
    'Component: main' 2>/dev/null | sort -u
}

# check_preset NAME: refuses a preset that CMakePresets.json does not have. `fuzz` is for tools/fuzz.sh.
check_preset() {
  case $1 in
    release | asan-ubsan | tsan | fuzz) ;;
    *)
      printf 'troupe: error: unknown preset %s; there are release, asan-ubsan, tsan and fuzz\n' "'$1'" >&2
      exit 2
      ;;
  esac
}

# job_count: prints the number of parallel compilers: TROUPE_JOBS, else one a core, if each has two GiB of free memory.
job_count() {
  local cores room
  if [[ -n ${TROUPE_JOBS-} ]]; then
    [[ $TROUPE_JOBS =~ ^[1-9][0-9]*$ ]] || fail "TROUPE_JOBS is '$TROUPE_JOBS'; it must be a number of jobs, 1 or more"
    echo "$TROUPE_JOBS"
    return
  fi
  cores=$(nproc)
  room=$(awk '/^MemAvailable:/ {print int($2 / 2097152)}' /proc/meminfo)
  room=$((room > 1 ? room : 1))
  echo $((cores < room ? cores : room))
}
