#!/usr/bin/env bash
# A real single-node Apache Kafka (KRaft, loopback only) out of the jars of Maven Central, for tests and comparisons.
#
#   interop/kafka.sh start DIR PORT [property=value ...]   start a broker that keeps its data in DIR (formatted when new)
#   interop/kafka.sh stop DIR                              stop it
#   interop/kafka.sh tool CLASS ARGS...                    run one of Kafka's own tools, by class name
#   interop/kafka.sh classpath                             the class path, for Java programs
#
# KAFKA_VERSION chooses the release (4.4.0). Needs Java 17 and Maven. The controller takes the port after PORT.
set -euo pipefail

release=${KAFKA_VERSION:-4.4.0}
self=$(cd "$(dirname "$0")" && pwd)
lib=${KAFKA_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/streamsgroup/kafka}/$release

resolve() {
	[ -e "$lib/complete" ] && return
	command -v mvn >/dev/null || { echo "kafka.sh: Maven is needed to fetch Kafka $release once: install mvn" >&2; exit 3; }
	mkdir -p "$lib"
	mvn --quiet --batch-mode --file "$self/pom.xml" "-Dkafka=$release" dependency:copy-dependencies "-DoutputDirectory=$lib" >&2
	touch "$lib/complete"
}

settings() { # DIR PORT
	local controller=$(($2 + 1))
	cat <<-P
		node.id=1
		process.roles=broker,controller
		controller.quorum.voters=1@127.0.0.1:$controller
		controller.listener.names=CONTROLLER
		listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
		listeners=PLAINTEXT://127.0.0.1:$2,CONTROLLER://127.0.0.1:$controller
		advertised.listeners=PLAINTEXT://127.0.0.1:$2
		log.dirs=$1/log
		auto.create.topics.enable=false
		offsets.topic.num.partitions=1
		offsets.topic.replication.factor=1
		transaction.state.log.num.partitions=1
		transaction.state.log.replication.factor=1
		transaction.state.log.min.isr=1
		share.coordinator.state.topic.replication.factor=1
		share.coordinator.state.topic.min.isr=1
		group.streams.initial.rebalance.delay.ms=0
		group.streams.min.session.timeout.ms=200
		group.streams.min.heartbeat.interval.ms=100
	P
	case "$release" in 4.[0-3].*) ;; *) echo group.streams.min.task.offset.interval.ms=100 ;; esac
}

start() {
	mkdir -p "$1"
	local dir port=$2
	dir=$(cd "$1" && pwd)
	shift 2
	resolve
	{ settings "$dir" "$port"; printf '%s\n' "$@"; } >"$dir/server.properties"
	if [ ! -e "$dir/log/meta.properties" ]; then
		java -cp "$lib/*" kafka.tools.StorageTool format --cluster-id c3RyZWFtc2dyb3VwLXRlc3 --config "$dir/server.properties" >"$dir/format.log" 2>&1 ||
			{ cat "$dir/format.log" >&2; exit 1; }
	fi
	nohup java -Xmx1g -cp "$lib/*" kafka.Kafka "$dir/server.properties" >"$dir/kafka.log" 2>&1 </dev/null &
	echo $! >"$dir/pid"
	local i
	for ((i = 0; i < 240; i++)); do
		grep -q 'Kafka Server started' "$dir/kafka.log" && { echo "Apache Kafka $release answers on 127.0.0.1:$port"; return; }
		kill -0 "$(cat "$dir/pid")" 2>/dev/null || break
		sleep 0.25
	done
	echo "kafka.sh: Kafka $release did not start; the end of $dir/kafka.log:" >&2
	tail -n 20 "$dir/kafka.log" >&2
	exit 1
}

stop() {
	local pid i
	pid=$(cat "$1/pid")
	kill "$pid" 2>/dev/null || return 0
	for ((i = 0; i < 120; i++)); do
		kill -0 "$pid" 2>/dev/null || return 0
		sleep 0.25
	done
	kill -9 "$pid"
}

case "${1:-}" in
start) shift; start "$@" ;;
stop) stop "$2" ;;
classpath) resolve; echo "$lib/*" ;;
tool) resolve; shift; exec java -Dorg.slf4j.simpleLogger.defaultLogLevel=warn -cp "$lib/*" "$@" ;;
*) sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
