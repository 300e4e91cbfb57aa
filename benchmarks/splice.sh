#!/usr/bin/env bash
# splice.sh FILE NAME TEXT: replaces what stands in FILE between the lines `<!-- bench NAME -->` and
# `<!-- end of bench NAME -->` by the file TEXT.
set -euo pipefail
begin="<!-- bench $2 -->" end="<!-- end of bench $2 -->"
if ! grep -qxF -- "$begin" "$1" || ! grep -qxF -- "$end" "$1"; then
  echo "splice: $1 lacks the lines $begin and $end" >&2
  exit 1
fi
awk -v begin="$begin" -v end="$end" -v text="$3" '
  $0 == end { inside = 0 }
  !inside { print }
  $0 == begin { inside = 1; print ""; while ((getline line < text) > 0) print line }
' "$1" >"$1.new"
mv "$1.new" "$1"
