#!/usr/bin/env bash
# fetch.sh DIR: unpacks what GitHub's community publishes about its API and
# webhooks into DIR. NOTICE says which versions; change both together.
set -euo pipefail
into=$1
fetch() { # package version folder
  mkdir -p "$into/$3"
  (cd "$into/$3" && npm pack --silent "$1@$2" >/dev/null && tar -xzf ./*.tgz && rm ./*.tgz)
}
fetch @octokit/openapi 23.0.2 openapi
fetch @octokit/openapi-webhooks 12.1.0 openapi-webhooks
fetch @octokit/webhooks-schemas 7.6.1 webhooks-schemas
fetch @octokit/webhooks-examples 7.6.1 webhooks-examples
fetch @octokit/graphql-schema 15.26.1 graphql-schema
