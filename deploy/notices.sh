#!/bin/sh
# Prints the licences of everything that is compiled into the program, for
# those who get the program alone. Run it in the root of the source.
set -eu
go list -deps -f '{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}} {{.Dir}}{{end}}{{end}}' ./cmd/signalbox | sort -u |
while read -r path version dir; do
  found=
  for file in "$dir"/LICENSE* "$dir"/LICENCE* "$dir"/License* "$dir"/COPYING* "$dir"/NOTICE*; do
    [ -f "$file" ] || continue
    found=yes
    printf '==== %s %s: %s\n\n' "$path" "$version" "$(basename "$file")"
    cat "$file"
    printf '\n\n'
  done
  [ -n "$found" ] || { echo "$path $version has no file with its licence" >&2; exit 1; }
done
