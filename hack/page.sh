#!/usr/bin/env bash
# Makes the page of usher console from web/console, with the packages that package-lock.json pins, and writes
# it to internal/console/assets. With --check it changes nothing, and fails if what is committed differs.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v npm >/dev/null || { echo "the page is not made: there is no npm"; exit 0; }
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
esbuild() { "${GO:-go}" tool -modfile=tools/page/go.mod esbuild "$@"; }

# Its own list of what is installed tells whether that is what the lock file says.
if ! cmp -s web/console/package-lock.json web/console/node_modules/.lock; then
    npm ci --prefix web/console --ignore-scripts --no-audit --no-fund --loglevel=error
    cp web/console/package-lock.json web/console/node_modules/.lock
fi
web/console/node_modules/.bin/tsc --noEmit -p web/console
esbuild web/console/src/app.tsx --bundle --minify --format=esm --target=es2022 --jsx=automatic \
    --jsx-import-source=preact --log-level=warning --outfile="$out/app.js"
esbuild web/console/src/page.css --bundle --minify --log-level=warning --outfile="$out/app.css"
cp web/console/src/icon.svg web/console/src/index.html "$out/"
npm ls --prefix web/console --omit=dev --all --parseable | tail -n +2 | sort | while read -r folder; do
    printf '%s\n\n' "${folder##*/node_modules/}"
    cat "$folder/LICENSE"
    printf '\n\n'
done >"$out/licenses.txt"

assets=internal/console/assets
if [ "${1:-}" = --check ]; then
    for file in app.js app.css icon.svg licenses.txt; do
        gzip -dc "$assets/$file.gz" | cmp -s - "$out/$file" || stale=1
    done
    cmp -s "$assets/index.html" "$out/index.html" || stale=1
    [ -z "${stale:-}" ] || { echo "the page of usher console is not up to date: run 'make page'" >&2; exit 1; }
    exit 0
fi
mkdir -p "$assets"
cp "$out/index.html" "$assets/"
for file in app.js app.css icon.svg licenses.txt; do
    gzip -9nc "$out/$file" >"$assets/$file.gz"
done
du -bc "$assets"/* | tail -1
