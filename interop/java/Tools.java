import java.io.*;
import java.nio.charset.StandardCharsets;
import java.util.*;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.*;
import org.apache.kafka.common.utils.internals.Exit;

/**
 * Runs Kafka's own tools one after the other in one process. Each line of
 * standard input is the class of a tool and its arguments, separated by tabs;
 * the class "admin" stands for calls of the Admin client, see below. For each it
 * prints one line: the exit code, and standard output and standard error in
 * base64.
 */
public class Tools {
  static class Exited extends Error {
    final int code;
    Exited(int code) { super(null, null, false, false); this.code = code; }
    public String toString() { return ""; }
  }

  static Integer exited; // with which code, the first time

  static Exited exit(int code) {
    if (exited == null) exited = code;
    return new Exited(code);
  }

  public static void main(String[] args) throws Exception {
    Exit.setExitProcedure((code, message) -> { throw exit(code); });
    Exit.setHaltProcedure((code, message) -> { throw exit(code); });
    var in = new BufferedReader(new InputStreamReader(System.in));
    PrintStream stdout = System.out, stderr = System.err;
    for (String line; (line = in.readLine()) != null; ) {
      String[] words = line.split("\t", -1);
      String[] rest = Arrays.copyOfRange(words, 1, words.length);
      var out = new ByteArrayOutputStream();
      var err = new ByteArrayOutputStream();
      System.setOut(new PrintStream(out, true));
      System.setErr(new PrintStream(err, true));
      exited = null;
      int code = 0;
      try {
        if (words[0].equals("admin")) admin(rest);
        else Class.forName(words[0]).getMethod("main", String[].class).invoke(null, (Object) rest);
      } catch (Throwable e) {
        Throwable root = e;
        while (root.getCause() != null) root = root.getCause();
        if (!(root instanceof Exited)) {
          code = 1;
          System.err.println(root);
        }
      }
      if (exited != null) code = exited;
      System.setOut(stdout);
      System.setErr(stderr);
      stdout.println(code + " " + encode(out) + " " + encode(err));
      stdout.flush();
    }
    Runtime.getRuntime().halt(0);
  }

  static String encode(ByteArrayOutputStream b) {
    return "=" + Base64.getEncoder().encodeToString(b.toByteArray());
  }

  /**
   * Calls of the Admin client. The first argument is the address of a broker, the
   * second says what to call, the third is a group: list; describe; offsets;
   * alter topic partition offset; deleteOffsets topic partition; delete.
   */
  static void admin(String[] args) throws Exception {
    String group = args.length > 2 ? args[2] : "";
    try (Admin admin = Admin.create(Map.of("bootstrap.servers", args[0], "request.timeout.ms", "10000", "default.api.timeout.ms", "20000"))) {
      switch (args[1]) {
        case "list" -> {
          for (GroupListing g : admin.listGroups().all().get())
            System.out.println(g.groupId() + " " + g.type().orElse(null) + " " + g.protocol() + " " + g.groupState().orElse(null) + " simple " + g.isSimpleConsumerGroup());
        }
        case "listStreams" -> {
          for (GroupListing g : admin.listGroups(ListGroupsOptions.forStreamsGroups()).all().get())
            System.out.println(g.groupId() + " " + g.groupState().orElse(null));
        }
        case "describe" -> describe(admin.describeStreamsGroups(List.of(group),
            new DescribeStreamsGroupsOptions().includeAuthorizedOperations(true)).describedGroups().get(group).get());
        case "offsets" -> {
          var offsets = admin.listStreamsGroupOffsets(Map.of(group, new ListStreamsGroupOffsetsSpec())).partitionsToOffsetAndMetadata(group).get();
          offsets.forEach((tp, o) -> System.out.println(tp + " " + (o == null ? null : o.offset() + " '" + o.metadata() + "'")));
        }
        case "alter" -> {
          var result = admin.alterStreamsGroupOffsets(group,
              Map.of(new TopicPartition(args[3], Integer.parseInt(args[4])), new OffsetAndMetadata(Long.parseLong(args[5]))));
          result.all().get();
        }
        case "deleteOffsets" -> admin.deleteStreamsGroupOffsets(group, Set.of(new TopicPartition(args[3], Integer.parseInt(args[4])))).all().get();
        case "delete" -> admin.deleteStreamsGroups(List.of(group)).all().get();
        default -> throw new IllegalArgumentException(args[1]);
      }
    }
  }

  static void describe(StreamsGroupDescription g) {
    System.out.println("group " + g.groupId() + " epoch " + g.groupEpoch() + " assignment " + g.targetAssignmentEpoch()
        + " topology " + g.topologyEpoch() + " state " + g.groupState() + " coordinator " + g.coordinator());
    System.out.println("description " + g.topologyDescriptionStatus() + " " + g.topologyDescription() + " assignor " + g.assignorName());
    System.out.println("operations " + new TreeSet<>(g.authorizedOperations().stream().map(Object::toString).collect(Collectors.toSet())));
    for (StreamsGroupSubtopologyDescription s : g.subtopologies()) {
      System.out.println("subtopology " + s.subtopologyId() + " sources " + s.sourceTopics() + " sinks " + s.repartitionSinkTopics());
      s.stateChangelogTopics().forEach((k, t) -> System.out.println("changelog " + k + " " + topic(t)));
      s.repartitionSourceTopics().forEach((k, t) -> System.out.println("repartition " + k + " " + topic(t)));
    }
    for (StreamsGroupMemberDescription m : g.members()) {
      System.out.println("member " + m.memberId() + " epoch " + m.memberEpoch() + " instance " + m.instanceId() + " rack " + m.rackId()
          + " client " + m.clientId() + " host " + m.clientHost() + " topology " + m.topologyEpoch() + " process " + m.processId()
          + " endpoint " + m.userEndpoint().map(e -> e.host() + ":" + e.port()) + " tags " + new TreeMap<>(m.clientTags())
          + " classic " + m.isClassic());
      System.out.println("assignment " + tasks(m.assignment()) + " target " + tasks(m.targetAssignment()));
      System.out.println("offsets " + m.taskOffsets().stream().map(o -> o.subtopologyId() + "_" + o.partition()).sorted().toList()
          + " ends " + m.taskEndOffsets().stream().map(o -> o.subtopologyId() + "_" + o.partition()).sorted().toList());
    }
  }

  static String topic(StreamsGroupSubtopologyDescription.TopicInfo t) {
    return "partitions " + t.partitions() + " replication " + t.replicationFactor() + " settings " + new TreeMap<>(t.topicConfigs());
  }

  static String tasks(StreamsGroupMemberAssignment a) {
    return "active " + ids(a.activeTasks()) + " standby " + ids(a.standbyTasks()) + " warm-up " + ids(a.warmupTasks());
  }

  static String ids(List<StreamsGroupMemberAssignment.TaskIds> tasks) {
    var out = new TreeSet<String>();
    for (var t : tasks) for (int p : t.partitions()) out.add(t.subtopologyId() + "_" + p);
    return out.toString();
  }
}
