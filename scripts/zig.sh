# Finds the C compiler that guests in C are built with, for other scripts: "$zig_python" -m ziglang.
zig=$(sed -n 's/.*ZIG: &str = "\(.*\)";/\1/p' host/build/src/c/toolchain.rs)

# Guests in C are built with the same, which is in the cache of `styx build` if one was.
zig_python=
for each in "${XDG_CACHE_HOME:-$HOME/.cache}"/styx/c/venv-*/bin/python ".cache/zig/venv/bin/python"; do
  if [ -x "$each" ] && [ "$("$each" -c 'from importlib.metadata import version; print("ziglang==" + version("ziglang"))' 2>/dev/null)" = "$zig" ]; then zig_python=$each; fi
done
if [ -z "$zig_python" ]; then
  echo "getting $zig into .cache/zig" >&2
  python3 -m venv --clear ".cache/zig/venv"
  zig_python=.cache/zig/venv/bin/python
  "$zig_python" -m pip install --quiet --disable-pip-version-check "$zig"
fi
zig_python=$(realpath --no-symlinks "$zig_python")
