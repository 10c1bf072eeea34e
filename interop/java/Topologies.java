import java.io.*;
import java.lang.reflect.*;
import java.util.*;
import com.fasterxml.jackson.databind.*;
import com.fasterxml.jackson.databind.node.*;
import org.apache.kafka.clients.consumer.internals.StreamsRebalanceData;
import org.apache.kafka.common.message.*;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.*;
import org.apache.kafka.streams.processor.TopicNameExtractor;
import org.apache.kafka.streams.processor.api.*;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.processor.internals.*;
import org.apache.kafka.streams.state.*;

/**
 * Says what Kafka Streams puts on the wire for a graph.
 *
 * Without arguments it reads graphs, one JSON object a line with "config" and
 * "graph", registers them node by node and answers each with a line: "topology"
 * and "description" as they would be sent, or "rejected".
 *
 * With a seed and a number it makes up as many programs of the stream DSL
 * instead, and prints for each its "config", the "graph" that the DSL made of it
 * and the answer. See TopologiesPrograms.
 */
public class Topologies {
  static final ObjectMapper JSON = new ObjectMapper();

  public static void main(String[] args) throws Exception {
    var out = new PrintStream(new BufferedOutputStream(System.out, 1 << 16), false, "UTF-8");
    if (args.length == 2) {
      long seed = Long.parseLong(args[0]);
      for (int i = 0; i < Integer.parseInt(args[1]); i++) out.println(TopologiesPrograms.line(seed + i));
      out.flush();
      return;
    }
    var in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
    for (String line; (line = in.readLine()) != null; ) {
      ObjectNode answer = JSON.createObjectNode();
      JsonNode asked = JSON.readTree(line);
      StreamsConfig config = config(asked.get("config"));
      try {
        var builder = new InternalTopologyBuilder();
        register(builder, asked.get("graph"));
        answer(builder, config, answer);
      } catch (Exception e) {
        reject(answer, "build", e);
      }
      out.println(answer);
    }
    out.flush();
  }

  static StreamsConfig config(JsonNode settings) {
    var p = new Properties();
    p.put("application.id", "app");
    p.put("bootstrap.servers", "127.0.0.1:1");
    p.put("group.protocol", "streams");
    settings.fields().forEachRemaining(e -> p.put(e.getKey(), e.getValue().asText()));
    return new StreamsConfig(p);
  }

  static void reject(ObjectNode answer, String when, Throwable e) {
    while (e instanceof InvocationTargetException) e = e.getCause();
    ObjectNode r = answer.putObject("rejected");
    r.put("when", when);
    r.put("exception", e.getClass().getSimpleName());
    r.put("message", String.valueOf(e.getMessage()));
  }

  /** Does with a finished graph what a starting instance does. */
  static void answer(InternalTopologyBuilder builder, StreamsConfig config, ObjectNode answer) {
    try {
      var metadata = new TopologyMetadata(builder, config);
      metadata.buildAndRewriteTopology();
      if (metadata.usesPatternSubscription()) throw new UnsupportedOperationException("pattern subscription");
      Method broker = StreamThread.class.getDeclaredMethod("initBrokerTopology", StreamsConfig.class, InternalTopologyBuilder.class);
      broker.setAccessible(true);
      Object subtopologies = broker.invoke(null, config, builder);
      Class<?> state = Class.forName("org.apache.kafka.clients.consumer.internals.StreamsGroupHeartbeatRequestManager$HeartbeatState");
      Method toWire = state.getDeclaredMethod("fromStreamsToHeartbeatRequest", Map.class);
      toWire.setAccessible(true);
      @SuppressWarnings("unchecked")
      var subs = (List<StreamsGroupHeartbeatRequestData.Subtopology>) toWire.invoke(null, subtopologies);
      var data = new StreamsGroupHeartbeatRequestData().setTopology(
          new StreamsGroupHeartbeatRequestData.Topology().setEpoch(0).setSubtopologies(subs));
      JsonNode request = StreamsGroupHeartbeatRequestDataJsonConverter.write(data, (short) 1);
      var description = new StreamsGroupTopologyDescriptionUpdateRequestData()
          .setTopologyDescription(TopologyDescriptionConverter.toWire(builder.describe(), builder::maybeDecorateInternalTopic));
      JsonNode push = StreamsGroupTopologyDescriptionUpdateRequestDataJsonConverter.write(description, (short) 0);
      answer.set("topology", request.get("topology"));
      answer.set("description", push.get("topologyDescription"));
    } catch (Exception e) {
      reject(answer, "start", e);
    }
  }

  static String[] texts(JsonNode list) {
    var out = new ArrayList<String>();
    if (list != null) list.forEach(n -> out.add(n.asText()));
    return out.toArray(new String[0]);
  }

  static class Nothing implements Processor<Object, Object, Object, Object> {
    @Override public void process(Record<Object, Object> r) {}
  }

  static class Ends implements Processor<Object, Object, Void, Void> {
    @Override public void process(Record<Object, Object> r) {}
  }

  static void register(InternalTopologyBuilder b, JsonNode graph) {
    for (JsonNode t : graph.get("internalTopics")) {
      boolean fixed = t.hasNonNull("partitions") && t.get("partitions").asInt() > 0;
      b.addInternalTopic(t.get("name").asText(), fixed ? new InternalTopicProperties(t.get("partitions").asInt()) : InternalTopicProperties.empty());
    }
    Map<String, List<String>> users = new HashMap<>();
    JsonNode global = null;
    for (JsonNode n : graph.get("nodes")) {
      String name = n.get("name").asText();
      for (String s : texts(n.get("stores"))) users.computeIfAbsent(s, k -> new ArrayList<>()).add(name);
      switch (n.get("kind").asText()) {
        case "source" -> {
          if (n.path("global").asBoolean()) global = n;
          else if (n.hasNonNull("pattern")) b.addSource(null, name, null, null, null, java.util.regex.Pattern.compile(n.get("pattern").asText()));
          else b.addSource(null, name, null, null, null, texts(n.get("topics")));
        }
        case "processor" -> {
          if (n.path("globalStores").size() > 0) {
            String store = n.get("globalStores").get(0).asText();
            b.addGlobalStore(global.get("name").asText(), null, null, null, global.get("topics").get(0).asText(), name, filling(store), false);
          } else {
            b.addProcessor(name, (ProcessorSupplier<Object, Object, Object, Object>) Nothing::new, texts(n.get("parents")));
          }
        }
        case "sink" -> {
          if (n.hasNonNull("topic")) b.addSink(name, n.get("topic").asText(), null, null, null, texts(n.get("parents")));
          else b.addSink(name, (TopicNameExtractor<Object, Object>) (k, v, c) -> "x", null, null, null, texts(n.get("parents")));
        }
        default -> throw new IllegalArgumentException(n.toString());
      }
    }
    for (JsonNode s : graph.get("stores")) {
      String name = s.get("name").asText();
      b.addStateStore(store(s), users.getOrDefault(name, List.of()).toArray(new String[0]));
      if (s.hasNonNull("sourceTopicAsChangelog")) b.connectSourceStoreAndTopic(name, s.get("sourceTopicAsChangelog").asText());
    }
    for (JsonNode set : graph.get("copartition")) b.copartitionSources(List.of(texts(set)));
    b.validateCopartition();
  }

  static ProcessorSupplier<Object, Object, Void, Void> filling(String store) {
    return new ProcessorSupplier<>() {
      @Override public Processor<Object, Object, Void, Void> get() { return new Ends(); }
      @Override public Set<StoreBuilder<?>> stores() {
        return Set.of(Stores.keyValueStoreBuilder(Stores.inMemoryKeyValueStore(store), Serdes.String(), Serdes.String()).withLoggingDisabled());
      }
    };
  }

  static StoreBuilder<?> store(JsonNode s) {
    String name = s.get("name").asText();
    long retention = Math.max(s.path("retentionMs").asLong(), s.path("historyRetentionMs").asLong());
    StoreBuilder<?> b = switch (s.get("kind").asText()) {
      case "keyvalue" -> Stores.keyValueStoreBuilder(Stores.inMemoryKeyValueStore(name), Serdes.String(), Serdes.String());
      case "windowed" -> Stores.windowStoreBuilder(
          Stores.inMemoryWindowStore(name, java.time.Duration.ofMillis(retention), java.time.Duration.ofMillis(retention), false), Serdes.String(), Serdes.String());
      case "versioned" -> Stores.versionedKeyValueStoreBuilder(
          Stores.persistentVersionedKeyValueStore(name, java.time.Duration.ofMillis(retention)), Serdes.String(), Serdes.String());
      default -> throw new IllegalArgumentException(s.toString());
    };
    if (!s.get("logging").asBoolean()) return b.withLoggingDisabled();
    Map<String, String> settings = new HashMap<>();
    if (s.has("changelogConfig")) s.get("changelogConfig").fields().forEachRemaining(e -> settings.put(e.getKey(), e.getValue().asText()));
    return b.withLoggingEnabled(settings);
  }
}
