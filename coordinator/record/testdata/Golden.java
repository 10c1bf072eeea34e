import java.nio.ByteBuffer;
import java.util.*;
import org.apache.kafka.common.protocol.*;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.group.GroupCoordinatorRecordSerde;
import org.apache.kafka.coordinator.group.generated.*;
import org.apache.kafka.server.common.ApiMessageAndVersion;

/**
 * Without arguments: prints golden.txt, records encoded by Kafka's own classes.
 * With "check": reads lines "name key value" (hex, "-" for null) from standard
 * input, decodes and encodes each with Kafka's classes, fails if a byte differs.
 *
 *   java -cp 'KAFKA_JARS/*' Golden.java > golden.txt        (Kafka 4.4.0)
 */
public class Golden {
  static final GroupCoordinatorRecordSerde SERDE = new GroupCoordinatorRecordSerde();
  static final HexFormat HEX = HexFormat.of();

  static void put(String name, ApiMessage key, ApiMessage value) {
    CoordinatorRecord r = value == null ? CoordinatorRecord.tombstone(key)
        : CoordinatorRecord.record(key, new ApiMessageAndVersion(value, (short) 0));
    byte[] v = SERDE.serializeValue(r);
    System.out.println(name + " " + HEX.formatHex(SERDE.serializeKey(r)) + " " + (v == null ? "-" : HEX.formatHex(v)));
  }

  static StreamsGroupMetadataKey k17() { return new StreamsGroupMetadataKey().setGroupId("app"); }
  static StreamsGroupMemberMetadataKey k19() { return new StreamsGroupMemberMetadataKey().setGroupId("app").setMemberId("m-1"); }
  static StreamsGroupTargetAssignmentMetadataKey k20() { return new StreamsGroupTargetAssignmentMetadataKey().setGroupId("app"); }
  static StreamsGroupTargetAssignmentMemberKey k21() { return new StreamsGroupTargetAssignmentMemberKey().setGroupId("app").setMemberId("m-1"); }
  static StreamsGroupCurrentMemberAssignmentKey k22() { return new StreamsGroupCurrentMemberAssignmentKey().setGroupId("app").setMemberId("m-1"); }
  static StreamsGroupTopologyKey k23() { return new StreamsGroupTopologyKey().setGroupId("app"); }

  static StreamsGroupMetadataValue.LastAssignmentConfig config(String k, String v) {
    return new StreamsGroupMetadataValue.LastAssignmentConfig().setKey(k).setValue(v);
  }
  static StreamsGroupMemberMetadataValue.KeyValue tag(String k, String v) {
    return new StreamsGroupMemberMetadataValue.KeyValue().setKey(k).setValue(v);
  }
  static StreamsGroupTargetAssignmentMemberValue.TaskIds target(String s, Integer... p) {
    return new StreamsGroupTargetAssignmentMemberValue.TaskIds().setSubtopologyId(s).setPartitions(List.of(p));
  }
  static StreamsGroupCurrentMemberAssignmentValue.TaskIds current(String s, Integer... p) {
    return new StreamsGroupCurrentMemberAssignmentValue.TaskIds().setSubtopologyId(s).setPartitions(List.of(p));
  }
  static StreamsGroupTopologyValue.TopicConfig topicConfig(String k, String v) {
    return new StreamsGroupTopologyValue.TopicConfig().setKey(k).setValue(v);
  }

  static void print() {
    put("group-tombstone", k17(), null);
    put("group-defaults", k17(), new StreamsGroupMetadataValue());
    put("group-validated", k17(), new StreamsGroupMetadataValue().setEpoch(2).setMetadataHash(-6148914691236517206L)
        .setValidatedTopologyEpoch(0));
    put("group-null-configs", k17(), new StreamsGroupMetadataValue().setEpoch(7).setLastAssignmentConfigs(null));
    put("group-all", k17(), new StreamsGroupMetadataValue().setEpoch(Integer.MAX_VALUE).setMetadataHash(Long.MIN_VALUE)
        .setValidatedTopologyEpoch(3).setLastAssignmentConfigs(List.of(config("num.standby.replicas", "1"),
            config("rack.aware.assignment.tags", "zone,cluster")))
        .setStoredDescriptionTopologyEpoch(2).setFailedDescriptionTopologyEpoch(1));
    put("group-long-configs", k17(), new StreamsGroupMetadataValue().setEpoch(1)
        .setLastAssignmentConfigs(List.of(config("k", "v".repeat(200)), config("l", "w".repeat(300)))));

    put("member-tombstone", k19(), null);
    put("member-nulls", k19(), new StreamsGroupMemberMetadataValue().setInstanceId(null).setRackId(null)
        .setClientId("client").setClientHost("/127.0.0.1").setRebalanceTimeoutMs(1500).setProcessId("p-1"));
    put("member-defaults", k19(), new StreamsGroupMemberMetadataValue());
    put("member-all", k19(), new StreamsGroupMemberMetadataValue().setInstanceId("i-1").setRackId("rack-a")
        .setClientId("cli\u00e9nt").setClientHost("/10.0.0.1").setRebalanceTimeoutMs(300000).setTopologyEpoch(4)
        .setProcessId("3f0c6a5e-9d3b-4d55-8d3e-8c6b1d2a7f10")
        .setUserEndpoint(new StreamsGroupMemberMetadataValue.Endpoint().setHost("host.example").setPort(65535))
        .setClientTags(List.of(tag("cluster", "k1"), tag("zone", ""))));

    put("target-metadata-tombstone", k20(), null);
    put("target-metadata-defaults", k20(), new StreamsGroupTargetAssignmentMetadataValue());
    put("target-metadata-all", k20(), new StreamsGroupTargetAssignmentMetadataValue().setAssignmentEpoch(11)
        .setAssignmentTimestamp(1767225600000L));

    put("target-tombstone", k21(), null);
    put("target-empty", k21(), new StreamsGroupTargetAssignmentMemberValue());
    put("target-all", k21(), new StreamsGroupTargetAssignmentMemberValue()
        .setActiveTasks(List.of(target("0", 0, 1, 2), target("1", 7)))
        .setStandbyTasks(List.of(target("0", 3)))
        .setWarmupTasks(List.of(target("10", 2147483647), target("no-partition"))));

    put("current-tombstone", k22(), null);
    put("current-defaults", k22(), new StreamsGroupCurrentMemberAssignmentValue());
    put("current-without-epochs", k22(), new StreamsGroupCurrentMemberAssignmentValue().setMemberEpoch(5)
        .setPreviousMemberEpoch(4).setState((byte) 0).setActiveTasks(List.of(current("0", 0, 1))));
    put("current-null-epochs", k22(), new StreamsGroupCurrentMemberAssignmentValue().setMemberEpoch(5)
        .setActiveTasks(List.of(current("0", 0, 1).setAssignmentEpochs(null))));
    put("current-empty-epochs", k22(), new StreamsGroupCurrentMemberAssignmentValue().setMemberEpoch(5)
        .setActiveTasks(List.of(current("0", 0, 1).setAssignmentEpochs(List.of()))));
    put("current-absent-static", k22(), new StreamsGroupCurrentMemberAssignmentValue().setMemberEpoch(-2)
        .setPreviousMemberEpoch(9));
    put("current-all", k22(), new StreamsGroupCurrentMemberAssignmentValue().setMemberEpoch(11)
        .setPreviousMemberEpoch(10).setState((byte) 2)
        .setActiveTasks(List.of(current("0", 0, 1).setAssignmentEpochs(List.of(10, 11)), current("1", 4).setAssignmentEpochs(List.of(3))))
        .setStandbyTasks(List.of(current("0", 2)))
        .setWarmupTasks(List.of(current("0", 3)))
        .setActiveTasksPendingRevocation(List.of(current("0", 4, 5).setAssignmentEpochs(List.of(8, 9))))
        .setStandbyTasksPendingRevocation(List.of(current("1", 0)))
        .setWarmupTasksPendingRevocation(List.of(current("1", 1))));

    put("topology-tombstone", k23(), null);
    put("topology-empty", k23(), new StreamsGroupTopologyValue());
    put("topology-all", k23(), new StreamsGroupTopologyValue().setEpoch(3).setSubtopologies(List.of(
        new StreamsGroupTopologyValue.Subtopology().setSubtopologyId("0")
            .setSourceTopics(List.of("lines", "more-lines")).setSourceTopicRegex(List.of("in-.*"))
            .setRepartitionSinkTopics(List.of("app-words-repartition")),
        new StreamsGroupTopologyValue.Subtopology().setSubtopologyId("1")
            .setSourceTopics(List.of("users"))
            .setStateChangelogTopics(List.of(new StreamsGroupTopologyValue.TopicInfo().setName("app-counts-changelog")
                .setReplicationFactor((short) -1)
                .setTopicConfigs(List.of(topicConfig("cleanup.policy", "compact"), topicConfig("segment.bytes", "52428800")))))
            .setRepartitionSourceTopics(List.of(new StreamsGroupTopologyValue.TopicInfo().setName("app-words-repartition")
                .setPartitions(6).setReplicationFactor((short) 3)))
            .setCopartitionGroups(List.of(new StreamsGroupTopologyValue.CopartitionGroup()
                .setSourceTopics(List.of((short) 0)).setSourceTopicRegex(List.of((short) 32767))
                .setRepartitionSourceTopics(List.of((short) 0)), new StreamsGroupTopologyValue.CopartitionGroup())))));
  }

  static void check() {
    Scanner in = new Scanner(System.in);
    int n = 0;
    for (; in.hasNextLine(); n++) {
      String[] f = in.nextLine().split(" ");
      byte[] key = HEX.parseHex(f[1]);
      byte[] value = f[2].equals("-") ? null : HEX.parseHex(f[2]);
      CoordinatorRecord r = SERDE.deserialize(ByteBuffer.wrap(key), value == null ? null : ByteBuffer.wrap(value));
      if (!Arrays.equals(key, SERDE.serializeKey(r)) || !Arrays.equals(value, SERDE.serializeValue(r))) {
        throw new AssertionError(f[0] + ": differs: " + r);
      }
    }
    System.out.println(n + " records read and written again by Kafka without a difference");
  }

  public static void main(String[] args) {
    if (args.length > 0) check(); else print();
  }
}
