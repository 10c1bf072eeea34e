import java.io.*;
import java.lang.reflect.Field;
import java.nio.ByteBuffer;
import java.util.*;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.*;
import org.apache.kafka.common.protocol.*;
import org.apache.kafka.common.protocol.types.RawTaggedField;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.group.GroupCoordinatorRecordSerde;
import org.apache.kafka.coordinator.group.generated.CoordinatorRecordJsonConverters;
import org.apache.kafka.server.common.ApiMessageAndVersion;

/**
 * Reads lines "key value" (hex, "-" for null) from standard input, records of
 * the offsets topic, and decodes them as Kafka's group coordinator does when it
 * loads. Prints one JSON object for each: type, key and value by the names of
 * Kafka's schemas, the tags that Kafka does not know, and whether Kafka encodes
 * the record to the same bytes. A record that cannot be decoded ends it.
 */
public class Records {
  static final GroupCoordinatorRecordSerde SERDE = new GroupCoordinatorRecordSerde();

  public static void main(String[] args) throws Exception {
    var in = new BufferedReader(new InputStreamReader(System.in));
    for (String line; (line = in.readLine()) != null; ) {
      String[] parts = line.split(" ");
      byte[] key = HexFormat.of().parseHex(parts[0]);
      byte[] value = parts[1].equals("-") ? null : HexFormat.of().parseHex(parts[1]);
      CoordinatorRecord r = SERDE.deserialize(ByteBuffer.wrap(key), value == null ? null : ByteBuffer.wrap(value));
      ObjectNode out = JsonNodeFactory.instance.objectNode();
      out.put("type", r.key().apiKey());
      out.set("key", CoordinatorRecordJsonConverters.writeRecordKeyAsJson(r.key()));
      ArrayNode unknown = out.putArray("unknown");
      findUnknown(r.key(), "key", unknown);
      ApiMessageAndVersion v = r.value();
      if (v == null) {
        out.putNull("value");
      } else {
        JsonNode json = CoordinatorRecordJsonConverters.writeRecordValueAsJson(v.message(), v.version());
        out.set("value", json);
        findUnknown(v.message(), "value", unknown);
      }
      out.put("same", Arrays.equals(key, SERDE.serializeKey(r)) && Arrays.equals(value, SERDE.serializeValue(r)));
      System.out.println(out);
    }
  }

  /** Adds "path:tag" for each tag that a message, or one within it, does not know. */
  static void findUnknown(Message message, String path, ArrayNode out) throws Exception {
    for (RawTaggedField f : message.unknownTaggedFields()) out.add(path + ":" + f.tag());
    for (Field f : message.getClass().getDeclaredFields()) {
      if (f.getName().startsWith("_") || java.lang.reflect.Modifier.isStatic(f.getModifiers())) continue;
      f.setAccessible(true);
      Object o = f.get(message);
      if (o instanceof Message m) findUnknown(m, path + "." + f.getName(), out);
      if (o instanceof Iterable<?> list)
        for (Object e : list) if (e instanceof Message m) findUnknown(m, path + "." + f.getName(), out);
    }
  }
}
