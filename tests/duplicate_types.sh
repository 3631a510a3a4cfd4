#!/usr/bin/env bash
# tests/duplicate_types.sh ROOT: fails if two headers define types of one name in one namespace. A program that has both
# is none by the rules of C++, and no compiler or linker says so.

set -euo pipefail

found=$(find "$1"/{base,kernels,model,protocol,links,trace,analysis,page,actors,cluster,replay,apps} -name '*.hpp' -print0 | xargs -0 awk '
  FNR == 1 { room = "" }
  /^namespace [a-z_:]+ *{/ { room = $2 "::" }
  /^(class|struct|union|enum|enum class) [a-z_0-9]+( final)?( :[^:].*)? *{/ {
    name = $2 == "class" ? $3 : $2
    print room name, FILENAME
  }' | sort)

(($(wc -l <<<"$found") > 300)) || { echo "only $(wc -l <<<"$found") types were found: this test is out of date"; exit 1; }
twice=$(cut -d' ' -f1 <<<"$found" | uniq -d)
[[ -z $twice ]] || { grep -F -f <(sed 's/$/ /' <<<"$twice") <<<"$found"; exit 1; }
