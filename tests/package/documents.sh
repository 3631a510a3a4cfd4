#!/usr/bin/env bash
# documents.sh PREFIX DOCUMENT...: compiles every piece of C++ in the documents against the installed headers. The
# pieces of a section (## and above) share a namespace, so that they can use each other's names; #include lines of the
# section come first.

set -euo pipefail
include=$1/include
shift
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT

for document in "$@"; do
  awk -v name="$(basename "$document")" '
    /^##? / && !inside { if (open) print "}"; printf "namespace section_%d {\nusing namespace troupe;\n", ++open }
    /^```cpp$/ { inside = 1; ++pieces; printf "#line %d \"%s\"\n", NR + 1, name; next }
    /^```/ { inside = 0; next }
    inside && !/^#include/ { sub(/^int main\(/, "void main_of_it("); print }
    END { if (open) print "}"; if (pieces == 0) exit 1 }' "$document" >"$folder/pieces" ||
    { echo "$document has no C++" && exit 1; }
  {
    printf '#include <%s>\n' algorithm chrono cmath cstdint cstdio functional memory span string thread vector \
      troupe/troupe.hpp
    cat "$folder/pieces"
  } >"$folder/document.cpp"
  "${CXX:-c++}" -std=c++20 -Wall -Wextra -Werror -Wno-unused-variable -Wno-unused-but-set-variable -Wno-unused-parameter \
    -fsyntax-only -I "$include" "$folder/document.cpp"
done
