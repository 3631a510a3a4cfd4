#!/usr/bin/env bash
# headers.sh PREFIX: checks that every installed header compiles alone, and includes little but the standard library.

set -euo pipefail
cd "$1/include"
mapfile -t headers < <(find troupe -name '*.hpp' | sort)
((${#headers[@]} > 10)) || { echo "only ${#headers[@]} headers are installed" && exit 1; }

if grep -nE '^ *# *include' "${headers[@]}" | grep -vE '"troupe/[a-z0-9_/]+\.hpp"|<[a-z_]+>|troupe/runtime/'; then
  echo "these come from elsewhere" && exit 1
fi
# the inner shell expands them
printf '%s\n' "${headers[@]}" | xargs -P 2 -I '{}' bash -c \
  'echo "#include <{}>" | "$0" -std=c++20 -Wall -Wextra -Wpedantic -Wshadow -Werror -fsyntax-only -I . -x c++ - ||
    { echo "{} does not compile alone" && exit 1; }' "${CXX:-c++}"
