#!/usr/bin/env bash
# tools/package_test.sh: makes the Debian packages, installs them in a bare Debian 12, trains there, and builds and runs
# every example from an empty folder, as users do. Needs root, for a root of its own; otherwise it unpacks the packages
# into a prefix, and says so. Takes some minutes, most of them for Debian's own packages.

# shellcheck source=tools/common.sh
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/common.sh"

suite=bookworm

# in_root COMMAND: runs it in the bare root, with /proc, /dev/shm and /tmp. Its mounts end with it.
in_root() {
  # shellcheck disable=SC2016  # the inner shell expands them
  unshare --mount --fork bash -c 'mount --make-rprivate / && mount -t proc proc "$0/proc" && mkdir -p "$0/dev/shm" &&
    mount -t tmpfs tmpfs "$0/dev/shm" && mount -t tmpfs tmpfs "$0/tmp" &&
    exec chroot "$0" env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin TERM=dumb DEBIAN_FRONTEND=noninteractive \
      http_proxy="${http_proxy-}" https_proxy="${https_proxy-}" bash -ec "$1"' "$scratch/root" "$1"
}

# timed WHAT COMMAND...: reports its time; shows its output and fails if it fails.
timed() {
  local what=$1 begin=${EPOCHREALTIME/./}
  shift
  quietly "$@" || fail_with_log "$what: failed (its output is above)"
  say "$what: $(((${EPOCHREALTIME/./} - begin) / 1000)) ms"
}

can_make_root() { ((EUID == 0)) && unshare --mount true 2>/dev/null && [[ -n $(debian_archives) ]]; }

# shellcheck disable=SC2016  # the shell in the root expands them
test_in_bare_root() {
  local archive example
  archive=$(debian_archives | head -n 1)
  command -v debootstrap >/dev/null || install_tool debootstrap
  timed "a bare Debian 12 from $archive" debootstrap --variant=minbase "$suite" "$scratch/root" "$archive"
  mkdir "$scratch/root/packages" "$scratch/root/examples"
  cp "$root"/build/packages/*.deb "$scratch/root/packages"
  cp -r "$root"/apps/examples/*.[ch]pp "$root"/tests/package/{example.sh,examples.sh,examples} "$scratch/root/examples"

  timed "its dependencies from Debian" in_root 'apt-get update
    apt-get install -y --no-install-recommends $(dpkg-deb -f /packages/troupe_*.deb Depends | sed "s/([^)]*)//g; s/,//g")'
  timed "apt-get install troupe" in_root 'apt-get install -y --no-install-recommends /packages/troupe_*.deb'
  timed "troupe train" in_root 'troupe train --quiet; troupe train --processes --quiet; troupe --version --json'
  timed "apt-get install libtroupe-dev" in_root \
    'apt-get install -y --no-install-recommends /packages/libtroupe-dev_*.deb'
  timed "a compiler" in_root 'apt-get install -y --no-install-recommends g++ cmake make'
  timed "the examples" in_root 'bash /examples/examples.sh /usr /examples /tmp/examples
    for example in /examples/*.cpp; do bash /examples/example.sh /usr "/tmp/examples/$(basename "$example" .cpp)"; done'
  timed "apt-get purge" in_root 'apt-get purge -y libtroupe-dev troupe; [[ -z $(find /usr -name "*troupe*") ]]'
}

test_in_prefix() {
  local package example prefix=$scratch/prefix/usr
  for package in "$root"/build/packages/*.deb; do dpkg-deb -x "$package" "$scratch/prefix"; done
  timed "troupe train" "$prefix/bin/troupe" train --quiet
  timed "the examples" bash "$root/tests/package/examples.sh" "$prefix" "$root/apps/examples" "$scratch/examples"
  for example in "$root"/apps/examples/*.cpp; do
    example=$(basename "$example" .cpp)
    timed "the example $example" bash "$root/tests/package/example.sh" "$prefix" "$scratch/examples/$example"
  done
}

main() {
  "$root/tools/package.sh" >/dev/null
  if can_make_root; then
    test_in_bare_root
    say "the packages install, train and build the examples in a bare Debian 12"
  else
    test_in_prefix
    say "the packages, unpacked into a prefix, train and build the examples; their installation was not tested, which" \
      "needs root, private mounts and Debian's archive"
  fi
}

main "$@"
