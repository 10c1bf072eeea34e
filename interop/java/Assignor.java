import java.io.*;
import java.lang.management.ManagementFactory;
import java.util.*;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.*;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.group.api.streams.assignor.*;
import org.apache.kafka.coordinator.group.streams.TopologyMetadata;
import org.apache.kafka.coordinator.group.streams.assignor.*;
import org.apache.kafka.coordinator.group.streams.topics.*;

/**
 * Runs the sticky assignor of Kafka's group coordinator. Each line of standard
 * input is a JSON object with one request, and each has one line in answer:
 *
 *   {"assign": group}    the assignment: member, then role, then subtopology
 *   {"point": settings}  prepares a point of Kafka's StreamsStickyAssignorBenchmark
 *   {"run": millis}      assigns the group of that point again and again; answers
 *                        the nanoseconds of each and the bytes that one allocates
 */
public class Assignor {
  static final ObjectMapper JSON = new ObjectMapper();
  static final com.sun.management.ThreadMXBean THREADS = (com.sun.management.ThreadMXBean) ManagementFactory.getThreadMXBean();

  static GroupSpec group;
  static TopologyDescriber topology;
  static int consumed; // keeps the compiler from dropping a result that nobody uses

  public static void main(String[] args) throws Exception {
    var in = new BufferedReader(new InputStreamReader(System.in));
    var out = new PrintStream(new FileOutputStream(FileDescriptor.out), true);
    for (String line; (line = in.readLine()) != null; ) {
      JsonNode request = JSON.readTree(line);
      JsonNode answer;
      if (request.has("assign")) answer = assign(request.get("assign"));
      else if (request.has("point")) answer = point(request.get("point"));
      else answer = run(request.get("run").asLong());
      out.println(JSON.writeValueAsString(answer));
    }
  }

  /** Unlike Kafka's own, a topology in which a subtopology may have no task. */
  record Topology(SortedMap<String, Integer> tasks, Set<String> stateful) implements TopologyDescriber {
    public List<String> subtopologies() { return List.copyOf(tasks.keySet()); }
    public int maxNumInputPartitions(String id) { return tasks.get(id); }
    public boolean isStateful(String id) { return stateful.contains(id); }
  }

  static TopologyDescriber describe(SortedMap<String, Integer> tasks, Set<String> stateful) {
    var subtopologies = new TreeMap<String, ConfiguredSubtopology>();
    tasks.forEach((id, n) -> {
      Map<String, ConfiguredInternalTopic> changelogs = stateful.contains(id)
          ? Map.of(id + "-changelog", new ConfiguredInternalTopic(id + "-changelog", n, Optional.empty(), Map.of()))
          : Map.of();
      subtopologies.put(id, new ConfiguredSubtopology(n, Set.of(id), Map.of(), Set.of(), changelogs));
    });
    return new TopologyMetadata(CoordinatorMetadataImage.EMPTY, subtopologies);
  }

  static JsonNode assign(JsonNode g) {
    var tasks = new TreeMap<String, Integer>();
    var stateful = new HashSet<String>();
    for (JsonNode s : g.get("subtopologies")) {
      tasks.put(s.get("id").asText(), s.get("tasks").asInt());
      if (s.get("stateful").asBoolean()) stateful.add(s.get("id").asText());
    }
    var members = new HashMap<String, MemberMetadataAndStateImpl>();
    for (JsonNode m : g.path("members")) {
      members.put(m.get("id").asText(), new MemberMetadataAndStateImpl(Optional.empty(), Optional.empty(), m.get("process").asText(), Map.of(),
          sets(m.path("active")), sets(m.path("standby")), sets(m.path("warmup")), offsets(m.path("offsets")), Map.of()));
    }
    ObjectNode answer = JSON.createObjectNode();
    GroupAssignment a;
    try {
      a = new StickyTaskAssignor().assign(new GroupSpecImpl(members, new AssignmentConfigsImpl(g.get("standby_replicas").asInt(), List.of())), new Topology(tasks, stateful));
    } catch (TaskAssignorException e) {
      return answer.put("error", e.getMessage());
    }
    ObjectNode byMember = answer.putObject("out");
    a.members().forEach((id, m) -> {
      ObjectNode roles = byMember.putObject(id);
      write(roles.putObject("active"), m.activeTasks());
      write(roles.putObject("standby"), m.standbyTasks());
    });
    return answer;
  }

  static Map<String, Set<Integer>> sets(JsonNode role) {
    var out = new HashMap<String, Set<Integer>>();
    role.fields().forEachRemaining(sub -> {
      var partitions = new HashSet<Integer>();
      sub.getValue().forEach(p -> partitions.add(p.asInt()));
      out.put(sub.getKey(), partitions);
    });
    return out;
  }

  static Map<String, Map<Integer, Long>> offsets(JsonNode reported) {
    var out = new HashMap<String, Map<Integer, Long>>();
    reported.fields().forEachRemaining(sub -> {
      var sums = new HashMap<Integer, Long>();
      sub.getValue().fields().forEachRemaining(p -> sums.put(Integer.parseInt(p.getKey()), p.getValue().asLong()));
      out.put(sub.getKey(), sums);
    });
    return out;
  }

  static void write(ObjectNode to, Map<String, Set<Integer>> tasks) {
    tasks.forEach((sub, partitions) -> {
      ArrayNode list = to.putArray(sub);
      partitions.stream().sorted().forEach(list::add);
    });
  }

  /** The fixture of Kafka's benchmark: every second subtopology has state. */
  static JsonNode point(JsonNode p) {
    int memberCount = p.get("memberCount").asInt(), perProcess = p.get("membersPerProcess").asInt();
    boolean incremental = p.get("assignmentType").asText().equals("INCREMENTAL");
    var tasks = new TreeMap<String, Integer>();
    var stateful = new HashSet<String>();
    for (int i = 0; i < p.get("subtopologyCount").asInt(); i++) {
      String id = "topic-" + i + "_subtopology";
      tasks.put(id, p.get("partitionCount").asInt());
      if (i % 2 == 0) stateful.add(id);
    }
    topology = describe(tasks, stateful);
    int before = incremental ? memberCount - 1 : memberCount;
    var members = new HashMap<String, MemberMetadataAndStateImpl>();
    for (int i = 0; i < before; i++) members.put("member-" + i, member("process-" + i / perProcess, Map.of(), Map.of(), Map.of()));
    var configs = new AssignmentConfigsImpl(p.get("standbyReplicas").asInt(), List.of());
    GroupAssignment first = incremental ? new StickyTaskAssignor().assign(new GroupSpecImpl(members, configs), topology) : null;
    var reports = p.get("reportedOffsets").asText().equals("NONE") ? new HashMap<String, Map<String, Map<Integer, Long>>>() : reports(members.keySet(), tasks, stateful);
    members.replaceAll((id, m) -> member(m.processId(),
        first == null ? Map.of() : first.members().get(id).activeTasks(), first == null ? Map.of() : first.members().get(id).standbyTasks(),
        reports.getOrDefault(id, Map.of())));
    if (incremental) members.put("newMember", member("process-newMember", Map.of(), Map.of(), Map.of()));
    group = new GroupSpecImpl(members, configs);
    return JSON.createObjectNode();
  }

  static MemberMetadataAndStateImpl member(String process, Map<String, Set<Integer>> active, Map<String, Set<Integer>> standby, Map<String, Map<Integer, Long>> offsets) {
    return new MemberMetadataAndStateImpl(Optional.empty(), Optional.empty(), process, Map.of(), active, standby, Map.of(), offsets, Map.of());
  }

  /** Two neighbours report each stateful task, the second one with the older copy. */
  static Map<String, Map<String, Map<Integer, Long>>> reports(Set<String> ids, SortedMap<String, Integer> tasks, Set<String> stateful) {
    var sorted = new ArrayList<>(new TreeSet<>(ids));
    var out = new HashMap<String, Map<String, Map<Integer, Long>>>();
    int n = 0;
    for (var sub : tasks.entrySet()) {
      if (!stateful.contains(sub.getKey())) continue;
      for (int partition = 0; partition < sub.getValue(); partition++, n++) {
        for (int k = 0; k < 2; k++) {
          out.computeIfAbsent(sorted.get((n + k) % sorted.size()), id -> new HashMap<>())
              .computeIfAbsent(sub.getKey(), id -> new HashMap<>())
              .put(partition, (k == 0 ? 2_000_000L : 1_000_000L) + n);
        }
      }
    }
    return out;
  }

  static JsonNode run(long millis) {
    long[] nanos = new long[1 << 16];
    int n = 0;
    long thread = Thread.currentThread().getId();
    long allocated = THREADS.getThreadAllocatedBytes(thread), begin = System.nanoTime();
    for (long now = begin; n < nanos.length && (n == 0 || now - begin < millis * 1_000_000); n++) {
      GroupAssignment a = new StickyTaskAssignor().assign(group, topology);
      long then = System.nanoTime();
      nanos[n] = then - now;
      now = then;
      consumed += a.members().size();
    }
    allocated = THREADS.getThreadAllocatedBytes(thread) - allocated;
    ObjectNode answer = JSON.createObjectNode();
    ArrayNode list = answer.putArray("nanos");
    for (int i = 0; i < n; i++) list.add(nanos[i]);
    return answer.put("bytes", allocated / n);
  }
}
