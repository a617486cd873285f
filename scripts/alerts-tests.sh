#!/usr/bin/env bash
# The alert rules, evaluated on series by Prometheus' own promtool (docs/operate/monitoring/alerts.test.yaml), and whether
# what the dashboard asks for is PromQL. promtool is the machine's, or Debian's, got into .cache/tools without being installed.
set -euo pipefail

say() { printf '  %s\n' "$*" >&2; }

cd "$(dirname "$0")/.."
monitoring=docs/operate/monitoring
home=$PWD/.cache/tools/prometheus
tool=$(command -v promtool || echo "$home/promtool")

install() (
  command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || return 1
  say "getting promtool (20 MB, once)"
  mkdir -p "$home"
  # Beside its place, then moved there: two that install at once both end with a whole one.
  new=$(mktemp -d "$home/new.XXXXXX")
  trap 'rm -rf "$new"' EXIT
  cd "$new"
  # Lists may be old, or missing.
  apt-get download -qq prometheus >log 2>&1 ||
    { [ "$(id -u)" = 0 ] && apt-get update -qq >>log 2>&1 && apt-get download -qq prometheus >>log 2>&1; } ||
    { tail -n 1 log >&2; return 1; }
  dpkg-deb --fsys-tarfile prometheus_*.deb | tar -x ./usr/bin/promtool
  mv -f usr/bin/promtool "$tool"
)

if ! [ -x "$tool" ] && ! install; then
  say "promtool is missing: alert rules are not evaluated; install Prometheus, or on Debian run \`apt-get update\`, then this again"
  exit 0
fi

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# What a panel asks for, as rules: that is what promtool reads. And each alert has to be seen in both states.
python3 - "$monitoring" >"$scratch/panels.yaml" <<'PYTHON'
import json
import re
import sys
from pathlib import Path

monitoring = Path(sys.argv[1])
alerts = set(re.findall(r"- alert: (\w+)", (monitoring / "alerts.yaml").read_text()))
tests = (monitoring / "alerts.test.yaml").read_text()
tested = {
    "does not fire": set(re.findall(r"alertname: (\w+), eval_time: \w+, exp_alerts: \[\]", tests)),
    "fires": set(re.findall(r"alertname: (\w+)\s+eval_time: \w+\s+exp_alerts:\s+- exp_labels", tests)),
}
missing = [f"{name}: no test where it {state}" for state, names in tested.items() for name in sorted(alerts - names)]
if not alerts or missing:
    sys.exit("\n".join(missing) or "there are no alerts")
panels = json.loads((monitoring / "dashboard.json").read_text())["panels"]
asked = [target["expr"].replace("$__rate_interval", "5m") for panel in panels for target in panel.get("targets", [])]
rules = [{"record": f"panel:{at}", "expr": expression} for at, expression in enumerate(asked)]
if not rules:
    sys.exit("the dashboard asks for nothing")
print(json.dumps({"groups": [{"name": "panels", "rules": rules}]}))
PYTHON

"$tool" check rules "$monitoring/alerts.yaml" "$scratch/panels.yaml" >"$scratch/log" || { cat "$scratch/log" >&2; exit 1; }
"$tool" test rules "$monitoring/alerts.test.yaml" >"$scratch/log" 2>&1 || { cat "$scratch/log" >&2; exit 1; }
say "$(grep -c 'alert:' "$monitoring/alerts.yaml") alerts fire when they should, and not otherwise"
