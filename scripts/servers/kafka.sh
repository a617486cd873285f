#!/usr/bin/env bash
# Kafka for tests and trials: brokers on loopback, from the release's jars, without containers.
#
#   kafka.sh install              fetch the jars into .cache/tools/kafka (quick if they are there)
#   kafka.sh start DIR PORT       one broker at 127.0.0.1:PORT, in the foreground, its data in DIR
#   kafka.sh start3 DIR PORT      three brokers at PORT, PORT+1 and PORT+2, in DIR/1 to DIR/3
#   kafka.sh start3 DIR PORT N    only the Nth of the three, in the foreground
#
# A broker talks to its controllers on its port plus 100. STYX_KAFKA_HEAP is its heap (default 384m), STYX_KAFKA_MORE
# are further lines for its configuration.
set -euo pipefail

version=4.1.1
logging=1.7.36
say() { printf '  %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
root=$PWD
tools=$root/.cache/tools
home=$tools/kafka
jars=$home/$version
# The caller's directory, so that DIR may be relative to it.
here=${OLDPWD:-$root}

command -v java >/dev/null || fail "Java is missing: install a runtime of version 17 or newer, then run this again"

install() {
  [ -f "$jars/.complete" ] && return
  command -v mvn >/dev/null || fail "Maven is missing, which fetches Kafka: install it, then run this again"
  say "fetching Kafka $version"
  mkdir -p "$home"
  # Beside its place, then moved there: two that install at once both end with all of it.
  new=$(mktemp -d "$home/new.XXXXXX")
  trap 'rm -rf "$new"' EXIT
  cat > "$new/pom.xml" <<POM
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>styx</groupId><artifactId>kafka-broker</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>$version</version></dependency>
    <dependency><groupId>org.slf4j</groupId><artifactId>slf4j-reload4j</artifactId><version>$logging</version></dependency>
  </dependencies>
</project>
POM
  mvn --quiet --batch-mode --file "$new/pom.xml" dependency:copy-dependencies \
    -DincludeScope=runtime -DoutputDirectory="$new/libs" >&2 || fail "Maven could not fetch Kafka $version"
  touch "$new/.complete"
  mv -T "$new" "$jars" 2>/dev/null || [ -f "$jars/.complete" ] || fail "cannot write $jars"
  say "Kafka $version is in $jars"
}

# Brokers $3 of $4 in directory $1, the first at port $2: writes the configuration and formats what is new.
prepare() {
  local directory=$1 port=$2 node=$3 nodes=$4 n at voters="" replicas=1
  at=$((port + node - 1))
  for ((n = 1; n <= nodes; n++)); do voters+="${voters:+,}$n@127.0.0.1:$((port + n - 1 + 100))"; done
  [ "$nodes" = 3 ] && replicas=3
  mkdir -p "$directory"
  cat > "$directory/server.properties" <<PROPERTIES
process.roles=broker,controller
node.id=$node
controller.quorum.voters=$voters
listeners=PLAINTEXT://127.0.0.1:$at,CONTROLLER://127.0.0.1:$((at + 100))
advertised.listeners=PLAINTEXT://127.0.0.1:$at
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
log.dirs=$directory/data
auto.create.topics.enable=false
offsets.topic.replication.factor=$replicas
offsets.topic.num.partitions=1
share.coordinator.state.topic.replication.factor=$replicas
share.coordinator.state.topic.min.isr=1
transaction.state.log.replication.factor=$replicas
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
num.network.threads=2
num.io.threads=2
num.recovery.threads.per.data.dir=1
log.cleaner.dedupe.buffer.size=2097152
log.cleaner.threads=1
broker.heartbeat.interval.ms=500
broker.session.timeout.ms=4000
controlled.shutdown.enable=false
${STYX_KAFKA_MORE:-}
PROPERTIES
  cat > "$directory/log4j.properties" <<PROPERTIES
log4j.rootLogger=WARN, stderr
log4j.appender.stderr=org.apache.log4j.ConsoleAppender
log4j.appender.stderr.target=System.err
log4j.appender.stderr.layout=org.apache.log4j.PatternLayout
log4j.appender.stderr.layout.ConversionPattern=%d{HH:mm:ss} %p %c{1} %m%n
PROPERTIES
  # Kafka also asks the other logging library, which would complain that nobody configured it.
  printf 'rootLogger.level = off\n' > "$directory/log4j2.properties"
  if [ ! -f "$directory/data/meta.properties" ]; then
    # Brokers of one cluster share its id: the same for all that this script starts.
    java -Xmx128m -XX:TieredStopAtLevel=1 -cp "$jars/libs/*" kafka.tools.StorageTool format \
      -t c3R5eC1rYWZrYS10ZXN0cw -c "$directory/server.properties" >/dev/null 2>"$directory/format.err" ||
      fail "cannot format $directory: $(tail -n 1 "$directory/format.err")"
  fi
}

run() {
  exec java -Xms64m -Xmx"${STYX_KAFKA_HEAP:-384m}" -XX:+UseSerialGC -XX:TieredStopAtLevel=1 \
    -Dlog4j.configuration="file:$1/log4j.properties" -Dlog4j2.configurationFile="$1/log4j2.properties" \
    -cp "$jars/libs/*" kafka.Kafka "$1/server.properties"
}

absolute() { case $1 in /*) printf '%s' "$1" ;; *) printf '%s' "$here/$1" ;; esac; }

case "${1:-}" in
  install) install ;;
  start)
    [ $# = 3 ] || fail "usage: kafka.sh start DIR PORT"
    install
    directory=$(absolute "$2")
    prepare "$directory" "$3" 1 1
    run "$directory"
    ;;
  start3)
    [ $# = 3 ] || [ $# = 4 ] || fail "usage: kafka.sh start3 DIR PORT [N]"
    install
    directory=$(absolute "$2")
    if [ $# = 4 ]; then
      prepare "$directory/$4" "$3" "$4" 3
      run "$directory/$4"
    fi
    for node in 1 2 3; do prepare "$directory/$node" "$3" "$node" 3; done
    brokers=()
    trap 'kill "${brokers[@]}" 2>/dev/null' EXIT
    for node in 1 2 3; do (run "$directory/$node") & brokers+=($!); done
    wait
    ;;
  *) sed -n '2,10s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2 ;;
esac
