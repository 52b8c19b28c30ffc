#!/usr/bin/env bash
# go build, with a line for each hundred packages that have to be compiled: hack/build.sh -o FILE PACKAGE...
# The first build takes minutes, and would say nothing.
set -euo pipefail
{
    "${GO:-go}" build -v "$@" 2>&1 1>&3 |
        awk '/^[A-Za-z0-9._\/~-]+$/ { if (++n % 100 == 0) print "compiled " n " packages"; fflush(); next } { print; fflush() }' >&2
} 3>&1
