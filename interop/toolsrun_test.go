package interop_test

import (
	"bufio"
	"encoding/base64"
	"io"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// tools runs Kafka's command-line tools and its Admin client, all in one
// process: to start one for each would take longer than all the rest.
type tools struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

func startTools(t *testing.T) *tools {
	t.Helper()
	cmd := java(t, kafkaRelease, "Tools", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error")
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	scanner := bufio.NewScanner(out)
	scanner.Buffer(nil, 4<<20)
	return &tools{t, cmd, in, scanner}
}

// The tools by the names of Kafka's scripts.
var toolClasses = map[string]string{
	"kafka-streams-groups":  "org.apache.kafka.tools.streams.StreamsGroupCommand",
	"kafka-groups":          "org.apache.kafka.tools.GroupsCommand",
	"kafka-configs":         "org.apache.kafka.tools.ConfigCommand",
	"kafka-topics":          "org.apache.kafka.tools.TopicCommand",
	"kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
	"kafka-get-offsets":     "org.apache.kafka.tools.GetOffsetShell",
	"kafka-transactions":    "org.apache.kafka.tools.TransactionsCommand",
}

// answer is what a tool has said.
type answer struct {
	exit           int
	stdout, stderr string
}

// run runs a command as it would be typed, against a broker. A ~ stands for a
// space within an argument. The command "admin" calls the Admin client.
func (k *tools) run(addr, command string) answer {
	k.t.Helper()
	words := strings.Fields(command)
	for i := range words {
		words[i] = strings.ReplaceAll(words[i], "~", " ")
	}
	if class := toolClasses[words[0]]; class != "" {
		words = slices.Concat([]string{class, "--bootstrap-server", addr}, words[1:])
	} else {
		words = slices.Concat(words[:1], []string{addr}, words[1:])
	}
	_, err := io.WriteString(k.in, strings.Join(words, "\t")+"\n")
	require.NoError(k.t, err)
	require.True(k.t, k.out.Scan(), "the tools have ended: %v", k.out.Err())
	fields := strings.Fields(k.out.Text())
	require.Len(k.t, fields, 3, k.out.Text())
	exit, err := strconv.Atoi(fields[0])
	require.NoError(k.t, err)
	decode := func(s string) string {
		text, err := base64.StdEncoding.DecodeString(s[1:])
		require.NoError(k.t, err)
		return string(text)
	}
	return answer{exit, decode(fields[1]), decode(fields[2])}
}

// onlyAsks are commands that change nothing. What they tell may come a little
// later on one broker than on the other: Kafka's still lists a topic for a while
// that has been deleted, and members report their offsets now and then.
var onlyAsks = regexp.MustCompile(`--list|--describe|--dry-run|^kafka-get-offsets|^kafka-transactions (list|describe)|^admin (list|describe|offsets)`)

var normalizations = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "ADDRESS"},
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "PROCESS"},
	{regexp.MustCompile(`\(id: \d+ rack: [^)]*\)`), "(NODE)"},
	{regexp.MustCompile(`ADDRESS \(\d+\)`), "ADDRESS (NODE)"},
	{regexp.MustCompile(`(Leader|Replicas|Isr|Elr|LastKnownElr): \d+`), "$1: NODE"},
	{regexp.MustCompile(`[ \t]+`), " "}, // columns are as wide as what is in them
	{regexp.MustCompile(`(?m)^\d\d:\d\d:\d\d\.\d+ `), ""},
	// What went wrong is said by an error code, and by each broker in its own words.
	{regexp.MustCompile(`(org\.apache\.kafka\.common\.errors\.\w+Exception): .*`), "$1: (text)"},
	{regexp.MustCompile(`(Error while executing topic command :) .*`), "$1 (text)"},
	// How often the members had to be looked at anew depends on the time it took.
	{regexp.MustCompile(` Empty \d+ \d+`), " Empty (epochs)"},
	{regexp.MustCompile(`epoch \d+ assignment \d+ (topology .* state Empty)`), "epoch EPOCH assignment EPOCH $1"},
	{regexp.MustCompile(`(?m)^__(consumer_offsets|transaction_state)$`), ""}, // kfake keeps offsets and transactions without topics
	// Transactions: coordinator and producer id; when it began and for how long it
	// goes on. kfake does not remember how one has ended.
	{regexp.MustCompile(`(?m)^(\S+) \d+ \d+ (Ongoing|Empty|CompleteAbort|CompleteCommit)\b`), "$1 NODE PRODUCER $2"},
	{regexp.MustCompile(`PRODUCER (Empty|CompleteAbort|CompleteCommit)`), "PRODUCER (ended)"},
	{regexp.MustCompile(`(?m)^\d+ (\S+) \d+ (\d+) Ongoing (\d+) \d{13} \d+ `), "NODE $1 PRODUCER $2 Ongoing $3 BEGAN LASTS "},
	// A cluster-wide setting of a new Kafka cluster.
	{regexp.MustCompile(`min\.insync\.replicas=1,?`), ""},
	{regexp.MustCompile(`(?m)^Topic: \S+ TopicId: \S+ PartitionCount: \d+ ReplicationFactor: 1 Configs:\s*$`), ""}, // of topics without settings
	// Of group configs kfake knows only those of other group types that are set.
	{regexp.MustCompile(`(?m)^ ?(consumer|share|errors)\.[a-z.]+=.*$`), ""},
	// kfake has another default, and does not name the topic's own value.
	{regexp.MustCompile(`(segment\.bytes|cleanup\.policy)=(\S+) sensitive=false synonyms=.*`), "$1=$2"},
}

// Ids of members and topics. Names in these tests are of small letters.
var (
	uuid    = regexp.MustCompile(`[A-Za-z0-9_-]{22,}`)
	uuidish = regexp.MustCompile(`[A-Z0-9]`)
)

func hideID(s string) string {
	if len(s) == 22 && !strings.HasSuffix(s, "Exception") && uuidish.MatchString(s) {
		return "ID"
	}
	return s
}

var settingsList = regexp.MustCompile(`Configs: (\S*)`)

// normal is an answer without what differs from one broker to the next: ids,
// addresses, the width of columns, the order of lines.
func (a answer) normal() string {
	text := a.stdout
	if a.stderr != "" {
		text += "\nerror output:\n" + a.stderr
	}
	text = uuid.ReplaceAllStringFunc(text, hideID)
	for _, n := range normalizations {
		text = n.pattern.ReplaceAllString(text, n.with)
	}
	text = settingsList.ReplaceAllStringFunc(text, func(s string) string {
		settings := strings.Split(strings.Trim(strings.TrimPrefix(s, "Configs: "), ","), ",")
		slices.Sort(settings)
		return "Configs: " + strings.Join(settings, ",")
	})
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	slices.Sort(lines)
	return "exit " + strconv.Itoa(a.exit) + "\n" + strings.Join(lines, "\n")
}
