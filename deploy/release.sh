#!/usr/bin/env bash
# Builds a release: for each platform an archive of the program, its licence and
# those of what is in it, and SHA256SUMS. The same source, version and Go give
# the same bytes, wherever it is built.
#
#   deploy/release.sh DIRECTORY VERSION [OS/ARCH …]
#
# It needs Go, GNU tar and gzip. SOURCE_DATE_EPOCH is the time in the archives.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
out=${1:?directory} version=${2:?version}
shift 2
[ $# -gt 0 ] || set -- linux/amd64 linux/arm64 darwin/amd64 darwin/arm64

export GOTOOLCHAIN=${GOTOOLCHAIN:-local} CGO_ENABLED=0 GOFLAGS= GOAMD64=v1 GOARM64=v8.0
epoch=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
mkdir -p "$out"
out=$(cd "$out" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

archives=()
for platform in "$@"; do
  os=${platform%/*} arch=${platform#*/}
  name=signalbox-$version-$os-$arch
  mkdir "$work/$name"
  GOOS=$os GOARCH=$arch go build -trimpath -buildvcs=false -ldflags "-s -w -buildid= -X main.version=$version" -o "$work/$name/signalbox" ./cmd/signalbox
  GOOS=$os GOARCH=$arch deploy/notices.sh > "$work/$name/THIRD-PARTY-NOTICES"
  cp LICENSE README.md CHANGELOG.md "$work/$name"
  chmod 0755 "$work/$name" "$work/$name/signalbox"
  chmod 0644 "$work/$name"/{LICENSE,README.md,CHANGELOG.md,THIRD-PARTY-NOTICES}
  tar --sort=name --format=ustar --owner=0 --group=0 --numeric-owner --mtime="@$epoch" -C "$work" -cf - "$name" | gzip -n -9 > "$out/$name.tar.gz"
  archives+=("$name.tar.gz")
done
cd "$out"
sha256sum "${archives[@]}" > SHA256SUMS
cat SHA256SUMS
