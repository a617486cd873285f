#!/usr/bin/env bash
# Looks for bytes that a fuzz target cannot bear: fuzz.sh [--seconds N] [--runs N] [--keep] [TARGET...]. Without a target all
# of them, one after the other, N seconds or so many runs each, whichever comes first. What is found to reach more is kept
# in target/fuzz; --keep takes the smallest set that reaches as much, of short inputs, into host/fuzz/corpus. An input that
# fails is in target/fuzz/failures.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=
runs=-1
keep=
targets=()
while [ $# -gt 0 ]; do
  case $1 in
    --seconds) seconds=$2; shift ;;
    --runs) runs=$2; shift ;;
    --keep) keep=1 ;;
    -*) echo "fuzz.sh [--seconds N] [--runs N] [--keep] [TARGET...]" >&2; exit 2 ;;
    *) targets+=("$1") ;;
  esac
  shift
done
# So many runs take as long as they take.
[ -n "$seconds" ] || { [ "$runs" = -1 ] && seconds=60 || seconds=0; }
cargo build --release --config scripts/checked.toml --config "build.rustc-workspace-wrapper='$PWD/scripts/fuzz-rustc.sh'" --quiet \
  --workspace --bin styx-fuzz --features styx-fuzz/libfuzzer
fuzz=${CARGO_TARGET_DIR:-target}/release/styx-fuzz
work=target/fuzz
if [ ${#targets[@]} -eq 0 ]; then
  mapfile -t targets < <(ls host/fuzz/corpus)
fi
mkdir -p $work/failures
for target in "${targets[@]}"; do
  mkdir -p "$work/$target" "$work/seeds/$target" "host/fuzz/corpus/$target"
  export STYX_FUZZ_TARGET=$target STYX_FUZZ_SEEDS=$work/seeds/$target
  [ "$runs" = -1 ] && echo "$target: $seconds seconds" || echo "$target: $runs runs"
  # A run of machines reaches thousands of places: to count how rare each is takes three times as long as the run.
  entropic=1
  case $target in *machines) entropic=0 ;; esac
  "$fuzz" "$work/$target" "host/fuzz/corpus/$target" "$STYX_FUZZ_SEEDS" -runs="$runs" -max_total_time="$seconds" -max_len=8192 \
    -timeout=10 -rss_limit_mb=2048 -entropic=$entropic -artifact_prefix="$work/failures/$target-" -verbosity=0 \
    -print_final_stats=1 2>&1 |
    grep -E 'stat::|panicked|ERROR|Test unit' || true
  [ "${PIPESTATUS[0]}" -eq 0 ] || { echo "$target: a failure; its input is in $work/failures" >&2; exit 1; }
  if [ -n "$keep" ]; then
    "$fuzz" -merge=1 -max_len=2048 -verbosity=0 "host/fuzz/corpus/$target" "$work/$target"
  fi
done
