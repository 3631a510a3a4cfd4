#!/usr/bin/env bash
# tools/package.sh: builds, and makes two Debian packages in build/packages:
#
#   troupe_VERSION_ARCH.deb         the program and the shared library, with manual page and completion
#   libtroupe-dev_VERSION_ARCH.deb  headers, and what find_package(troupe) reads
#
# Neither needs CUDA: to use it, copy libtroupe_cuda.so and libtroupe_cuda_probe.so, which the build leaves in
# build/release, to /usr/lib/troupe.

# shellcheck source=tools/common.sh
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/common.sh"

build=$root/build/release
packages=$root/build/packages

# install_component NAME FOLDER
install_component() {
  quietly env DESTDIR="$2" cmake --install "$build" --prefix /usr --component "$1" --strip ||
    fail_with_log "CMake could not install $1 (its output is above)"
}

# dependencies FOLDER: prints the packages with which program and library are linked, and OpenBLAS, which they load.
dependencies() (
  mkdir -p "$scratch/deps/debian"
  cd "$scratch/deps"
  printf 'Source: troupe\n\nPackage: troupe\nArchitecture: any\n' >debian/control
  dpkg-shlibdeps -O -e"$1/usr/bin/troupe" -e"$1/usr/lib/libtroupe.so.$soversion" \
    -e"$1/usr/lib/libtroupe_program.so.$soversion" 2>/dev/null |
    sed 's/^shlibs:Depends=//; s/$/, libopenblas0/'
)

# describe FOLDER NAME SECTION DEPENDS SUMMARY TEXT: writes the control file and the documents of every package.
describe() {
  local folder=$1 name=$2
  mkdir -p "$folder/DEBIAN" "$folder/usr/share/doc/$name"
  cp "$root/tools/cmake/copyright" "$folder/usr/share/doc/$name/copyright"
  gzip -9n <"$root/CHANGELOG.md" >"$folder/usr/share/doc/$name/changelog.gz"
  cat >"$folder/DEBIAN/control" <<END
Package: $name
Version: $version
Architecture: $architecture
Maintainer: The Troupe developers <developers@troupe.invalid>
Section: $3
Priority: optional
Installed-Size: $(du -sk --apparent-size --exclude=DEBIAN "$folder" | cut -f 1)
Depends: $4
Description: $5
 $6
END
  (cd "$folder" && find usr -type f -print0 | sort -z | xargs -0 md5sum) >"$folder/DEBIAN/md5sums"
}

# pack FOLDER
pack() {
  chmod -R u=rwX,go=rX "$1"
  quietly dpkg-deb --root-owner-group -Zxz --build "$1" "$packages" || fail_with_log "dpkg-deb could not pack $1"
}

main() {
  local program=$scratch/troupe development=$scratch/libtroupe-dev version soversion architecture
  command -v dpkg-shlibdeps >/dev/null || install_tool dpkg-dev
  "$root/tools/build.sh" release troupe troupe_shared troupe_man
  version=$(sed -n 's/^CMAKE_PROJECT_VERSION:STATIC=//p' "$build/CMakeCache.txt")
  soversion=${version%%.*}
  architecture=$(dpkg --print-architecture)
  SOURCE_DATE_EPOCH=$(git -C "$root" log -1 --format=%ct 2>/dev/null || date +%s)  # same sources, same packages
  export SOURCE_DATE_EPOCH
  rm -rf "$packages"
  mkdir -p "$packages" "$program" "$development"

  install_component runtime "$program"
  gzip -9n "$program/usr/share/man/man1/troupe.1"
  describe "$program" troupe science "$(dependencies "$program")" "train sparse-dense models as a system of actors" \
    "Embedding tables on parameter servers, a dense network kept equal by allreduce.
 Contains the library with which programs distribute models of their own."
  echo "activate-noawait ldconfig" >"$program/DEBIAN/triggers"
  printf '%s '"$soversion troupe (>= $version)"'\n' libtroupe libtroupe_program >"$program/DEBIAN/shlibs"
  pack "$program"

  install_component development "$development"
  describe "$development" libtroupe-dev libdevel "troupe (= $version)" \
    "headers for programs that distribute their own models" \
    "For CMake: find_package(troupe CONFIG), target troupe::troupe. Needs C++20, for
 example g++ 12."
  pack "$development"
  printf '%s\n' "$packages"/*.deb
}

main "$@"
