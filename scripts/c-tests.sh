#!/usr/bin/env bash
# Runs the C SDK's tests and those of the C guests, compiled for this machine, with every access and every overflow checked.
set -euo pipefail
cd "$(dirname "$0")/.."
out=.cache/c-tests
mkdir -p "$out"
flags=(-std=gnu17 -g -O1 -Wall -Wextra -Wno-unused-parameter -Werror -Isdk/c/include -Isdk/c/testing)
# Not every compiler of a machine brings the libraries for it.
if echo 'int main(void){return 0;}' | cc -fsanitize=address,undefined -x c - -o "$out/probe" 2>/dev/null && "$out/probe"; then
  flags+=(-fsanitize=address,undefined -fno-sanitize-recover=all)
else
  echo "  cc has no sanitizers: the tests run without" >&2
fi
sdk=(sdk/c/src/*.c sdk/c/testing/*.c)
check() { # name, then the sources
  local name=$1; shift
  cc "${flags[@]}" "$@" "${sdk[@]}" -lm -o "$out/$name"
  "$out/$name"
}
# The code in the README is a guest and its test.
block() { awk -v wanted="$1" '/^```c$/ { n++; inside = 1; next } /^```/ { inside = 0 } inside && n == wanted' sdk/c/README.md; }
block 1 > "$out/stock.c"
block 2 > "$out/stock_test.c"
check readme "$out/stock.c" "$out/stock_test.c"
for test in sdk/c/tests/*.c; do
  check "$(basename "$test" .c)" "$test"
done
for guest in guests/*-c guests/conformance/c guests/journey/c; do
  check "$(tr / - <<<"${guest#guests/}")-guest" "$guest"/*.c "$guest"/tests/*.c
done
