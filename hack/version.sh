#!/usr/bin/env bash
# Prints the version of the chart, which is that of the next release: hack/version.sh. With a version, such as that of
# a tag, it fails if the chart has another one: hack/version.sh VERSION. A snapshot may have any.
set -euo pipefail
cd "$(dirname "$0")/.."
version=$(sed -n 's/^version: //p' deploy/helm/usher/Chart.yaml)
case ${1:-$version} in
"$version" | *-SNAPSHOT-*) echo "$version" ;;
*)
    echo "the release is $1, and the chart $version: set version, appVersion and the image in deploy/helm/usher/Chart.yaml, then make generate" >&2
    exit 1
    ;;
esac
