#!/usr/bin/env bash
# go build. If much has to be compiled, it says how much and about how long that takes, and
# then how far it is: hack/build.sh FILE PACKAGE [FLAG...]
set -euo pipefail
file=$1
package=$2
shift 2
go=${GO:-go}
stale=$("$(dirname "${BASH_SOURCE[0]}")/stale.sh" "$package" "$@" | wc -l)
# Measured: four packages a second on each core. Less than a hundred take as long as to tell.
[ "$stale" -lt 100 ] || awk -v n="$stale" -v name="$file" -v cores="$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1)" 'BEGIN {
    minutes = n / (4 * cores) / 60
    printf "compiling %d packages for %s: about %s on %d cores, once\n", n, name, minutes < 1 ? "a minute" : sprintf("%d minutes", minutes + 1), cores
}' >&2
{
    "$go" build -v -o "$file" "$@" "$package" 2>&1 1>&3 |
        awk -v all="$stale" '
            function thousands(n) { return n < 1000 ? n : sprintf("%d,%03d", n / 1000, n % 1000) }
            /^[A-Za-z0-9._\/~-]+$/ { if (++n % 100 == 0) print "compiled " thousands(n) " of about " thousands(all > n ? all : n) " packages"; fflush(); next }
            { print; fflush() }' >&2
} 3>&1
