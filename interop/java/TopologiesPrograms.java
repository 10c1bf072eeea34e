import java.lang.reflect.Field;
import java.time.Duration;
import java.util.*;
import com.fasterxml.jackson.databind.node.*;
import org.apache.kafka.common.serialization.*;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.*;
import org.apache.kafka.streams.kstream.*;
import org.apache.kafka.streams.processor.api.*;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.processor.internals.*;
import org.apache.kafka.streams.state.*;

/** Makes up programs of the stream DSL, one for each seed, and shows the graph that the DSL makes of them. */
public class TopologiesPrograms {
  static String line(long seed) throws Exception {
    ObjectNode out = Topologies.JSON.createObjectNode();
    out.put("name", "dsl-" + seed);
    var program = new TopologiesPrograms(seed);
    out.set("config", program.settings);
    try {
      StreamsConfig config = Topologies.config(program.settings);
      Topology topology = program.make(config);
      var builder = (InternalTopologyBuilder) field(Topology.class, topology, "internalTopologyBuilder");
      Topologies.answer(builder, config, out);
      out.set("graph", graph(builder));
    } catch (Exception e) {
      Topologies.reject(out, "build", e);
    }
    return out.toString();
  }

  static Object field(Class<?> c, Object o, String name) throws Exception {
    Field f = c.getDeclaredField(name);
    f.setAccessible(true);
    return f.get(o);
  }

  // What the DSL registered, in the order in which it did so.

  static ObjectNode graph(InternalTopologyBuilder b) throws Exception {
    Class<?> c = InternalTopologyBuilder.class;
    Map<?, ?> nodes = (Map<?, ?>) field(c, b, "nodeFactories");
    Map<?, ?> sinks = (Map<?, ?>) field(c, b, "nodeToSinkTopic");
    Set<?> globalTopics = (Set<?>) field(c, b, "globalTopics");
    Map<?, ?> globals = (Map<?, ?>) field(c, b, "globalStateBuilders");
    Map<?, ?> changelogs = (Map<?, ?>) field(c, b, "storeToChangelogTopic");
    ObjectNode g = Topologies.JSON.createObjectNode();
    ArrayNode out = g.putArray("nodes");
    Class<?> base = Class.forName(c.getName() + "$NodeFactory");
    Class<?> processor = Class.forName(c.getName() + "$ProcessorNodeFactory");
    for (Map.Entry<?, ?> e : nodes.entrySet()) {
      Object f = e.getValue();
      ObjectNode n = out.addObject();
      String kind = processor.isInstance(f) ? "processor" : f.getClass().getSimpleName().equals("SourceNodeFactory") ? "source" : "sink";
      n.put("kind", kind);
      n.put("name", (String) e.getKey());
      if (kind.equals("source")) {
        Object pattern = field(f.getClass(), f, "pattern");
        if (pattern != null) n.put("pattern", pattern.toString());
        ArrayNode topics = n.putArray("topics");
        List<?> list = (List<?>) field(f.getClass(), f, "topics");
        for (Object t : list) topics.add((String) t);
        if (!list.isEmpty() && globalTopics.containsAll(list)) n.put("global", true);
        continue;
      }
      ArrayNode parents = n.putArray("parents");
      for (String p : (String[]) field(base, f, "predecessors")) parents.add(p);
      if (kind.equals("sink")) {
        n.put("topic", (String) sinks.get(e.getKey()));
        continue;
      }
      ArrayNode stores = n.putArray("stores"), global = n.putArray("globalStores");
      for (Object s : new TreeSet<>((Set<?>) field(processor, f, "stateStoreNames")))
        (globals.containsKey(s) ? global : stores).add((String) s);
    }
    ArrayNode stores = g.putArray("stores");
    for (StoreFactory s : new TreeMap<>(b.stateStores()).values()) {
      ObjectNode n = stores.addObject();
      n.put("name", s.storeName());
      n.put("kind", s.isWindowStore() ? "windowed" : s.isVersionedStore() ? "versioned" : "keyvalue");
      n.put("logging", s.loggingEnabled());
      if (s.isWindowStore()) n.put("retentionMs", s.retentionPeriod());
      if (s.isVersionedStore()) n.put("historyRetentionMs", s.historyRetention());
      ObjectNode settings = n.putObject("changelogConfig");
      if (s.loggingEnabled()) s.logConfig().forEach(settings::put);
      Object topic = changelogs.get(s.storeName());
      if (!s.loggingEnabled() && topic != null) n.put("sourceTopicAsChangelog", (String) topic);
    }
    ArrayNode internal = g.putArray("internalTopics");
    for (Map.Entry<?, ?> e : new TreeMap<>((Map<?, ?>) field(c, b, "internalTopicNamesWithProperties")).entrySet()) {
      ObjectNode n = internal.addObject();
      n.put("name", (String) e.getKey());
      n.put("partitions", ((InternalTopicProperties) e.getValue()).numberOfPartitions().orElse(null));
    }
    ArrayNode sets = g.putArray("copartition");
    for (Object set : (List<?>) field(c, b, "copartitionSourceGroups")) {
      ArrayNode names = sets.addArray();
      for (Object s : new TreeSet<>((Set<?>) set)) names.add((String) s);
    }
    return g;
  }

  // The programs.

  final Random random;
  final ObjectNode settings = Topologies.JSON.createObjectNode();
  final List<KStream<String, String>> streams = new ArrayList<>();
  final List<KTable<String, String>> tables = new ArrayList<>();
  final List<GlobalKTable<String, String>> globals = new ArrayList<>();
  final List<String> shared = new ArrayList<>();
  StreamsBuilder dsl;
  int count;

  TopologiesPrograms(long seed) {
    random = new Random(seed * 7919);
    if (chance(4)) settings.put("topology.optimization", pick("all", "reuse.ktable.source.topics", "merge.repartition.topics", "single.store.self.join"));
    if (chance(8)) settings.put("replication.factor", pick("1", "3"));
    if (chance(8)) settings.put("windowstore.changelog.additional.retention.ms", pick("0", "1000", "9223372036854775807"));
    if (chance(8)) settings.put("topic.segment.bytes", "1000000");
    if (chance(12)) settings.put("topic.retention.ms", "5");
    if (chance(12)) settings.put("topic.cleanup.policy", pick("delete", "compact"));
    if (chance(12)) settings.put("topic.min.compaction.lag.ms", "7");
    if (chance(12)) settings.put("dsl.store.suppliers.class", "org.apache.kafka.streams.state.BuiltInDslStoreSuppliers$InMemoryDslStoreSuppliers");
  }

  boolean chance(int oneIn) { return random.nextInt(oneIn) == 0; }
  String pick(String... of) { return of[random.nextInt(of.length)]; }
  <T> T any(List<T> of) { return of.get(random.nextInt(of.size())); }
  String fresh(String what) { return pick("", "a-", "Z.", "m_") + what + "-" + count++; }
  Duration time() { return Duration.ofMillis(1 + random.nextInt(10_000_000)); }
  Grouped<String, String> grouped() { return chance(2) ? Grouped.as(fresh("group")) : Grouped.with(Serdes.String(), Serdes.String()); }

  Topology make(StreamsConfig config) {
    dsl = new StreamsBuilder(new TopologyConfig(config));
    streams.add(stream());
    int steps = 1 + random.nextInt(14);
    for (int i = 0; i < steps; i++) step();
    if (chance(2)) any(streams).to("out");
    var properties = new Properties();
    if (settings.has("topology.optimization")) properties.put("topology.optimization", settings.get("topology.optimization").asText());
    return dsl.build(properties);
  }

  KStream<String, String> stream() {
    if (chance(5)) return dsl.stream(List.of(fresh("in"), fresh("in"), "a" + count++));
    return dsl.stream(fresh("in"));
  }

  KTable<String, String> table() {
    if (!tables.isEmpty() && chance(2)) return any(tables);
    KTable<String, String> t = chance(2) ? dsl.table(fresh("table"))
        : chance(4) ? dsl.table(fresh("table"), Materialized.as(Stores.persistentVersionedKeyValueStore(fresh("versioned"), time())))
        : dsl.table(fresh("table"), kept());
    tables.add(t);
    return t;
  }

  Materialized<String, String, KeyValueStore<Bytes, byte[]>> kept() {
    Materialized<String, String, KeyValueStore<Bytes, byte[]>> m =
        chance(3) ? Materialized.with(Serdes.String(), Serdes.String()) : Materialized.as(fresh("store"));
    return logged(m);
  }

  <S extends org.apache.kafka.streams.processor.StateStore, V> Materialized<String, V, S> logged(Materialized<String, V, S> m) {
    if (chance(6)) return m.withLoggingDisabled();
    if (chance(6)) return m.withLoggingEnabled(Map.of(pick("segment.bytes", "retention.ms", "cleanup.policy", "min.compaction.lag.ms"), pick("1", "delete")));
    return m;
  }

  <V> Materialized<String, V, WindowStore<Bytes, byte[]>> windows() {
    Materialized<String, V, WindowStore<Bytes, byte[]>> m = Materialized.as(fresh("windows"));
    if (chance(3)) m = m.withRetention(Duration.ofDays(1));
    return logged(m);
  }

  void step() {
    KStream<String, String> s = any(streams);
    switch (random.nextInt(34)) {
      case 0, 1 -> streams.add(stream());
      case 2, 3 -> streams.add(s.selectKey((k, v) -> v));
      case 4 -> streams.add(s.mapValues(v -> v, chance(2) ? Named.as(fresh("map")) : Named.as(fresh("x"))));
      case 5 -> streams.add(s.map((k, v) -> KeyValue.pair(v, k)).filter((k, v) -> true));
      case 6 -> streams.add(s.merge(any(streams)));
      case 7 -> streams.addAll(s.split(Named.as(fresh("split"))).branch((k, v) -> true).defaultBranch().values());
      case 8 -> streams.add(s.repartition(chance(3) ? Repartitioned.numberOfPartitions(1 + random.nextInt(3))
          : chance(2) ? Repartitioned.as(fresh("rep") + pick("", "-repartition")) : Repartitioned.with(Serdes.String(), Serdes.String())));
      case 9 -> counted(s.groupByKey(grouped()));
      case 10, 11 -> counted(s.groupBy((k, v) -> v, grouped()));
      case 12 -> tables.add(s.groupBy((k, v) -> v).reduce((a, b) -> a, kept()));
      case 13 -> tables.add(s.groupByKey().aggregate(() -> "", (k, v, a) -> a, kept()));
      case 14 -> tables.add(s.groupByKey().<String>cogroup((k, v, a) -> a).cogroup(any(streams).groupByKey(grouped()), (k, v, a) -> a)
          .aggregate(() -> "", kept()));
      case 15, 16 -> {
        KStream<String, String> o = any(streams);
        JoinWindows w = chance(2) ? JoinWindows.ofTimeDifferenceWithNoGrace(time()) : JoinWindows.ofTimeDifferenceAndGrace(time(), time());
        StreamJoined<String, String, String> j = chance(2) ? StreamJoined.as(fresh("join")) : StreamJoined.with(Serdes.String(), Serdes.String(), Serdes.String());
        if (chance(3)) j = j.withName(fresh("named"));
        if (chance(5)) j = j.withLoggingDisabled();
        else if (chance(5)) j = j.withLoggingEnabled(Map.of("segment.bytes", "9"));
        ValueJoiner<String, String, String> v = (a, b) -> a;
        streams.add(switch (random.nextInt(3)) { case 0 -> s.join(o, v, w, j); case 1 -> s.leftJoin(o, v, w, j); default -> s.outerJoin(o, v, w, j); });
      }
      case 17, 18 -> streams.add(chance(2) ? s.join(table(), (a, b) -> a) : s.leftJoin(table(), (a, b) -> a, Joined.as(fresh("lookup"))));
      case 19 -> streams.add(s.join(dsl.table(fresh("history"), Materialized.as(Stores.persistentVersionedKeyValueStore(fresh("versioned"), Duration.ofDays(1)))),
          (a, b) -> a, Joined.with(Serdes.String(), Serdes.String(), Serdes.String()).withGracePeriod(Duration.ofMillis(9))));
      case 20 -> {
        if (globals.isEmpty() || chance(2)) globals.add(chance(2) ? dsl.globalTable(fresh("global")) : dsl.globalTable(fresh("global"), Materialized.as(fresh("global-store"))));
        streams.add(s.join(any(globals), (k, v) -> v, (a, b) -> a));
      }
      case 21 -> tables.add(chance(2) ? table().join(table(), (a, b) -> a) : table().outerJoin(table(), (a, b) -> a, Named.as(fresh("tables")), kept()));
      case 22 -> tables.add(table().leftJoin(table(), (String v) -> v, (a, b) -> a));
      case 23 -> tables.add(table().join(table(), (String v) -> v, (a, b) -> a, TableJoined.as(fresh("fk")), kept()));
      case 24 -> tables.add(chance(2) ? s.toTable() : s.toTable(Named.as(fresh("to-table")), kept()));
      case 25 -> tables.add(chance(2) ? table().filter((k, v) -> true) : table().mapValues(v -> v, kept()));
      case 26 -> tables.add(table().groupBy((k, v) -> KeyValue.pair(v, k), grouped()).reduce((a, b) -> a, (a, b) -> a, kept()));
      case 27 -> streams.add(table().toStream());
      case 28 -> { if (chance(3)) s.to((k, v, c) -> v); else s.to(fresh("out")); }
      case 29 -> streams.add(table().suppress(Suppressed.untilTimeLimit(time(),
          chance(3) ? Suppressed.BufferConfig.unbounded().withLoggingDisabled() : Suppressed.BufferConfig.unbounded())).toStream());
      case 30, 31 -> {
        if (shared.isEmpty() || chance(3)) {
          shared.add(fresh("shared"));
          dsl.addStateStore(Stores.keyValueStoreBuilder(Stores.inMemoryKeyValueStore(shared.get(shared.size() - 1)), Serdes.String(), Serdes.String()));
        }
        streams.add(s.<String, String>process(() -> new Same(), any(shared)));
      }
      case 32 -> dsl.addGlobalStore(Stores.keyValueStoreBuilder(Stores.inMemoryKeyValueStore(fresh("filled")), Serdes.String(), Serdes.String()).withLoggingDisabled(),
          fresh("reference"), Consumed.with(Serdes.String(), Serdes.String()), () -> new Last());
      default -> s.foreach((k, v) -> {});
    }
  }

  void counted(KGroupedStream<String, String> g) {
    switch (random.nextInt(6)) {
      case 0 -> tables.add(g.count().mapValues(String::valueOf));
      case 1 -> tables.add(g.reduce((a, b) -> b, kept()));
      case 2 -> unwindow(g.windowedBy(TimeWindows.ofSizeAndGrace(time(), time())).count(windows()).toStream());
      case 3 -> unwindow(g.windowedBy(SlidingWindows.ofTimeDifferenceWithNoGrace(time())).count(windows()).toStream());
      case 4 -> {
        Materialized<String, Long, SessionStore<Bytes, byte[]>> m = Materialized.as(fresh("sessions"));
        unwindow(g.windowedBy(SessionWindows.ofInactivityGapAndGrace(time(), time())).count(logged(m)).toStream());
      }
      default -> {
        Duration size = time();
        var w = g.windowedBy(TimeWindows.ofSizeWithNoGrace(size));
        if (chance(2)) w = w.emitStrategy(EmitStrategy.onWindowClose());
        Materialized<String, Long, WindowStore<Bytes, byte[]>> m = windows();
        var t = w.count(m);
        unwindow(chance(2) ? t.suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded())).toStream() : t.toStream());
      }
    }
  }

  void unwindow(KStream<Windowed<String>, Long> s) {
    streams.add(s.map((k, v) -> KeyValue.pair(k.key(), "" + v)));
  }

  static class Same implements Processor<String, String, String, String> {
    @Override public void process(Record<String, String> r) {}
  }

  static class Last implements Processor<String, String, Void, Void> {
    @Override public void process(Record<String, String> r) {}
  }
}
