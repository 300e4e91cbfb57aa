#!/usr/bin/env bash
# Installs what building, testing, measuring or fuzzing need on Debian 12: `tools/setup.sh build`, `test`, `bench` or `fuzz`.
# Says what it installs before it does, and does nothing when all of it is there.
set -euo pipefail
cd "$(dirname "$0")/.."

build_packages=(
  g++ cmake ninja-build make ccache mold pkg-config
  libboost1.81-dev libssl-dev libcurl4-openssl-dev nlohmann-json3-dev libsimdjson-dev libpcre2-dev libicu-dev
  libhwy-dev libcli11-dev libspdlog-dev libfmt-dev libyaml-cpp-dev prometheus-cpp-dev
  libgtest-dev libgmock-dev librapidcheck-dev
)
test_packages=(curl chromium)
bench_packages=(libdnnl-dev libopenblas-dev)
fuzz_packages=(clang-14 libclang-rt-14-dev)

packages=("${build_packages[@]}")
case "${1:-build}" in
  test) packages+=("${test_packages[@]}") ;;
  bench) packages+=("${bench_packages[@]}") ;;
  fuzz) packages+=("${fuzz_packages[@]}") ;;
esac
# Reports carry a charting library from npm. EMBED_CHARTS=OFF builds without it, and without Node.js.
charts=${EMBED_CHARTS:-ON}
if [ "$charts" != OFF ] || [ "${1:-build}" = test ] || [ "${1:-build}" = bench ]; then
  # Any Node.js from 18 on will do; Debian's where there is none.
  command -v node >/dev/null && command -v npm >/dev/null || packages+=(nodejs npm)
fi

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

# What FOLDER/package-lock.json asks for. A stamp of the lock file tells whether what is installed is what is wanted.
npm_packages() {  # FOLDER OPTIONS…
  local stamp="$1/node_modules/.stamp"
  if ! cmp -s "$1/package-lock.json" "$stamp"; then
    echo "setup: installing from npm: the packages of $1/package-lock.json"
    (cd "$1" && npm ci --ignore-scripts --no-audit --no-fund --silent "${@:2}")
    cp "$1/package-lock.json" "$stamp"
  fi
}
[ "$charts" = OFF ] || npm_packages src/report/page
[ "${1:-build}" != test ] || npm_packages tests/e2e
# Without what is optional: llama.cpp for other machines and for GPUs, 500 MB of it.
[ "${1:-build}" != bench ] || npm_packages benchmarks --omit=optional
