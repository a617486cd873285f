#!/bin/sh
# rustc for the workspace's own crates under libFuzzer: what was reached and what was compared is told to it. Passes of LLVM
# are chosen by plain options, so that a stable toolchain will do; dependencies are compiled as ever, and once.
case " $* " in
  *" --crate-name build_script_"* | *" --crate-type proc-macro "*) exec "$@" ;;
esac
exec "$@" -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
  -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares
