#!/usr/bin/env bash
# examples.sh PREFIX SOURCES FOLDER [FLAG...]: builds all examples of the folder SOURCES in an empty FOLDER, against the
# package installed in PREFIX. With a sanitizer's flags it checks the examples' own code, including coroutines, and all
# allocations of the library.

set -euo pipefail
prefix=$1 sources=$2 folder=$3
shift 3

rm -rf "${folder:?}"
cmake -S "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/examples" -B "$folder" -DCMAKE_PREFIX_PATH="$prefix" \
  -DEXAMPLES="$sources" -DCMAKE_CXX_FLAGS="-Wall -Wextra -Werror $*"
cmake --build "$folder" --parallel 2
