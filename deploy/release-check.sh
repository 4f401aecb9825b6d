#!/usr/bin/env bash
# Builds a release twice, from two directories and with two build caches unless
# CACHE says otherwise, and fails if a byte differs.
#
#   deploy/release-check.sh [OS/ARCH …]
#
# CACHE=shared saves the second compilation: then only the linking, the archive
# and what they take from their surroundings are compared.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
[ $# -gt 0 ] || set -- linux/amd64
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
export SOURCE_DATE_EPOCH=1700000000
for copy in here somewhere/else/entirely; do
  mkdir -p "$work/$copy/signalbox"
  git ls-files -z --cached --others --exclude-standard | xargs -0 tar --ignore-failed-read -cf - 2>/dev/null | tar -C "$work/$copy/signalbox" -xf -
  if [ "${CACHE:-}" != shared ]; then export GOCACHE="$work/$copy/cache"; fi
  (umask "$([ "$copy" = here ] && echo 022 || echo 077)" && TZ="$([ "$copy" = here ] && echo UTC || echo Asia/Tokyo)" \
    "$work/$copy/signalbox/deploy/release.sh" "$work/$copy/dist" v0.0.0-check "$@" > /dev/null)
done
if ! diff "$work/here/dist/SHA256SUMS" "$work/somewhere/else/entirely/dist/SHA256SUMS"; then
  echo "the same source gave different archives" >&2
  exit 1
fi
cat "$work/here/dist/SHA256SUMS"
