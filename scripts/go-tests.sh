#!/usr/bin/env bash
# Runs the Go SDK's tests, on this machine's processor, with the Go that is there or the one of scripts/languages.sh.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH="$PATH:/usr/local/go/bin:$PWD/.cache/go/go/bin"
cd sdk/go
test -z "$(gofmt -l .)" || { echo "gofmt -w sdk/go first" >&2; exit 1; }
GOFLAGS= GOWORK=off go vet ./...
GOFLAGS= GOWORK=off go test ./...
# Guests name the SDK as their users do; here it is the one of this repository.
sdk=$PWD
module=$(mktemp -d)
trap 'rm -rf "$module"' EXIT
for guest in ../../guests/*-go ../../guests/{conformance,journey}/go; do
  cd "$sdk/$guest"
  test -z "$(gofmt -l .)" || { echo "gofmt -w $PWD first" >&2; exit 1; }
  { cat go.mod; echo "replace styx => $sdk"; } > "$module/go.mod"
  touch "$module/go.sum"
  GOFLAGS= GOWORK=off go test -modfile="$module/go.mod" ./...
done
