#!/usr/bin/env bash
# completion.sh PROGRAM COMPLETION: checks that bash offers what the program has.

set -uo pipefail
program=$1
# shellcheck source=apps/shell/troupe.bash
source "$2"

# offers EXPECTED WORD...: checks that the last word is completed to exactly EXPECTED.
offers() {
  local expected=$1
  shift
  # shellcheck disable=SC2034  # read by the completion
  COMP_WORDS=("$program" "$@") COMP_CWORD=$#
  _troupe
  [[ ${COMPREPLY[*]} == "$expected" ]] || { echo "'$*' offers '${COMPREPLY[*]}', not '$expected'" && exit 1; }
}

cd "$(mktemp -d)" || exit 1
trap 'rm -r "$PWD"' EXIT
touch job.toml

offers "--help --version train master join status stop scale parity checkpoint trace bench devices" ""
offers "train trace" tr
offers "--trainers --trace --trace-dir --trace-filter --trace-payload --trace-ring-mib" train --tra
offers "auto cpu cuda" train --device ""
offers "cuda" train --device = cu
offers "server" join --as s
offers "list verify export job.toml" checkpoint ""
offers "serve summary" trace s
offers "--output" trace --ou
offers "job.toml" train --json jo
offers "job.toml" train --save j
offers "" train --seed j
offers "" nothing --  # there is no such subcommand
