#!/bin/sh
# Dependencies and binary size that each candidate adds to the baseline.
# Usage: ./sizes.sh (builds each feature alone, in the target directory in use)
set -eu
cd "$(dirname "$0")"
target=${CARGO_TARGET_DIR:-target}
measure() { # feature list -> "crates bytes"
    cargo build --quiet --release --no-default-features --features "$1"
    crates=$(cargo tree --quiet --no-default-features --features "$1" --edges normal --prefix none | sort -u | wc -l)
    echo "$crates $(stat -c %s "$target/release/log-storage-comparison")"
}
set -- $(measure "")
base_crates=$1 base_bytes=$2
echo "| candidate | crates | KB in the binary |"
echo "|---|---|---|"
for feature in raft-engine fjall redb lmdb okaywal open-wal wal-db; do
    set -- $(measure "$feature")
    echo "| $feature | $(($1 - base_crates)) | $((($2 - base_bytes) / 1024)) |"
done
