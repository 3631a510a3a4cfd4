#!/usr/bin/env bash
# examples.sh PREFIX SOURCES FOLDER [FLAG...]: builds all examples of the folder SOURCES in an empty FOLDER, against what is
# installed in PREFIX. With a sanitizer's flags the examples' own code is checked, coroutines among it; what the library
# allocates is watched all the same.

set -euo pipefail
prefix=$1 sources=$2 folder=$3
shift 3

rm -rf "${folder:?}"
cmake -S "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/examples" -B "$folder" -DCMAKE_PREFIX_PATH="$prefix" \
  -DEXAMPLES="$sources" -DCMAKE_CXX_FLAGS="-Wall -Wextra -Werror $*"
cmake --build "$folder" --parallel 2
