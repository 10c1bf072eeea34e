package main

import (
	"context"

	"github.com/streamsgroup/streamsgroup/client"
)

const aboutList = `Lists the streams groups of a cluster, one per line; with -state, their states as well.
  streamsgroup list -broker localhost:9092
  streamsgroup list -broker localhost:9092 -state
  streamsgroup list -broker localhost:9092 -state=Stable,Empty
States: Empty, NotReady, Assigning, Reconciling, Stable, Dead, in letters of any case.`

// stateFlag is "-state", or "-state=names".
type stateFlag struct {
	given  bool
	states []client.GroupState
}

func (*stateFlag) String() string   { return "" }
func (*stateFlag) IsBoolFlag() bool { return true }

func (s *stateFlag) Set(v string) (err error) {
	switch s.given = true; v {
	case "true":
		return nil
	case "false":
		s.given = false
		return nil
	}
	s.states, err = client.ParseGroupStates(v)
	return err
}

func listGroups(ctx context.Context, args []string, out console) error {
	f := newGroupFlags("list")
	var state stateFlag
	f.fs.Var(&state, "state", "show states, and with -state=`names` only groups in these, comma-separated")
	if err := f.parse(args, out.stderr, aboutList); err != nil {
		return err
	}
	c, err := f.connect(out)
	if err != nil {
		return err
	}
	defer c.cl.Close()
	groups, err := c.listed(ctx, state.states...)
	if err != nil {
		return err
	}
	if !state.given {
		for _, g := range groups {
			c.printf("%s\n", g.Group)
		}
		return nil
	}
	var rows [][]string
	for _, g := range groups {
		rows = append(rows, []string{g.Group, string(g.State)})
	}
	writeTable(out.stdout, []column{{"GROUP", nameWidth}, {"STATE", nameWidth}}, rows)
	return nil
}
