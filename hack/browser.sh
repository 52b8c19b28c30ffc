#!/usr/bin/env bash
# Tests the page of usher console, and the site in bin/site, in headless Chromium: hack/browser.sh USHER GOTEST...
# Chromium is installed where apt-get may do that; where there is none, nothing is tested.
set -euo pipefail
cd "$(dirname "$0")/.."
usher=$(realpath "$1")
shift
if ! command -v chromium-headless-shell >/dev/null && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    { apt-get update && apt-get install --yes --no-install-recommends chromium-headless-shell fonts-dejavu-core; } >/dev/null 2>&1 || true
fi
if ! command -v chromium-headless-shell >/dev/null; then
    echo "skipped: there is no chromium-headless-shell, and apt-get does not install it here"
    exit 0
fi
# axe-core, which looks for violations of accessibility, comes with the packages of the page.
hack/page.sh --check
cd web/e2e
USHER_BIN=$usher SITE=$PWD/../../bin/site "$@" -count=1 ./...
