#!/usr/bin/env bash
# PostgreSQL for comparisons: a cluster of its own in a directory, reached by a Unix socket there, without containers.
#
#   postgres.sh install       look for the server; as root on Debian, install its package if it is missing
#   postgres.sh start DIR     a server in the foreground, its data and its socket in DIR, for the user `styx`
#
# It never runs as root: as root, DIR is given to the user `postgres` (or STYX_POSTGRES_USER), and the server runs as that.
# Settings are the package's, but for memory; every commit is on the disk before it is acknowledged.
set -euo pipefail

say() { printf '  %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }

# The newest version's binaries.
binaries() {
  local found
  found=$(ls -d /usr/lib/postgresql/*/bin /usr/pgsql-*/bin 2>/dev/null | sort -V | tail -n 1 || true)
  [ -n "$found" ] || found=$(dirname "$(command -v initdb 2>/dev/null || echo /)")
  [ -x "$found/initdb" ] && [ -x "$found/postgres" ] && printf '%s' "$found"
}

install() {
  binaries >/dev/null && return
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    say "installing PostgreSQL"
    # The package would start a server for the whole machine.
    mkdir -p /etc/postgresql-common
    [ -e /etc/postgresql-common/createcluster.conf ] ||
      echo 'create_main_cluster = false' > /etc/postgresql-common/createcluster.conf
    DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends postgresql >/dev/null 2>&1 ||
      fail "apt-get could not install postgresql: run \`apt-get update\`, then this again"
  fi
  binaries >/dev/null || fail "PostgreSQL is missing: install your system's package postgresql, then run this again"
}

start() {
  local directory=$1 bin
  bin=$(binaries)
  mkdir -p "$directory"
  directory=$(cd "$directory" && pwd)
  # Ends with whoever started it.
  local as=(setpriv --pdeathsig INT)
  if [ "$(id -u)" = 0 ]; then
    local user=${STYX_POSTGRES_USER:-postgres}
    id "$user" >/dev/null 2>&1 || user=nobody
    chown "$user" "$directory"
    as=(setpriv --reuid "$user" --regid "$(id -g "$user")" --init-groups --pdeathsig INT)
  fi
  cd "$directory"
  if [ ! -f "$directory/data/PG_VERSION" ]; then
    "${as[@]}" "$bin/initdb" --pgdata "$directory/data" --username styx --auth trust --encoding UTF8 --locale C \
      --no-instructions >"$directory/initdb.log" 2>&1 || fail "initdb failed: $(tail -n 1 "$directory/initdb.log")"
  fi
  exec "${as[@]}" "$bin/postgres" -D "$directory/data" -k "$directory" \
    -c listen_addresses= -c max_connections=300 -c shared_buffers=512MB -c max_wal_size=4GB \
    -c fsync=on -c synchronous_commit=on -c default_transaction_isolation=serializable -c log_min_messages=fatal
}

case "${1:-}" in
  install) install ;;
  start)
    [ $# = 2 ] || fail "usage: postgres.sh start DIR"
    install
    start "$2"
    ;;
  *) fail "usage: postgres.sh install | start DIR" ;;
esac
