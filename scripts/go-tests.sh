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
# The code in the README is an app, its test, and another version of its operator.
block() { awk -v wanted="$1" '/^```go$/ { n++; inside = 1; next } /^```/ { inside = 0 } inside && n == wanted' "$sdk/README.md"; }
cd "$module"
rm go.mod
GOFLAGS= GOWORK=off go mod init readme 2>/dev/null
echo "require styx v0.0.0
replace styx => $sdk" >> go.mod
mkdir shop stored
block 1 > shop/shop.go
{
  printf 'package main\n\nimport (\n\t"testing"\n\n\t"styx/styxtest"\n)\n\nfunc TestReadme(t *testing.T) {\n'
  block 3
  printf '\tif err != nil || cost != 20 {\n\t\tt.Fatal(cost, err)\n\t}\n}\n'
} > shop/shop_test.go
{
  printf 'package main\n\nimport "styx"\n\ntype Item struct {\n\tStock int `json:"stock"`\n}\n\n'
  block 2
  printf '\nvar _ = styx.Register(stock, "get", func(ctx *styx.Context, _ styx.None) (item Item, err error) {\n\treturn item, ctx.State.Require(&item)\n})\n\nfunc main() {}\n'
} > stored/stored.go
cat > stored/stored_test.go <<'END'
package main

import (
	"testing"

	"styx/styxtest"
)

func TestReadme(t *testing.T) {
	app := styxtest.New()
	app.SetState("stock", "apple", map[string]int{"Count": 3})
	item, err := styxtest.Call[Item](app, "stock", "apple", "get")
	if err != nil || item.Stock != 3 {
		t.Fatal(item, err)
	}
}
END
GOFLAGS= GOWORK=off go test ./...
