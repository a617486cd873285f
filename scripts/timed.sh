#!/usr/bin/env bash
# Runs a command and keeps how long it took; tells of all of them at last.
#
#   timed.sh begin                   forget what was before
#   timed.sh COMMAND [...]           run it: its output and its result are the command's
#   timed.sh beside COMMAND [...]    run it at the lowest priority, beside the commands that follow
#   timed.sh join                    wait for that; its output if it failed, and its result
#   timed.sh end                     a table of all since `begin`
set -euo pipefail
cd "$(dirname "$0")/.."

kept=target/times.tsv
beside=target/beside
table() {
  awk -F'\t' '
    { printf "  %6d s %6d s  %s%s\n", $1, $4, $3, $2 == 0 ? "" : "  ✗"; all += $1; busy += $4 }
    BEGIN { print "   lasted  processors" }
    END { printf "  %6d s %6d s  in all\n", all, busy }' "$kept" >&2
}
run() {
  local result=0 began=$EPOCHSECONDS times
  "$@" || result=$?
  # In seconds, of all that this shell has waited for. Not in a shell of its own, which has waited for nothing.
  times >"$kept.times"
  times=$(awk 'NR == 2 { split($1 "m" $2, of, /[ms]+/); print int(60 * (of[1] + of[3]) + of[2] + of[4]) }' "$kept.times")
  printf '%d\t%d\t%s\t%d\n' $((EPOCHSECONDS - began)) "$result" "${name-}$*" "$times" >>"$kept"
  return "$result"
}
stop() { [ ! -e "$beside/pid" ] || kill -- "-$(cat "$beside/pid")" 2>/dev/null || true; }

case "${1:?a command, \`begin\`, \`beside\`, \`join\` or \`end\`}" in
  begin)
    mkdir -p target
    : >"$kept"
    rm -rf "$beside"
    ;;
  beside)
    shift
    mkdir -p "$beside"
    rm -f "$beside"/*
    # A group of its own, to be stopped as a whole.
    set -m
    {
      # Cargo's lock is for whoever runs meanwhile.
      sleep 15
      result=0
      kept=$beside/times name='beside: ' run nice -n 19 "$@" || result=$?
      echo "$result" >"$beside/result"
    } >"$beside/output" 2>&1 &
    echo $! >"$beside/pid"
    ;;
  join)
    began=$EPOCHSECONDS
    while kill -0 "$(cat "$beside/pid")" 2>/dev/null; do sleep 0.5; done
    ran=$(cut -f1,3 "$beside/times" | tr '\t' ' ')
    printf '%d\t%d\t%s\t%d\n' $((EPOCHSECONDS - began)) "$(cat "$beside/result")" "for what ran beside, $ran" "$(cut -f4 "$beside/times")" >>"$kept"
    if [ "$(cat "$beside/result")" != 0 ]; then
      cat "$beside/output" >&2
      table
      exit 1
    fi
    ;;
  end) table ;;
  *)
    result=0
    run "$@" || result=$?
    if [ "$result" != 0 ]; then
      stop
      table
    fi
    exit "$result"
    ;;
esac
