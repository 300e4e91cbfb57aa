#!/usr/bin/env bash
# Installs what building, testing or fuzzing need on Debian 12: `tools/setup.sh build`, `test` or `fuzz`.
# Says what it installs before it does, and does nothing when all of it is there.
set -euo pipefail
cd "$(dirname "$0")/.."

build_packages=(
  g++ cmake ninja-build make ccache mold pkg-config
  libboost1.81-dev libssl-dev libcurl4-openssl-dev nlohmann-json3-dev libsimdjson-dev libpcre2-dev libicu-dev
  libhwy-dev libcli11-dev libspdlog-dev libfmt-dev libyaml-cpp-dev prometheus-cpp-dev
  libgtest-dev libgmock-dev libbenchmark-dev librapidcheck-dev
)
test_packages=(curl)
fuzz_packages=(clang-14 libclang-rt-14-dev)

packages=("${build_packages[@]}")
if [ "${1:-build}" = test ]; then
  packages+=("${test_packages[@]}")
  # Any Node.js from 18 on will do; Debian's where there is none.
  command -v node >/dev/null && command -v npm >/dev/null || packages+=(nodejs npm)
fi

[ "${1:-build}" != fuzz ] || packages+=("${fuzz_packages[@]}")

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f '${Status}' "$package" 2>/dev/null || true)
  [ "$status" = "install ok installed" ] || missing+=("$package")
done

if [ ${#missing[@]} -gt 0 ]; then
  echo "setup: installing from Debian: ${missing[*]}"
  sudo=""
  [ "$(id -u)" = 0 ] || sudo="sudo"
  $sudo apt-get update -qq
  # Behind sudo, which passes no variables on.
  $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi

if [ "${1:-build}" = test ]; then
  # A stamp of the lock file tells whether what is installed is what is wanted.
  stamp=tests/e2e/node_modules/.stamp
  if ! cmp -s tests/e2e/package-lock.json "$stamp"; then
    echo "setup: installing from npm: the packages of tests/e2e/package-lock.json"
    (cd tests/e2e && npm ci --ignore-scripts --no-audit --no-fund --silent)
    cp tests/e2e/package-lock.json "$stamp"
  fi
fi
