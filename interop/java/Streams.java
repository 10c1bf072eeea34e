import java.io.*;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.*;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.streams.*;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.*;
import org.apache.kafka.streams.state.*;

/**
 * Word counts with Kafka Streams, of which a test starts and stops instances by
 * lines on standard input. What happens is told on standard output, one line an
 * event: "NAME word ...".
 *
 *   start NAME [setting=value ...]   settings of Kafka Streams, and those below
 *   close NAME [leave|remain]        close; the group is left or not, as said
 *   add NAME, remove NAME            one stream thread more or less
 *   pause NAME, resume NAME          no processing for a while
 *   clients NAME                     what it knows of all clients of the group
 *   get NAME WORD                    the count of a word, if the store is local
 *   where NAME WORD                  which clients have the count of a word
 *   lags NAME                        the partitions of stores that it has
 *   consume NAME TOPIC [setting=value ...]   a plain consumer, until "close NAME"
 *
 * A ~ in a setting stands for a space. Settings of its own: input, output
 * (topics), store, pattern (an input by pattern instead), onerror (client,
 * application or replace: what is to end when a record throws), shape (what to
 * run instead of the word count: see StreamsShapes). A line "throw" throws, a line
 * "throw WORD" once in a process, a line "sleep N" takes N milliseconds. No call here is younger than Kafka 4.0.
 */
public class Streams {
  static final Map<String, KafkaStreams> running = new ConcurrentHashMap<>();
  static final Map<String, KafkaConsumer<String, String>> consumers = new ConcurrentHashMap<>();
  static final Set<String> slept = ConcurrentHashMap.newKeySet();

  static synchronized void tell(String name, String what) {
    System.out.println(name + " " + what.replace('\n', ' '));
    System.out.flush();
  }

  public static void main(String[] args) throws Exception {
    var in = new BufferedReader(new InputStreamReader(System.in));
    for (String line; (line = in.readLine()) != null; ) {
      String[] words = line.split(" ");
      String name = words[1];
      try {
        command(words, name);
      } catch (Exception e) {
        e.printStackTrace();
        tell(name, "failed " + words[0] + " " + e);
      }
    }
    for (KafkaStreams s : running.values()) s.close(Duration.ofSeconds(10));
    System.exit(0);
  }

  static void command(String[] words, String name) throws Exception {
    KafkaStreams s = running.get(name);
    switch (words[0]) {
      case "start" -> start(name, Arrays.copyOfRange(words, 2, words.length));
      case "consume" -> new Thread(() -> consume(name, words[2], Arrays.copyOfRange(words, 3, words.length))).start();
      case "close" -> new Thread(() -> close(name, s, words.length > 2 ? words[2] : "")).start();
      case "add" -> tell(name, "added " + s.addStreamThread().isPresent());
      case "pause" -> { s.pause(); tell(name, "paused"); }
      case "resume" -> { s.resume(); tell(name, "resumed"); }
      case "remove" -> new Thread(() -> tell(name, "removed " + s.removeStreamThread().isPresent())).start();
      case "clients" -> {
        var lines = new TreeSet<String>();
        for (StreamsMetadata m : s.metadataForAllStreamsClients())
          lines.add(m.host() + ":" + m.port() + "=" + sorted(m.topicPartitions()) + "/" + sorted(m.standbyTopicPartitions()));
        tell(name, "clients " + String.join(" ", lines));
      }
      case "get" -> {
        ReadOnlyKeyValueStore<String, Long> store =
            s.store(StoreQueryParameters.fromNameAndType("counts", QueryableStoreTypes.<String, Long>keyValueStore()).enableStaleStores());
        tell(name, "got " + words[2] + " " + store.get(words[2]));
      }
      case "where" -> {
        KeyQueryMetadata m = s.queryMetadataForKey("counts", words[2], Serdes.String().serializer());
        tell(name, "where " + words[2] + " " + address(m.activeHost()) + " "
            + sorted(m.standbyHosts().stream().map(Streams::address).toList()));
      }
      case "lags" -> {
        var stores = new TreeSet<String>();
        s.allLocalStorePartitionLags().forEach((k, v) -> v.forEach((p, lag) -> stores.add(k + "-" + p + ":" + lag.offsetLag())));
        tell(name, "lags " + String.join(" ", stores));
      }
      default -> throw new IllegalArgumentException(words[0]);
    }
  }

  static String address(HostInfo h) {
    return h.host() + ":" + h.port();
  }

  static String sorted(Collection<?> c) {
    var out = new TreeSet<String>();
    for (Object o : c) out.add(o.toString());
    return String.join(",", out);
  }

  static void start(String name, String[] settings) throws Exception {
    Properties p = new Properties();
    p.put("group.protocol", "streams");
    p.put("default.key.serde", Serdes.StringSerde.class.getName());
    p.put("default.value.serde", Serdes.StringSerde.class.getName());
    p.put("statestore.cache.max.bytes", "0"); // every count is written
    p.put("commit.interval.ms", "200");
    p.put("replication.factor", "1");
    p.put("main.consumer.auto.offset.reset", "earliest");
    p.put("producer.linger.ms", "0");
    p.put("producer.transaction.timeout.ms", "10000");
    put(p, settings);
    String input = take(p, "input", "lines"), output = take(p, "output", "counts");
    String store = take(p, "store", "counts"), onerror = take(p, "onerror", "client"), pattern = take(p, "pattern", "");
    String shape = take(p, "shape", "");

    StreamsBuilder b = new StreamsBuilder();
    if (shape.isEmpty()) words(b, input, pattern, store, output);
    else StreamsShapes.build(shape, b, input, output);
    var s = new KafkaStreams(b.build(p), p);
    running.put(name, s);
    s.setStateListener((now, before) -> tell(name, "state " + now));
    s.setUncaughtExceptionHandler(e -> {
      e.printStackTrace();
      tellUncaught(name, e);
      return switch (onerror) {
        case "application" -> StreamThreadExceptionResponse.SHUTDOWN_APPLICATION;
        case "replace" -> StreamThreadExceptionResponse.REPLACE_THREAD;
        default -> StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
      };
    });
    s.setGlobalStateRestoreListener(new org.apache.kafka.streams.processor.StateRestoreListener() {
      public void onRestoreStart(org.apache.kafka.common.TopicPartition tp, String store, long from, long to) {}
      public void onBatchRestored(org.apache.kafka.common.TopicPartition tp, String store, long end, long n) {}
      public void onRestoreEnd(org.apache.kafka.common.TopicPartition tp, String store, long total) {
        tell(name, "restored " + tp + " " + total);
      }
    });
    s.start();
  }

  static void words(StreamsBuilder b, String input, String pattern, String store, String output) {
    KStream<String, String> lines = pattern.isEmpty()
        ? b.stream(input)
        : b.stream(java.util.regex.Pattern.compile(pattern));
    lines.flatMapValues(Streams::split)
        .groupBy((k, word) -> word, Grouped.as("words"))
        .count(Materialized.as(store))
        .toStream()
        .to(output, Produced.with(Serdes.String(), Serdes.Long()));
  }

  static void tellUncaught(String name, Throwable e) {
    Throwable root = e;
    while (root.getCause() != null) root = root.getCause();
    tell(name, "uncaught " + e.getClass().getSimpleName() + " " + root.getClass().getSimpleName() + " " + root.getMessage());
  }

  static void put(Properties p, String[] settings) {
    for (String s : settings) p.put(s.substring(0, s.indexOf('=')), s.substring(s.indexOf('=') + 1).replace('~', ' '));
  }

  /** Tells "consuming" when it has got partitions. */
  static void consume(String name, String topic, String[] settings) {
    Properties p = new Properties();
    put(p, settings);
    try (var c = new KafkaConsumer<>(p, new StringDeserializer(), new StringDeserializer())) {
      consumers.put(name, c);
      c.subscribe(List.of(topic));
      for (boolean told = false; ; ) {
        c.poll(Duration.ofMillis(100));
        if (told || c.assignment().isEmpty()) continue;
        tell(name, "consuming " + sorted(c.assignment()));
        told = true;
      }
    } catch (org.apache.kafka.common.errors.WakeupException e) {
      consumers.remove(name);
      tell(name, "closed true");
    } catch (Exception e) {
      consumers.remove(name);
      e.printStackTrace();
      tellUncaught(name, e);
    }
  }

  static String take(Properties p, String key, String otherwise) {
    Object v = p.remove(key);
    return v == null ? otherwise : v.toString();
  }

  static List<String> split(String line) {
    if (line.equals("throw")) throw new IllegalStateException("told to throw");
    if (line.startsWith("throw ")) {
      if (slept.add(line)) throw new IllegalStateException("told to throw once");
      return List.of();
    }
    if (line.startsWith("sleep ")) {
      if (!slept.add(line)) return List.of();
      try {
        Thread.sleep(Long.parseLong(line.substring(6)));
      } catch (InterruptedException e) {
        throw new RuntimeException(e);
      }
      return List.of();
    }
    return Arrays.asList(line.split(" "));
  }

  static void close(String name, KafkaStreams s, String how) {
    if (s == null) {
      KafkaConsumer<String, String> c = consumers.get(name);
      if (c != null) c.wakeup();
      else tell(name, "closed true");
      return;
    }
    var timeout = Duration.ofSeconds(60);
    try {
      boolean ended = switch (how) {
        case "leave" -> s.close(new KafkaStreams.CloseOptions().timeout(timeout).leaveGroup(true));
        case "remain" -> s.close(new KafkaStreams.CloseOptions().timeout(timeout).leaveGroup(false));
        default -> s.close(timeout);
      };
      running.remove(name);
      tell(name, "closed " + ended);
    } catch (Exception e) {
      e.printStackTrace();
      tell(name, "closed " + e);
    }
  }
}
