#!/usr/bin/env bash
# tools/format.sh [fix]: checks that all C++ and CUDA sources are formatted as .clang-format says, and lists the
# differences; `fix` formats them. Installs clang-format if it is missing. Versions format differently: only 14 is used,
# Debian 12's.

# shellcheck source=tools/common.sh
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/common.sh"

version=14

# Prints the program's name; nothing if that version is not installed.
find_formatter() {
  local program
  for program in "clang-format-$version" clang-format; do
    if [[ $("$program" --version 2>/dev/null) =~ version\ $version\. ]]; then
      echo "$program"
      return
    fi
  done
}

main() {
  local formatter=() sources how=(--dry-run -Werror)
  case ${1-} in
    '') ;;
    fix) how=(-i) ;;
    *) fail "usage: tools/format.sh [fix]" ;;
  esac
  mapfile -t formatter < <(find_formatter)
  if ((${#formatter[@]} == 0)); then
    install_tool "clang-format-$version"
    formatter=("clang-format-$version")
  fi
  cd "$root"
  mapfile -t sources < <(git ls-files --cached --others --exclude-standard -- '*.cpp' '*.hpp' '*.cu')
  printf '%s\0' "${sources[@]}" | xargs -0 -n 32 -P "$(job_count)" "${formatter[0]}" "${how[@]}" ||
    fail "these sources are not formatted as .clang-format says; tools/format.sh fix formats them"
}

main "$@"
