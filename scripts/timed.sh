#!/usr/bin/env bash
# Runs a command and keeps how long it took; tells of all of them at last.
#
#   timed.sh begin            forget what was before
#   timed.sh COMMAND [...]    run it: its output and its result are the command's
#   timed.sh end              a table of all since `begin`
set -euo pipefail
cd "$(dirname "$0")/.."

kept=target/times.tsv
table() { awk -F'\t' '{ printf "  %6d s  %s%s\n", $1, $3, $2 == 0 ? "" : "  ✗"; all += $1 } END { printf "  %6d s  in all\n", all }' "$kept" >&2; }

case "${1:?a command, \`begin\` or \`end\`}" in
  begin) mkdir -p target && : >"$kept" ;;
  end) table ;;
  *)
    result=0
    began=$EPOCHSECONDS
    "$@" || result=$?
    printf '%d\t%d\t%s\n' $((EPOCHSECONDS - began)) "$result" "$*" >>"$kept"
    [ "$result" = 0 ] || table
    exit "$result"
    ;;
esac
