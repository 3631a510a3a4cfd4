#!/usr/bin/env bash
# tools/reference.sh: makes the library's reference in build/reference/html from the comments of its headers. Installs
# Doxygen if it is missing. Ends with an error if Doxygen finds a fault, or a class, function or concept without a
# comment; members with self-explanatory names may lack it.

# shellcheck source=tools/common.sh
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/common.sh"

main() {
  command -v doxygen >/dev/null || install_tool doxygen
  cd "$root"
  rm -rf build/reference
  mkdir -p build/reference
  doxygen docs/Doxyfile >"$scratch/log" 2>&1 || fail_with_log "Doxygen could not read the headers (its output is above)"
  sed -i -E '/ of (class|struct|union) .* is not documented\.$/d' "$scratch/log"
  [[ ! -s $scratch/log ]] || fail_with_log "Doxygen finds faults in the headers' comments (its output is above)"
  [[ -f build/reference/html/classtroupe_1_1cluster.html ]] || fail "Doxygen has not found the class cluster"
  say "the library's reference is build/reference/html/index.html"
}

main "$@"
