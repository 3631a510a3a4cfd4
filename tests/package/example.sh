#!/usr/bin/env bash
# example.sh PREFIX PROGRAM: runs an example built by examples.sh, with the library of PREFIX.

set -euo pipefail
prefix=$1 program=$2

read -r name library < <(ldd "$program" | sed -nE 's/.*(libtroupe(_program)?\.so)\.[0-9]+ => ([^ ]+) .*/\1 \3/p')
[[ $library -ef $prefix/lib/$name ]] || { echo "it runs with '$library', not the one in $prefix" && exit 1; }
"$program"
