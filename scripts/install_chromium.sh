#!/usr/bin/env bash
# Installs Chromium on a Debian machine, as root, for the tests that open reports in a browser.
# Without root it changes nothing: where there is no browser, those tests skip and say why.
set -euo pipefail
cd "$(dirname "$0")/.."

for browser in chromium chromium-browser google-chrome; do
    command -v "$browser" >/dev/null && exit 0
done
if [[ "$(id -u)" != 0 ]] || ! command -v apt-get >/dev/null; then
    echo "no Chromium, and only root on Debian can install it: its tests will skip"
    exit 0
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >"$log" 2>&1 || { tail -5 "$log"; exit 1; }
