package chaos

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// Result is the outcome of a check for linearizability.
type Result struct {
	// Operations is how many there are, Unknown how many of them had no answer.
	Operations, Unknown int
	// Illegal are the partitions whose history has no order that explains it,
	// Undecided those for which the check took too long.
	Illegal, Undecided []int32

	infos map[int32]porcupine.LinearizationInfo
}

// checkPatience bounds the check of one partition.
const checkPatience = time.Minute

// Check looks for an order of all operations on each partition in which each is right
// and happens between its request and its answer.
func (h *History) Check(partitions int) Result {
	res := Result{infos: map[int32]porcupine.LinearizationInfo{}}
	ops := h.operations()
	clients := map[string]int{}
	for p := range int32(partitions) {
		var of []porcupine.Operation
		for _, o := range ops {
			if o.partition != p && o.partition != allPartitions {
				continue
			}
			id, ok := clients[o.client]
			if !ok {
				id = len(clients)
				clients[o.client] = id
			}
			of = append(of, porcupine.Operation{ClientId: id, Input: o.input, Call: o.call, Return: o.end})
			if o.outcome == unknown {
				res.Unknown++
			}
		}
		last := slices.MaxFunc(append(of, porcupine.Operation{}), func(a, b porcupine.Operation) int { return int(a.Call - b.Call) }).Call + 1
		for i := range of {
			of[i].Return = min(of[i].Return, max(last, h.clock+1))
		}
		res.Operations += len(of)
		verdict, info := porcupine.CheckOperationsVerbose(model(), of, checkPatience)
		switch verdict {
		case porcupine.Illegal:
			res.Illegal = append(res.Illegal, p)
			res.infos[p] = info
		case porcupine.Unknown:
			res.Undecided = append(res.Undecided, p)
		}
	}
	return res
}

// Judge checks the history of a group that is closed, and says what was done. If the
// test has failed it keeps what shows why: where go test -artifacts says, else in a
// directory for temporary files. It returns that directory.
func (g *Group) Judge(seed uint64, account Account) (res Result, dir string) {
	g.Helper()
	res = g.History.Check(g.Partitions)
	if len(res.Illegal)+len(res.Undecided) > 0 {
		g.Errorf("seed %d: not linearizable: partitions %v; undecided: %v", seed, res.Illegal, res.Undecided)
	}
	g.Logf("seed %d: %d operations, %d of them without an answer; %v; %+v", seed, res.Operations, res.Unknown, account, g.Counts())
	if !g.Failed() {
		return res, ""
	}
	dir, err := keep(g)
	if err == nil {
		err = g.History.Save(dir, res)
	}
	g.Logf("seed %d: transcript and pictures are in %s, error: %v", seed, dir, err)
	return res, dir
}

func keep(t TB) (string, error) {
	if f := flag.Lookup("test.artifacts"); f != nil && f.Value.String() == "true" {
		return t.ArtifactDir(), nil
	}
	return os.MkdirTemp("", "streamsgroup-chaos-")
}

// Save writes the transcript to a directory, and a picture of every partition that
// failed.
func (h *History) Save(dir string, res Result) error {
	f, err := os.Create(filepath.Join(dir, "transcript.txt"))
	if err != nil {
		return err
	}
	err = h.Write(f)
	for _, p := range res.Illegal {
		h.explain(f, res.infos[p], p)
		err = errors.Join(err, porcupine.VisualizePath(model(), res.infos[p], filepath.Join(dir, fmt.Sprintf("partition-%d.html", p))))
	}
	return errors.Join(err, f.Close())
}

// explain writes how far an order of the operations on a partition came, and what could
// not follow.
func (h *History) explain(out io.Writer, info porcupine.LinearizationInfo, p int32) {
	var longest []porcupine.Operation
	for _, part := range info.PartialLinearizationsOperations() {
		for _, ops := range part {
			if len(ops) > len(longest) {
				longest = ops
			}
		}
	}
	type key struct {
		in   input
		call int64
	}
	placed := map[key]bool{}
	r := register{offset: -1}
	fmt.Fprintf(out, "partition %d: the end of the longest order that explains something\n", p)
	for i, o := range longest {
		in := o.Input.(input)
		placed[key{in, o.Call}] = true
		_, r = r.step(in)
		if i >= len(longest)-12 {
			fmt.Fprintf(out, "  %-60s #%d to #%d, then %v\n", in, o.Call, o.Return, r)
		}
	}
	fmt.Fprintf(out, "partition %d: what does not follow\n", p)
	n := 0
	for _, o := range h.operations() {
		if (o.partition == p || o.partition == allPartitions) && !placed[key{o.input, o.call}] && n < 12 {
			fmt.Fprintf(out, "  %-60s #%d to #%d\n", o.input, o.call, o.end)
			n++
		}
	}
}
