#!/usr/bin/env bash
# Installs each package of target/packages where nothing else is, and uses it as a newcomer does: an empty home, no Rust.
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$PWD packages=$PWD/target/packages fresh=$(mktemp -d)
server=0
end() { [ "$server" = 0 ] || kill "$server" 2>/dev/null || true; rm -rf "$fresh"; }
trap end EXIT
mkdir "$fresh/home" "$fresh/work"
python3 -m venv "$fresh/venv"
# Of the machine only what a system without compilers of ours has: no cargo, no go, no cc.
mkdir "$fresh/bin"
for tool in sh env uname sed cat dirname basename; do ln -s "$(command -v $tool)" "$fresh/bin/$tool"; done
ports=$("$fresh/venv/bin/python" -c 'import socket
sockets = [socket.socket() for _ in range(2)]
for each in sockets: each.bind(("127.0.0.1", 0))
print(*(each.getsockname()[1] for each in sockets))')
read -r ingress admin <<<"$ports"
clean=(env -i HOME="$fresh/home" LANG=C.UTF-8 PATH="$fresh/venv/bin:$fresh/bin"
  STYX_INGRESS_URL="http://127.0.0.1:$ingress" STYX_ADMIN_URL="http://127.0.0.1:$admin")
# The registries are those of this machine's settings.
for setting in $(compgen -e | grep -E '^(PIP_|npm_config_|NPM_CONFIG_|SSL_CERT|REQUESTS_CA|NODE_EXTRA|https?_proxy|HTTPS?_PROXY|no_proxy|NO_PROXY)' || true); do clean+=("$setting=${!setting}"); done
[ ! -e "${XDG_CONFIG_HOME:-$HOME/.config}/pip/pip.conf" ] || clean+=("PIP_CONFIG_FILE=${XDG_CONFIG_HOME:-$HOME/.config}/pip/pip.conf")
[ ! -e "$HOME/.npmrc" ] || clean+=("NPM_CONFIG_USERCONFIG=$HOME/.npmrc")

began=$EPOCHREALTIME
us() { echo $((${EPOCHREALTIME/./} - ${began/./})); }
step() { printf '  ✓ %-66s %6.1f s\n' "$1" "$(us)e-6"; began=$EPOCHREALTIME; }
same() { [ "$1" = "$2" ] || { echo "  ✗ $1, not $2" >&2; exit 1; }; }
all=${EPOCHREALTIME/./}

# The newcomer's five commands.
cd "$fresh/work"
"${clean[@]}" pip install --quiet --disable-pip-version-check "$packages"/styx_functions-*.whl
step "pip install styx-functions"
"${clean[@]}" styx new bank --lang python 2>/dev/null
step "styx new bank --lang python"
"${clean[@]}" styx server --ingress-addr "127.0.0.1:$ingress" --admin-addr "127.0.0.1:$admin" >server.log 2>&1 &
server=$!
until "${clean[@]}" styx apps >/dev/null 2>&1; do
  kill -0 "$server" || { cat server.log >&2; exit 1; }
  read -rt 0.05 <> <(:) || true
done
step "styx server"
"${clean[@]}" styx deploy bank >deploy.log 2>&1 || { cat deploy.log >&2; exit 1; }
step "styx deploy bank"
same "$("${clean[@]}" styx call bank/account/ann/deposit '[100]' 2>/dev/null)" 100
step "styx call bank/account/ann/deposit '[100]'"
printf '    five commands to the first answer: %.1f s\n' "$((${EPOCHREALTIME/./} - all))e-6"

# The SDK that the wheel has, without the command: an app's own tests, by the newcomer's Python and by the command.
(cd bank && "${clean[@]}" python -m unittest --quiet 2>test.log) || { cat bank/test.log >&2; exit 1; }
"${clean[@]}" styx test bank >test.log 2>&1 || { cat test.log >&2; exit 1; }
same "$("${clean[@]}" pip list --disable-pip-version-check --format freeze | grep -c '^styx')" 1
same "$("${clean[@]}" styx --version)" "styx $("${clean[@]}" python -c 'import styx; print(styx.__version__)')"
step "the SDK of the wheel: the app's own tests"

# What the wheel says of the systems that it is for.
python3 -m venv "$fresh/audit"
if "$fresh/audit/bin/pip" install --quiet --disable-pip-version-check auditwheel 2>/dev/null; then
  tag=$(basename "$packages"/styx_functions-*.whl .whl); tag=${tag##*-}
  "$fresh/audit/bin/auditwheel" show "$packages"/styx_functions-*.whl | tr '\n' ' ' | grep -q "\"$tag\"" || {
    echo "  ✗ auditwheel finds another platform than $tag" >&2
    "$fresh/audit/bin/auditwheel" show "$packages"/styx_functions-*.whl >&2
    exit 1
  }
  step "auditwheel: $tag"
else
  echo "  - auditwheel cannot be had: the wheel's platform is not checked" >&2
fi

# The client for Python.
"${clean[@]}" pip install --quiet --disable-pip-version-check "$packages"/styx_client-*.whl
same "$("${clean[@]}" python -c "
from styx_client import Client
with Client('http://127.0.0.1:$ingress', admin_url='http://127.0.0.1:$admin') as styx:
    print(styx.call('bank', 'account', 'ann', 'transfer', 'bob', 30), styx.state('bank', 'account', 'bob'))")" "70 30"
step "pip install styx-client, a call"

# npm: the client in a project of its own, the SDK in an app that the compiler checks.
for tool in node npm; do ln -s "$(command -v $tool)" "$fresh/bin/$tool"; done
npm_install=("${clean[@]}" npm install --ignore-scripts --no-audit --no-fund --no-update-notifier --loglevel error)
mkdir caller && cd caller
echo '{"type": "module", "private": true}' >package.json
"${npm_install[@]}" "$packages"/styx-client-*.tgz >/dev/null
cat >call.js <<'JS'
import { Client } from "styx-client";
const styx = new Client({ ingressUrl: process.env.STYX_INGRESS_URL });
console.log(await styx.call("bank", "account", "ann", "transfer", ["bob", 30]));
await styx.close();
JS
same "$("${clean[@]}" node call.js)" 40
cd ..
step "npm install styx-client, a call"
"${clean[@]}" styx new till --lang typescript 2>/dev/null
cd till
"${npm_install[@]}" "$packages"/styx-sdk-*.tgz typescript @types/node@20 >/dev/null
"${clean[@]}" node_modules/.bin/tsc -p .
sed -i 's/return balance;/return "none";/' account.ts
if "${clean[@]}" node_modules/.bin/tsc -p . >/dev/null; then
  echo "  ✗ the SDK's types say nothing of a wrong result" >&2; exit 1
fi
cd ..
step "npm install styx-sdk, types of an app"

# The languages' own tools find the SDK that the command has, where `styx new` says that it is.
sdk=$fresh/home/.cache/styx/sdk
for language in rust go c typescript; do "${clean[@]}" styx new "own-$language" --lang "$language" 2>/dev/null; done
for pair in cargo:rust/Cargo.toml go:go cc:c/include/styx.h; do
  command -v "${pair%%:*}" >/dev/null || { echo "  - there is no ${pair%%:*}" >&2; continue; }
  case $pair in
    cargo*) cd own-rust; found=$(cargo metadata --quiet --format-version 1 | grep -o '[^"]*sdk/rust[^/"]*/Cargo.toml' | head -1) ;;
    go*) cd own-go; found=$(go list -f '{{.Dir}}' styx) ;;
    cc*) cd own-c; found=$(cc -M $(cat compile_flags.txt) tests/account_test.c account.c | grep -o '[^ ]*/styx\.h' | head -1) ;;
  esac
  same "$(realpath "$found")" "$(realpath "$sdk/${pair#*:}")"
  cd ..
done
same "$(realpath own-typescript/node_modules/styx-sdk)" "$(realpath "$sdk/typescript")"
files=$("${clean[@]}" till/node_modules/.bin/tsc -p own-typescript --listFilesOnly || true)
grep -q "sdk/typescript.*/src/index.ts" <<<"$files" || { echo "  ✗ tsc finds no SDK: $files" >&2; exit 1; }
step "cargo, go, cc and tsc find the SDK of styx new"

# Crates, where there is Rust: an app's tests against the SDK as it is packed, and a program with the client.
if command -v cargo >/dev/null; then
  mkdir crates && for crate in "$packages"/*.crate; do tar -xzf "$crate" -C crates; done
  "${clean[@]}" styx new vault --lang rust 2>/dev/null
  rm -r vault/.cargo
  { echo; echo '[patch.crates-io]'
    for crate in styx-sdk styx-sdk-macros; do echo "$crate = { path = \"$(echo "$PWD"/crates/$crate-[0-9]*)\" }"; done
  } >>vault/Cargo.toml
  cargo new --quiet --vcs none caller-in-rust
  { echo "styx-client = { path = \"$(echo "$PWD"/crates/styx-client-*)\" }"; echo 'tokio = { version = "1", features = ["macros", "rt"] }'; echo '[workspace]'; } >>caller-in-rust/Cargo.toml
  cat >caller-in-rust/src/main.rs <<RUST
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), styx_client::Error> {
    let styx = styx_client::Client::new("http://127.0.0.1:$ingress")?;
    let balance = styx.call("bank", "account", "ann", "balance", "[]".parse().expect("JSON")).await?;
    println!("{balance}");
    Ok(())
}
RUST
  export CARGO_TARGET_DIR=$root/.cache/packages/crates
  (cd vault && cargo test --quiet >../crates.log 2>&1) || { cat crates.log >&2; exit 1; }
  same "$(cd caller-in-rust && cargo run --quiet 2>../crates.log || cat ../crates.log)" 40
  step "crates styx-sdk and styx-client: an app's tests, a call"
else
  echo "  - there is no cargo: crates are not tried" >&2
fi
printf '    in all: %.1f s\n' "$((${EPOCHREALTIME/./} - all))e-6"
