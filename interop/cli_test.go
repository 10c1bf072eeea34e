package interop_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamsgroup/streamsgroup/client"
	"github.com/streamsgroup/streamsgroup/conformance"
	"github.com/streamsgroup/streamsgroup/interop"
	"github.com/streamsgroup/streamsgroup/membership"
	"github.com/streamsgroup/streamsgroup/topology"
)

// cliBed is a real broker with two groups of two members each, which are in the same
// state: what changes a group is asked of Kafka's tool for one, and of ours for the
// other.
type cliBed struct {
	*testing.T
	addr    string
	client  *kgo.Client
	program string
	tools   *tools
	news    *news
	leave   []func()
}

const theirGroup, ourGroup = "shop", "mall"

func newCLIBed(t *testing.T) *cliBed {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: a real Kafka takes seconds to start")
	}
	skipUnlessAsked(t)
	b := &cliBed{T: t, program: filepath.Join(t.TempDir(), "streamsgroup"), news: newNews()}
	b.addr = interop.StartKafka(t, kafkaRelease, conformance.DescriptionPlugin()...)
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", b.program, "github.com/streamsgroup/streamsgroup/cmd/streamsgroup").CombinedOutput()
	require.NoError(t, err, "%s", out)
	b.client, err = kgo.NewClient(kgo.SeedBrokers(b.addr), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	require.NoError(t, err)
	t.Cleanup(b.client.Close)
	admin := kadm.NewClient(b.client)
	for topic, partitions := range map[string]int32{"orders": 4, "totals": 2} {
		_, err := admin.CreateTopics(t.Context(), partitions, 1, nil, topic)
		require.NoError(t, err)
	}
	b.tools = startTools(t)
	return b
}

// join starts two members of a group that commit what they read.
func (b *cliBed) join(group string) {
	b.Helper()
	require.NoError(b, client.AlterGroupConfigs(b.Context(), b.client, group, map[string]string{
		"streams.heartbeat.interval.ms": "200", "streams.num.standby.replicas": "1",
	}))
	builder := new(topology.Builder)
	builder.AddSource("read", "orders").AddProcessor("key", "read").
		AddRepartition("by-customer").AddSink("again", "by-customer", "key").
		AddSource("keyed", "by-customer").AddProcessor("sum", "keyed").
		AddStateStore(topology.Store{Name: "sums"}, "sum").AddSink("out", "totals", "sum")
	topo, err := builder.Build(group)
	require.NoError(b, err)
	for i := range 2 {
		name := fmt.Sprintf("%s-%d", group, i)
		c, err := client.NewConsumer(group, topo, client.ProcessID("process-"+name), client.OnEvent(func(membership.Event) { b.news.tell() }),
			client.KgoOpts(kgo.SeedBrokers(b.addr), kgo.ClientID(name)))
		require.NoError(b, err)
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- consume(ctx, c) }()
		b.leave = append(b.leave, func() {
			cancel()
			require.NoError(b, <-ended)
		})
	}
	until(b.T, b.news, "the assignment of "+group, func() bool {
		d := client.DescribeGroupsWith(b.Context(), b.client, []string{group})[0]
		return d.Err == nil && d.GroupState() == client.GroupStable && len(d.Members) == 2
	})
}

// consume commits what it reads until ctx ends, and leaves.
func consume(ctx context.Context, c *client.Consumer) error {
	for ctx.Err() == nil {
		fetches, err := c.Poll(ctx)
		if err != nil {
			break
		}
		for _, f := range fetches.Tasks() {
			c.MarkProcessed(f.Records...)
		}
		if err := c.Commit(ctx); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return c.Close(context.WithoutCancel(ctx))
}

// ours runs one of our commands.
func (b *cliBed) ours(line string) answer {
	b.Helper()
	words := strings.Fields(line)
	for i := range words {
		words[i] = strings.ReplaceAll(words[i], "~", " ")
	}
	cmd := exec.CommandContext(b.Context(), b.program, slices.Concat(words[:1], []string{"-broker", b.addr}, words[1:])...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		require.NoError(b, err)
	}
	return answer{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

var flagsOfCommand = regexp.MustCompile(`(^| )-([a-z])`)

// theirLine is one of our command lines as Kafka's tool has it.
func theirLine(line string) string {
	return "kafka-streams-groups --" + strings.ReplaceAll(flagsOfCommand.ReplaceAllString(line, "$1--$2"), "--state=", "--state ")
}

// What is said by other words, or somewhere else: warnings, which Kafka's tool writes
// to its log or its output; Java's exceptions; and that a request for partitions of
// which some do not exist "succeeded".
var cliNormalizations = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`(?m)^Warn: .*$`), ""},
	{regexp.MustCompile(`(?m)^(streamsgroup: |Error: Executing streams group command failed due to ).*$`), "(failed)"},
	{regexp.MustCompile(`(?m)(could not be deleted due to:) .*$`), "$1 (reason)"},
	{regexp.MustCompile(`(?m)^Error: (The group id does not exist\.|GROUP_ID_NOT_FOUND: .*)$`), "(no such group)"},
	{regexp.MustCompile(`Error: (\w+\.)+(\w+)Exception: .*`), "Error: $2"},
	{regexp.MustCompile(`Error: ([A-Z]+(_[A-Z]+)+): .*`), "Error: $1"},
}

var (
	withoutPartition = regexp.MustCompile(` - +Error: `)
	blanks           = regexp.MustCompile(` +`)
)

var oddHeading = regexp.MustCompile(`(?m)^(Request succeeded for deleting offsets.*|Error: Encountered some partition-level error.*)$`)

var errorNames = regexp.MustCompile(`Error: [A-Z]+(_[A-Z]+)+`)

// said is an answer as it can be compared: without what is behind lines, and, but for
// topologies, with the lines in order.
func (a answer) said(stderr bool) string {
	text := a.stdout
	if stderr {
		text += "\n" + a.stderr
	}
	for _, n := range cliNormalizations {
		text = n.pattern.ReplaceAllString(text, n.with)
	}
	// A code by its name in Java.
	text = errorNames.ReplaceAllStringFunc(text, func(s string) string {
		words := strings.Split(strings.TrimPrefix(s, "Error: "), "_")
		for i, word := range words {
			words[i] = word[:1] + strings.ToLower(word[1:])
		}
		return "Error: " + strings.Join(words, "")
	})
	if withoutPartition.MatchString(text) {
		text = oddHeading.ReplaceAllString(text, "(heading)")
	}
	text = strings.ReplaceAll(strings.ReplaceAll(text, theirGroup, "GROUP"), ourGroup, "GROUP")
	if strings.Contains(text, "MEMBER-PROTOCOL") {
		text = blanks.ReplaceAllString(text, " ") // Kafka's tool leaves one out
	}
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimRight(line, " \n"); line != "" {
			lines = append(lines, line)
		}
	}
	if !strings.Contains(text, "Topologies:") {
		slices.Sort(lines)
	}
	return fmt.Sprintf("exit %d\n", a.exit) + strings.Join(lines, "\n")
}

// same compares a command about one group, which changes nothing.
func (b *cliBed) same(line string) {
	b.Helper()
	b.compare(line, line)
}

// alike compares a command that changes the group: Kafka's tool does it to one, and ours
// to the other.
func (b *cliBed) alike(line string) {
	b.Helper()
	b.compare(strings.ReplaceAll(line, "GROUP", theirGroup), strings.ReplaceAll(line, "GROUP", ourGroup))
}

func (b *cliBed) compare(theirs, ours string) {
	b.Helper()
	if b.Failed() && os.Getenv("STREAMSGROUP_JAVA_SHOW") == "" {
		return // the groups may be in different states now
	}
	k, o := b.tools.run(b.addr, theirLine(theirs)), b.ours(ours)
	assert.Equal(b, k.said(false), o.said(true), "%s\nKafka:\n%s%s\nours:\n%s%s", ours, k.stdout, k.stderr, o.stdout, o.stderr)
	if os.Getenv("STREAMSGROUP_JAVA_SHOW") != "" {
		b.Logf("$ %s\nKafka (%d):\n%sours (%d):\n%s%s", ours, k.exit, k.stdout, o.exit, o.stdout, o.stderr)
	}
}

// Our commands print what Kafka's own tool prints, of the same groups on a real broker.
//
// rules CLI-1, CLI-2, CLI-3, CLI-4, CLI-5, CLI-6, CLI-7, CLI-8, CLI-9, CLI-10, CLI-11, CLI-12, CLI-13, CLI-14
func TestCommandsLikeKafkas(t *testing.T) {
	t.Parallel()
	b := newCLIBed(t)
	now := time.Now().UTC()
	for i := range 40 {
		r := &kgo.Record{Topic: "orders", Partition: int32(i % 4), Value: []byte("v"), Timestamp: now.Add(-time.Duration(40-i) * time.Hour)}
		require.NoError(b, b.client.ProduceSync(b.Context(), r).FirstErr())
	}
	b.same("list")
	b.same("describe -group nobody")
	b.join(theirGroup)
	b.join(ourGroup)
	for _, group := range []string{theirGroup, ourGroup} {
		until(t, b.news, "the commits of "+group, func() bool {
			offsets, err := client.FetchGroupOffsets(b.Context(), b.client, group)
			require.NoError(b, err)
			n := 0
			for _, o := range offsets["orders"] {
				n += int(o.Offset)
			}
			return n == 40
		})
	}
	describe := func() {
		b.same("list")
		for _, states := range []string{"-state", "-state=Stable", "-state=empty,~STABLE", "-state=reconciling"} {
			b.same("list " + states)
		}
		for _, view := range []string{"", "-offsets", "-members", "-state", "-topology"} {
			b.same("describe -group shop " + view)
			b.same("describe -group shop -verbose " + view)
		}
		b.same("describe -all-groups -members")
		b.same("describe -all-groups -state")
		b.same("describe -group shop -group nobody -state")
		b.same("describe -group nobody -members")
	}
	describe()
	b.alike("delete -group GROUP")
	b.alike("delete -group nobody")
	b.alike("delete-offsets -group GROUP -input-topic orders")
	b.alike("delete-offsets -group GROUP -all-input-topics")
	b.alike("delete-offsets -group GROUP -input-topic nowhere")
	b.alike("reset-offsets -group GROUP -all-input-topics -to-earliest -execute")
	explained := b.ours("explain -group shop")
	require.Zero(b, explained.exit, explained.stderr)
	assert.Len(b, regexp.MustCompile(`(?m)^task \d_\d runs at `).FindAllString(explained.stdout, -1), 8, explained.stdout)

	for _, leave := range b.leave {
		leave()
	}
	describe()
	dry := "reset-offsets -dry-run -group shop "
	for _, target := range []string{
		"-to-earliest", "-to-latest", "-to-current", "-to-offset 3", "-to-offset 99", "-shift-by -2", "-shift-by 7", "-shift-by -99",
		"-to-datetime " + now.Add(-20*time.Hour).Format("2006-01-02T15:04:05.000"), "-to-datetime 2031-01-01T00:00:00.000", "-by-duration PT20H30M", "-by-duration PT1M",
	} {
		b.same(dry + "-input-topic orders " + target)
	}
	for _, scope := range []string{
		"-all-input-topics", "-input-topic orders:1,3", "-input-topic orders:7", "-input-topic nowhere", "-input-topic totals",
		"-input-topic orders -input-topic totals", "-all-input-topics -export", "-input-topic orders:2 -export",
	} {
		b.same(dry + scope + " -to-offset 4")
	}
	b.same("reset-offsets -dry-run -all-groups -all-input-topics -to-offset 2 -export")
	b.same("reset-offsets -dry-run -group nobody -input-topic orders -to-earliest")
	b.same("reset-offsets -dry-run -group nobody -all-input-topics -to-earliest")
	plan := func(text string) string {
		file := filepath.Join(b.TempDir(), "plan.csv")
		require.NoError(b, os.WriteFile(file, []byte(text), 0o600))
		return " -from-file " + file
	}
	b.same(dry + plan("orders,0,2\norders,1,99\n"))
	b.same(dry + plan("shop,orders,0,2\nmall,orders,3,1\n"))
	b.same(dry + plan("mall,orders,0,2\n"))
	b.same("reset-offsets -dry-run -group shop -group nobody" + plan("shop,orders,0,2\n"))
	b.same("reset-offsets -dry-run -all-groups" + plan("shop,orders,0,2\n"))
	offsets := func() {
		b.alike("reset-offsets -dry-run -group GROUP -all-input-topics -to-current")
	}
	b.alike("reset-offsets -group GROUP -execute" + plan("orders,0,2\norders,1,99\n"))
	offsets()
	b.alike("reset-offsets -group GROUP -input-topic orders:2 -to-earliest -execute")
	offsets()
	b.alike("delete-offsets -group GROUP -input-topic orders:1")
	b.alike("delete-offsets -group GROUP -input-topic orders:9")
	b.alike("delete-offsets -group GROUP -input-topic orders:3 -input-topic nowhere")
	offsets()
	b.same(dry + "-input-topic orders -to-earliest")
	b.alike("delete-offsets -group GROUP -all-input-topics")
	offsets()
	b.alike("delete-offsets -group nobody -input-topic orders")
	b.alike("reset-offsets -group nobody -all-input-topics -to-earliest -execute")
	b.alike("delete -group GROUP -group nobody -delete-all-internal-topics")
	b.alike("delete -group GROUP")
	b.same("list -state")
	topics, err := kadm.NewClient(b.client).ListTopics(b.Context())
	require.NoError(b, err)
	assert.Equal(b, []string{"orders", "totals"}, topics.Names())
}
