#!/usr/bin/env bash
# axe.sh DIR: puts axe-core (Mozilla Public License 2.0) into DIR, a checker of
# pages that knows more rules than ours, and prints what SIGNALBOX_AXE must be.
set -euo pipefail
mkdir -p "$1"
cd "$1"
npm pack --silent axe-core@4.14.1 >/dev/null
tar -xzf axe-core-*.tgz
echo "$PWD/package/axe.min.js"
