package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/streamsgroup/streamsgroup/client"
)

const aboutReset = `Sets the committed offsets of streams groups that have no members.
  streamsgroup reset-offsets -broker localhost:9092 -group g -all-input-topics -to-earliest -dry-run
  streamsgroup reset-offsets -broker localhost:9092 -group g -input-topic orders:0,2 -to-offset 7 -execute
  streamsgroup reset-offsets -broker localhost:9092 -group g -all-input-topics -by-duration PT2H -execute -delete-all-internal-topics
  streamsgroup reset-offsets -broker localhost:9092 -group g -all-input-topics -to-current -dry-run -export >plan.csv
  streamsgroup reset-offsets -broker localhost:9092 -group g -from-file plan.csv -execute
Say what to do (-dry-run or -execute), where to (one of -to-offset, -shift-by, -to-datetime, -by-duration, -to-earliest, -to-latest,
-to-current, -from-file), and of what (-input-topic or -all-input-topics, but not with -from-file). Offsets that a partition does not reach
are moved to its first or its last, with a warning. Internal topics are kept, unless told otherwise.
A group that has members is left alone, with a message; the exit code is 0.`

// resetter sets offsets.
type resetter struct {
	*cluster
	scope           scope
	target          client.OffsetTarget
	execute, export bool
	file            string
	deleteAll       bool
	deleteNamed     list
}

var targetFlags = []string{"to-offset", "shift-by", "to-datetime", "by-duration", "to-earliest", "to-latest", "to-current", "from-file"}

func resetOffsets(ctx context.Context, args []string, out console) error {
	r, err := parseReset(args, out)
	if err != nil {
		return err
	}
	defer r.cl.Close()
	var plans filePlan
	if r.file != "" {
		if plans, err = readPlans(r.file, r.groups); err != nil {
			return err
		}
	}
	return r.reset(ctx, plans)
}

func parseReset(args []string, out console) (*resetter, error) {
	f := newGroupFlags("reset-offsets")
	f.choose()
	r := &resetter{}
	r.scope.add(f)
	var offset, shift int64
	var datetime, duration string
	var earliest, latest, current, dry bool
	f.fs.Int64Var(&offset, "to-offset", 0, "set to this `offset`")
	f.fs.Int64Var(&shift, "shift-by", 0, "set to this `number` of offsets after the committed one, or before if it is negative")
	f.fs.StringVar(&datetime, "to-datetime", "", "set to the first record at or after this `time`: YYYY-MM-DDThh:mm:ss.sss, UTC unless an offset follows")
	f.fs.StringVar(&duration, "by-duration", "", "set to the first record of the last `duration`: PnDTnHnMnS")
	f.fs.BoolVar(&earliest, "to-earliest", false, "set to the first record")
	f.fs.BoolVar(&latest, "to-latest", false, "set to the end")
	f.fs.BoolVar(&current, "to-current", false, "set to the committed offset, or the end where there is none")
	f.fs.StringVar(&r.file, "from-file", "", "set to what this CSV `file` says: topic,partition,offset or group,topic,partition,offset")
	f.fs.BoolVar(&dry, "dry-run", false, "show what would be set")
	f.fs.BoolVar(&r.execute, "execute", false, "set the offsets")
	f.fs.BoolVar(&r.export, "export", false, "print CSV, for -from-file")
	f.fs.BoolVar(&r.deleteAll, "delete-all-internal-topics", false, "with -execute: delete the repartition and changelog topics of the groups")
	f.fs.Var(&r.deleteNamed, "delete-internal-topic", "with -execute: delete this internal `topic`; may be repeated")
	if err := f.parse(args, out.stderr, aboutReset); err != nil {
		return nil, err
	}
	if err := f.needGroups(); err != nil {
		return nil, err
	}
	targets := f.given(targetFlags...)
	switch {
	case dry == r.execute:
		return nil, usageError{errors.New("give either -dry-run, to see what would happen, or -execute")}
	case len(targets) != 1:
		return nil, usageError{fmt.Errorf("give one target out of -%s", strings.Join(targetFlags, ", -"))}
	case r.deleteAll && len(r.deleteNamed) > 0:
		return nil, usageError{errors.New("-delete-internal-topic and -delete-all-internal-topics exclude each other")}
	case dry && (r.deleteAll || len(r.deleteNamed) > 0):
		return nil, usageError{errors.New("-delete-internal-topic and -delete-all-internal-topics go with -execute")}
	case r.file != "" && (r.scope.all || len(r.scope.topics) > 0):
		return nil, usageError{errors.New("-from-file names the partitions: give no -input-topic and no -all-input-topics")}
	}
	if r.file == "" {
		if err := r.scope.check(); err != nil {
			return nil, err
		}
	}
	var err error
	switch targets[0] {
	case "-to-offset":
		r.target = client.ToOffset(offset)
	case "-shift-by":
		r.target = client.ShiftBy(shift)
	case "-to-earliest":
		r.target = client.ToEarliest()
	case "-to-latest":
		r.target = client.ToLatest()
	case "-to-current":
		r.target = client.ToCurrent()
	case "-to-datetime":
		var at time.Time
		at, err = parseTime(datetime)
		r.target = client.ToTime(at)
	case "-by-duration":
		var d time.Duration
		d, err = parseDuration(duration)
		r.target = client.ToTime(time.Now().Add(-d))
	}
	if err != nil {
		return nil, usageError{fmt.Errorf("%s: %w", targets[0], err)}
	}
	r.cluster, err = f.connect(out)
	return r, err
}

// reset plans the offsets of each group, sets them, and prints the plan.
func (r *resetter) reset(ctx context.Context, plans filePlan) error {
	groups, err := r.chosen(ctx)
	if err != nil {
		return err
	}
	listed, err := r.listed(ctx)
	if err != nil {
		return err
	}
	var rows []plannedRow
	failed := func(err error) error {
		if r.execute && len(rows) > 0 {
			r.show(rows) // this much is done
		}
		return err
	}
	for _, group := range groups {
		i := slices.IndexFunc(listed, func(g client.ListedGroup) bool { return g.Group == group })
		if i >= 0 && listed[i].State != client.GroupEmpty && listed[i].State != client.GroupDead {
			r.notice("Assignments can only be reset if the group '%s' is inactive, but the current state is %s.", group, listed[i].State)
			continue
		}
		planned, err := r.plan(ctx, group, plans)
		if err != nil {
			return failed(err)
		}
		if r.execute {
			if err := r.apply(ctx, group, planned); err != nil {
				return failed(err)
			}
		}
		rows = append(rows, planned...)
	}
	r.show(rows)
	return nil
}

// apply sets offsets and deletes internal topics, if that was asked for.
func (r *resetter) apply(ctx context.Context, group string, planned []plannedRow) error {
	offsets := map[string]map[int32]int64{}
	for _, p := range planned {
		if offsets[p.topic] == nil {
			offsets[p.topic] = map[int32]int64{}
		}
		offsets[p.topic][p.partition] = p.offset
	}
	var results client.PartitionErrors
	err := r.call(ctx, func(ctx context.Context) (err error) {
		results, err = client.AlterGroupOffsets(ctx, r.cl, group, offsets)
		return err
	})
	if err == nil {
		err = results.Err()
	}
	if err != nil || len(planned) == 0 || !r.deleteAll && len(r.deleteNamed) == 0 {
		return err
	}
	topics, err := r.internalTopics(ctx, group)
	if err != nil {
		return err
	}
	if !r.deleteAll {
		chosen := topics[:0:0]
		for _, t := range r.deleteNamed {
			if slices.Contains(topics, t) {
				chosen = append(chosen, t)
			} else {
				r.notice("'%s' is no internal topic of the group '%s', and is kept.", t, group)
			}
		}
		topics = chosen
	}
	if len(topics) == 0 {
		return nil
	}
	if err := r.deleteTopics(ctx, topics); err != nil {
		r.notice("Deleting internal topics for group '%s' failed: %s", group, code(err))
	}
	return nil
}

// plannedRow is a line of the result.
type plannedRow struct {
	group, topic string
	partition    int32
	offset       int64
}

func (r *resetter) show(rows []plannedRow) {
	if r.export {
		for _, p := range rows {
			if len(r.groups) != 1 {
				r.printf("%s,", p.group)
			}
			r.printf("%s,%d,%d\n", p.topic, p.partition, p.offset)
		}
		return
	}
	const format = "%-30s %-30s %-10s %s\n"
	r.printf(format, "GROUP", "TOPIC", "PARTITION", "NEW-OFFSET")
	for _, p := range rows {
		r.printf(format, p.group, p.topic, number(p.partition), number(p.offset))
	}
}

// plan says what is to be set for a group.
func (r *resetter) plan(ctx context.Context, group string, plans filePlan) ([]plannedRow, error) {
	partitions := map[string][]int32{}
	wanted := plans[group]
	var err error
	switch {
	case r.file != "" && wanted == nil:
		r.notice("No reset plan for group %s found.", group)
		return nil, nil
	case r.file != "":
		for topic, ps := range wanted {
			partitions[topic] = slices.Sorted(maps.Keys(ps))
		}
	default:
		var unknown []string
		if partitions, unknown, err = r.inScope(ctx, group, r.scope); err != nil {
			return nil, err
		}
		if len(unknown) > 0 {
			return nil, fmt.Errorf("topic %s: %w: look for a slip in its name", strings.Join(unknown, ", "), kerr.UnknownTopicOrPartition)
		}
	}
	if len(partitions) == 0 {
		return nil, nil
	}
	committed, err := r.committed(ctx, group)
	if err != nil {
		return nil, err
	}
	ranges, err := r.ranges(ctx, partitions, committed)
	if err != nil {
		return nil, err
	}
	if r.file == "" && !allCommitted(partitions, committed) {
		r.notice("One or more topics are not part of the group '%s'.", group)
		return nil, nil
	}
	var rows []plannedRow
	for _, topic := range slices.Sorted(maps.Keys(partitions)) {
		for _, p := range slices.Sorted(slices.Values(partitions[topic])) {
			target := r.target
			if r.file != "" {
				target = client.ToOffset(wanted[topic][p])
			}
			known := ranges[topic][p]
			planned, err := target.Plan(known)
			if err != nil {
				return nil, fmt.Errorf("group %q, partition %d of %s: %w", group, p, topic, err)
			}
			if w := planned.Warning(); w != "" {
				r.warn("Partition %d of topic %s: %s.", p, topic, w)
			}
			if _, timed := target.Time(); timed && known.AtTime < 0 {
				r.warn("Partition %d of topic %s has no later record: it is set to the end, %d.", p, topic, known.End)
			}
			rows = append(rows, plannedRow{group, topic, p, planned.Offset})
		}
	}
	return rows, nil
}

func allCommitted(partitions map[string][]int32, committed client.GroupOffsets) bool {
	for topic, ps := range partitions {
		for _, p := range ps {
			if _, ok := committed.Of(topic, p); !ok {
				return false
			}
		}
	}
	return true
}

// parseTime reads a time by ISO 8601; without an offset, it is UTC.
func parseTime(s string) (time.Time, error) {
	for _, layout := range []string{"2006-01-02T15:04:05Z07:00", "2006-01-02T15:04:05Z0700", "2006-01-02T15:04:05"} {
		if t, err := time.Parse(layout, s); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is no time: want YYYY-MM-DDThh:mm:ss.sss, with Z, +hh:mm or nothing behind it, for UTC", s)
}

var isoDuration = regexp.MustCompile(`^P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?$`)

// parseDuration reads a duration by ISO 8601, without years and months, or Go's form.
func parseDuration(s string) (time.Duration, error) {
	wrong := fmt.Errorf("%q is no duration: want PnDTnHnMnS, for example P1DT12H or PT30M", s)
	parts := isoDuration.FindStringSubmatch(strings.ToUpper(s))
	if parts == nil {
		d, err := time.ParseDuration(s)
		if err != nil || d < 0 {
			return 0, wrong
		}
		return d, nil
	}
	if strings.Join(parts[1:], "") == "" {
		return 0, wrong
	}
	d := 0.0
	for i, unit := range []time.Duration{24 * time.Hour, time.Hour, time.Minute, time.Second} {
		if parts[i+1] != "" {
			n, err := strconv.ParseFloat(parts[i+1], 64)
			if err != nil {
				return 0, wrong
			}
			d += n * float64(unit)
		}
	}
	if d > float64(math.MaxInt64/2) {
		return 0, fmt.Errorf("%q is too long", s)
	}
	return time.Duration(d), nil
}

// filePlan are offsets out of a file, by group, topic and partition. The group "" is
// for rows without one.
type filePlan map[string]map[string]map[int32]int64

// readPlans reads a CSV file. Rows without a group are for the only group that is named
// on the command line.
func readPlans(file string, groups []string) (filePlan, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, usageError{fmt.Errorf("-from-file: %w", err)}
	}
	out := filePlan{}
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		fields := strings.Split(line, ",")
		for i := range fields {
			fields[i] = strings.Trim(strings.TrimSpace(fields[i]), `"`)
		}
		if len(fields) == 3 && len(groups) == 1 {
			fields = append([]string{groups[0]}, fields...)
		}
		if len(fields) != 4 {
			return nil, usageError{fmt.Errorf("-from-file %s, line %d: want group,topic,partition,offset, or topic,partition,offset with a single -group: %q", file, n, line)}
		}
		partition, err := strconv.ParseInt(fields[2], 10, 32)
		offset, err2 := strconv.ParseInt(fields[3], 10, 64)
		if err := errors.Join(err, err2); err != nil {
			return nil, usageError{fmt.Errorf("-from-file %s, line %d: %w", file, n, err)}
		}
		out.set(fields[0], fields[1], int32(partition), offset)
	}
	return out, nil
}

func (f filePlan) set(group, topic string, partition int32, offset int64) {
	if f[group] == nil {
		f[group] = map[string]map[int32]int64{}
	}
	if f[group][topic] == nil {
		f[group][topic] = map[int32]int64{}
	}
	f[group][topic][partition] = offset
}
