import java.time.Duration;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.*;
import org.apache.kafka.streams.kstream.*;

/** What an instance of Streams can run instead of its word count. */
class StreamsShapes {
  /** The further inputs are named as the first one, with a number behind it. */
  static void build(String shape, StreamsBuilder b, String input, String output) {
    switch (shape) {
      case "joined" -> b.<String, String>stream(input)
          .join(b.<String, String>stream(input + "2"), (x, y) -> x + y, JoinWindows.ofTimeDifferenceWithNoGrace(Duration.ofSeconds(10)))
          .to(output);
      case "many" -> {
        GlobalKTable<String, String> names = b.globalTable(input + "4", Materialized.as("names"));
        KStream<String, String> lines = b.<String, String>stream(input)
            .leftJoin(names, (k, v) -> k, (line, name) -> line);
        KGroupedStream<String, String> words = lines.flatMapValues(Streams::split).groupBy((k, word) -> word, Grouped.as("words"));
        words.count(Materialized.as("counts")).toStream().to(output, Produced.with(Serdes.String(), Serdes.Long()));
        words.windowedBy(TimeWindows.ofSizeWithNoGrace(Duration.ofMinutes(1))).count(Materialized.as("recent"));
        b.table(input + "2", Materialized.as("table"));
        b.<String, String>stream(input + "3")
            .repartition(Repartitioned.<String, String>as("three").withNumberOfPartitions(3))
            .groupByKey()
            .reduce((x, y) -> y, Materialized.as("last"));
      }
      default -> throw new IllegalArgumentException(shape);
    }
  }
}
