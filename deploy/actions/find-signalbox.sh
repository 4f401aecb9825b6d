#!/usr/bin/env bash
# Makes the program signalbox callable for the next steps: the one that is on
# the runner, or the one that BINARY_URL names, if what comes from there is what
# BINARY_SHA256 says.
set -euo pipefail

fail() {
  echo "::error title=signalbox::$1"
  exit 2
}

if [ -z "${BINARY_URL:-}" ]; then
  command -v signalbox >/dev/null || fail "The program signalbox is not on this runner. Put it into the image of your runners, or give binary-url and binary-sha256."
  exit 0
fi
[[ ${BINARY_SHA256:-} =~ ^[0-9a-fA-F]{64}$ ]] || fail "binary-url needs binary-sha256: the 64 hexadecimal digits that sha256sum prints for the program."

dir=$(mktemp -d "${RUNNER_TEMP:-/tmp}/signalbox.XXXXXX")
curl -fsSL --retry 3 --proto '=http,https' --max-filesize 300000000 --output "$dir/signalbox" --url "$BINARY_URL" || fail "The program could not be fetched from binary-url."
if command -v sha256sum >/dev/null; then
  sum=$(sha256sum "$dir/signalbox")
else
  sum=$(shasum -a 256 "$dir/signalbox")
fi
wanted=$(printf %s "$BINARY_SHA256" | tr A-F a-f)
if [ "${sum%% *}" != "$wanted" ]; then
  rm -rf "$dir"
  fail "What binary-url gave is not what binary-sha256 says: it is ${sum%% *}."
fi
chmod +x "$dir/signalbox"
echo "$dir" >>"$GITHUB_PATH"
