#!/usr/bin/env bash
# example.sh PREFIX SOURCE FOLDER [FLAG...]: builds one example in an empty folder against what is installed in PREFIX, as
# users do, and runs it. With a sanitizer's flags the example's own code is checked, coroutines among it; what the library
# allocates is watched all the same.

set -euo pipefail
prefix=$1 source=$2 folder=$3 name=$(basename "$2" .cpp)
shift 3

rm -rf "${folder:?}/$name"
mkdir -p "$folder/$name"
cd "$folder/$name"
cp "$source" "$(dirname "$source")"/*.hpp .  # some examples have headers
cat >CMakeLists.txt <<END
cmake_minimum_required(VERSION 3.25)
project($name CXX)
find_package(troupe CONFIG REQUIRED)
add_executable($name $name.cpp)
target_link_libraries($name troupe::troupe)
END
cmake -B build -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_CXX_FLAGS="-Wall -Wextra -Werror $*"
cmake --build build
library=$(ldd "build/$name" | sed -nE 's/.*libtroupe\.so\.[0-9]+ => ([^ ]+) .*/\1/p')
[[ $library -ef $prefix/lib/libtroupe.so ]] || { echo "it runs with '$library', not the one in $prefix" && exit 1; }
"build/$name"
