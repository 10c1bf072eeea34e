package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/client"
)

const aboutDescribe = `Describes streams groups: by default, how far they are in the partitions that their active tasks read.
  streamsgroup describe -broker localhost:9092 -group g
  streamsgroup describe -broker localhost:9092 -group g -members -verbose
  streamsgroup describe -broker localhost:9092 -all-groups -state
  streamsgroup describe -broker localhost:9092 -group g -topology
Fails if a group does not exist, and with -topology if there is no description; the others are shown.`

// describer shows groups.
type describer struct {
	*cluster
	members, state, topology, verbose bool
}

func describeGroups(ctx context.Context, args []string, out console) error {
	f := newGroupFlags("describe")
	f.choose()
	d := describer{}
	offsets := false
	f.fs.BoolVar(&offsets, "offsets", false, "show offsets and lag; this is the default")
	f.fs.BoolVar(&d.members, "members", false, "show members and their tasks")
	f.fs.BoolVar(&d.state, "state", false, "show states, coordinators and numbers of members")
	f.fs.BoolVar(&d.topology, "topology", false, "show the graph of the topology (Apache Kafka 4.4 or later, with a plug-in that stores it)")
	f.fs.BoolVar(&d.verbose, "verbose", false, "show more: epochs, target assignments, committed and end offsets")
	if err := f.parse(args, out.stderr, aboutDescribe); err != nil {
		return err
	}
	if err := f.needGroups(); err != nil {
		return err
	}
	if views := f.given("offsets", "members", "state", "topology"); len(views) > 1 {
		return usageError{fmt.Errorf("%s exclude each other", strings.Join(views, ", "))}
	}
	var err error
	if d.cluster, err = f.connect(out); err != nil {
		return err
	}
	defer d.cl.Close()
	groups, err := d.chosen(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, group := range groups {
		if err := d.show(ctx, group, len(groups) > 1); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (d *describer) show(ctx context.Context, group string, several bool) error {
	var opts []client.DescribeOption
	if d.topology {
		opts = append(opts, client.WithTopologyDescription())
	}
	g, err := d.describe(ctx, group, opts...)
	if err != nil {
		return err
	}
	sortMembers(g)
	switch {
	case d.topology:
		text, err := topologyText(g)
		if err != nil {
			return err
		}
		if several {
			d.printf("Group: %s\n", group)
		}
		d.printf("%s", text)
	case d.members:
		writeMembers(d.stdout, g, d.verbose)
	case d.state:
		if len(g.Members) == 0 {
			if g.GroupState() == client.GroupDead {
				d.notice("Streams group '%s' does not exist.", group)
			} else {
				d.notice("Streams group '%s' has no active members.", group)
			}
		}
		writeState(d.stdout, g, d.verbose)
	case len(g.Members) > 0:
		return d.showLag(ctx, g)
	}
	return nil
}

func (d *describer) showLag(ctx context.Context, g *client.GroupDescription) error {
	var lags []client.PartitionLag
	err := d.call(ctx, func(ctx context.Context) (err error) {
		lags, err = client.GroupLag(ctx, d.cl, g)
		return err
	})
	if err != nil {
		return err
	}
	writeLag(d.stdout, g.Group, lags, d.verbose)
	return nil
}

// missing stands for a value that there is not.
const missing = "-"

func number[T int | int32 | int64](n T) string { return strconv.FormatInt(int64(n), 10) }

func writeLag(w io.Writer, group string, lags []client.PartitionLag, verbose bool) {
	columns := []column{{"GROUP", nameWidth}, {"TOPIC", nameWidth}, {"PARTITION", partitionWidth}, {"OFFSET-LAG", 0}}
	if verbose {
		columns = slices.Concat(columns[:3], []column{{"CURRENT-OFFSET", nameWidth}, {"LEADER-EPOCH", nameWidth}, {"LOG-END-OFFSET", nameWidth}, {"OFFSET-LAG", 0}})
	}
	var rows [][]string
	for _, l := range lags {
		row := []string{group, l.Topic, number(l.Partition)}
		if verbose {
			at, epoch := missing, missing
			if l.Committed != nil {
				at = number(l.Committed.Offset)
				if l.Committed.LeaderEpoch >= 0 {
					epoch = number(l.Committed.LeaderEpoch)
				}
			}
			row = append(row, at, epoch, number(l.End))
		}
		rows = append(rows, append(row, number(l.Lag)))
	}
	writeTable(w, columns, rows)
}

func writeState(w io.Writer, g *client.GroupDescription, verbose bool) {
	columns := []column{{"GROUP", nameWidth}, {"COORDINATOR (ID)", wideWidth}, {"ASSIGNOR", nameWidth}, {"STATE", wideWidth}}
	assignor := ""
	if g.AssignorName != nil {
		assignor = *g.AssignorName
	}
	address := net.JoinHostPort(g.Coordinator.Host, number(g.Coordinator.Port))
	row := []string{g.Group, fmt.Sprintf("%s (%d)", address, g.Coordinator.NodeID), assignor, string(g.GroupState())}
	if verbose {
		columns = append(columns, column{"GROUP-EPOCH", nameWidth}, column{"TARGET-ASSIGNMENT-EPOCH", wideWidth})
		row = append(row, number(g.Epoch), number(g.AssignmentEpoch))
	}
	writeTable(w, append(columns, column{"#MEMBERS", 0}), [][]string{append(row, number(len(g.Members)))})
}

func writeMembers(w io.Writer, g *client.GroupDescription, verbose bool) {
	if len(g.Members) == 0 {
		return
	}
	columns := []column{{"GROUP", nameWidth}, {"MEMBER", nameWidth}, {"PROCESS", nameWidth}, {"CLIENT-ID", nameWidth}, {"ASSIGNMENTS", 0}}
	if verbose {
		columns = []column{
			{"GROUP", nameWidth},
			{"TARGET-ASSIGNMENT-EPOCH", wideWidth},
			{"TOPOLOGY-EPOCH", nameWidth},
			{"MEMBER", nameWidth},
			{"MEMBER-PROTOCOL", nameWidth},
			{"MEMBER-EPOCH", nameWidth},
			{"PROCESS", nameWidth},
			{"CLIENT-ID", nameWidth},
			{"ASSIGNMENTS", 0},
		}
	}
	var rows [][]string
	for i := range g.Members {
		m := &g.Members[i]
		if !verbose {
			rows = append(rows, []string{g.Group, m.MemberID, m.ProcessID, m.ClientID, assignments(m, false)})
			continue
		}
		protocol := "streams"
		if m.IsClassic {
			protocol = "classic"
		}
		rows = append(rows, []string{
			g.Group, number(g.AssignmentEpoch), number(g.TopologyEpoch()), m.MemberID,
			protocol, number(m.MemberEpoch), m.ProcessID, m.ClientID, assignments(m, true),
		})
	}
	writeTable(w, columns, rows)
}

// sortMembers orders members by what people know them by.
func sortMembers(g *client.GroupDescription) {
	slices.SortFunc(g.Members, func(a, b kmsg.StreamsGroupDescribeResponseGroupMember) int {
		return cmp.Or(strings.Compare(a.ClientID, b.ClientID), strings.Compare(a.ProcessID, b.ProcessID), strings.Compare(a.MemberID, b.MemberID))
	})
}

// assignments are the tasks of a member, with those it is to have if targets is set.
func assignments(m *kmsg.StreamsGroupDescribeResponseGroupMember, targets bool) string {
	var parts []string
	add := func(role string, tasks []kmsg.TaskIDs) {
		if len(tasks) == 0 {
			return
		}
		parts = append(parts, role+":")
		for _, t := range tasks {
			parts = append(parts, fmt.Sprintf("%s:%s;", t.SubtopologyID, strings.ReplaceAll(fmt.Sprint(t.Partitions), " ", ",")))
		}
	}
	add("ACTIVE", m.Assignment.ActiveTasks)
	add("STANDBY", m.Assignment.StandbyTasks)
	add("WARMUP", m.Assignment.WarmupTasks)
	if targets {
		add("TARGET-ACTIVE", m.TargetAssignment.ActiveTasks)
		add("TARGET-STANDBY", m.TargetAssignment.StandbyTasks)
		add("TARGET-WARMUP", m.TargetAssignment.WarmupTasks)
	}
	return strings.Join(parts, " ")
}
