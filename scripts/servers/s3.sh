#!/usr/bin/env bash
# A server that speaks S3, for tests and trials: versitygw on loopback, its buckets directories.
#
#   s3.sh install             build it into .cache/tools/versitygw (quick if it is there)
#   s3.sh start DIR PORT      at http://127.0.0.1:PORT, in the foreground, its data in DIR, with the bucket `styx`
#
# The credentials are STYX_S3_ACCESS (default styx) and STYX_S3_SECRET (default styx-secret).
set -euo pipefail

version=v1.8.0
say() { printf '  %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }

# The caller's directory, so that DIR may be relative to it.
here=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
home=$PWD/.cache/tools/versitygw
server=$home/$version/versitygw

install() {
  [ -x "$server" ] && return
  command -v go >/dev/null || fail "Go is missing, which builds versitygw: install version 1.24 or newer, then run this again"
  say "building versitygw $version (a minute or two, once)"
  mkdir -p "$home"
  # Beside its place, then moved there: two that install at once both end with a whole one.
  new=$(mktemp -d "$home/new.XXXXXX")
  trap 'rm -rf "$new"' EXIT
  GOBIN=$new GOFLAGS=-trimpath go install "github.com/versity/versitygw/cmd/versitygw@$version" >&2 \
    || fail "Go could not build versitygw $version: is the network there?"
  mkdir -p "$home/$version"
  mv -f "$new/versitygw" "$server"
  say "versitygw $version is in $home/$version"
}

case "${1:-}" in
  install)
    install
    ;;
  start)
    [ $# = 3 ] || fail "usage: s3.sh start DIR PORT"
    install
    cd "$here"
    mkdir -p "$2/styx"
    say "S3 at http://127.0.0.1:$3, bucket styx"
    # Attributes in the files themselves, where DIR's file system must have room for them (ext4, xfs, btrfs and
    # newer tmpfs do): kept beside them, a reader could get one version's content with another's ETag.
    exec "$server" --access "${STYX_S3_ACCESS:-styx}" --secret "${STYX_S3_SECRET:-styx-secret}" --region us-east-1 \
      --port "127.0.0.1:$3" --quiet posix "$2"
    ;;
  *)
    fail "usage: s3.sh install | start DIR PORT"
    ;;
esac
