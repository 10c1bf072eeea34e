package assignor

import "math"

// exchange mends what the order of visits has spoilt: something gets the place
// that it would rather have if what is there has somewhere else to go, and so on
// along a chain. Each search finds the cheapest chain, as in the assignment
// problem. The work is bounded by a budget in proportion to the input, so that
// in a huge group the result may be a little less than the best.
//
// What is placed are units, and where they are placed are nodes: small numbers.
type exchange struct {
	rules exchangeRules
	nodes []exchangeNode
	queue []int32
	seen  []int32 // nodes reached in the search at hand

	unit, start int32 // the unit that looks for a better place, and where it is
	budget      int
}

// exchangeRules say what may be placed where.
type exchangeRules interface {
	// cost is that of the place where a unit is.
	cost(unit int32) int64
	// offers calls try with the places where a unit might go rather than stay
	// where it is.
	offers(unit int32, try func(node int32, cost int64))
	// spare is a place for a unit that nothing has to leave for it, open if it
	// is not to be placed for now.
	spare(unit int32) (node int32, cost int64, ok bool)
	// hasRoom is whether a node can take one unit more.
	hasRoom(node int32) bool
	// shared is a node whose units have taken what this one would need to have
	// room, or nobody.
	shared(node int32) int32
	// units are at a node.
	units(node int32) []int32
	// node is where a unit is, open if nowhere.
	node(unit int32) int32
	// kin are units of which a chain moves one at most.
	kin(a, b int32) bool
	move(unit, to int32)
	// took and released keep account of the room of a node.
	took(node int32)
	released(node int32)
}

// exchangeNode is what the search knows of a node.
type exchangeNode struct {
	cost   int64 // of the cheapest chain that asks for a place here
	unit   int32 // that would come here, nobody for a shared node
	from   int32 // the node before on the chain, nobody at its beginning
	queued bool
}

const unreached = math.MaxInt64

func newExchange(rules exchangeRules, nodes, budget int) *exchange {
	x := &exchange{rules: rules, nodes: make([]exchangeNode, nodes), budget: budget}
	for i := range x.nodes {
		x.nodes[i].cost = unreached
	}
	return x
}

// listUnits files units by node. The lists share one array until they grow.
func listUnits(nodes int, units []int32, node func(unit int32) int32) [][]int32 {
	sizes := make([]int32, nodes)
	for _, u := range units {
		sizes[node(u)]++
	}
	all, out := make([]int32, len(units)), make([][]int32, nodes)
	for n, size := range sizes {
		out[n], all = all[:0:size], all[size:]
	}
	for _, u := range units {
		n := node(u)
		out[n] = append(out[n], u)
	}
	return out
}

// improve looks for the cheapest chain that begins with another place for a unit
// and follows it if something is gained.
func (x *exchange) improve(unit int32) {
	now := x.rules.cost(unit)
	if now == 0 {
		return
	}
	x.unit, x.start = unit, x.rules.node(unit)
	best, end, last := int64(0), nobody, nobody // last is the unit that goes to a spare place
	x.queue, x.seen = x.queue[:0], x.seen[:0]
	x.offer(unit, nobody, -now)
	for i := 0; i < len(x.queue) && x.budget > 0; i++ {
		n := x.queue[i]
		x.nodes[n].queued = false
		cost := x.nodes[n].cost
		if cost < best && (n == x.start || x.rules.hasRoom(n)) {
			best, end, last = cost, n, nobody
		}
		if n == x.start {
			continue
		}
		for _, u := range x.rules.units(n) {
			if x.onChain(nobody, n, u) {
				continue
			}
			without := cost - x.rules.cost(u)
			x.offer(u, n, without)
			if _, c, ok := x.rules.spare(u); ok && without+c < best {
				best, end, last = without+c, n, u
			}
		}
		if s := x.rules.shared(n); s != nobody {
			x.reach(s, nobody, n, cost)
		}
	}
	if best < 0 {
		x.follow(end, last)
	}
	for _, n := range x.seen {
		x.nodes[n] = exchangeNode{cost: unreached}
	}
}

// offer lets a unit that would leave where it is ask for its other places. The
// node before it on the chain is from.
func (x *exchange) offer(unit, from int32, cost int64) {
	x.rules.offers(unit, func(n int32, c int64) { x.reach(n, unit, from, cost+c) })
}

func (x *exchange) reach(n, unit, from int32, cost int64) {
	x.budget--
	node := &x.nodes[n]
	if cost >= node.cost || x.onChain(n, from, unit) {
		return
	}
	if node.cost == unreached {
		x.seen = append(x.seen, n)
	}
	node.cost, node.unit, node.from = cost, unit, from
	if !node.queued {
		node.queued = true
		x.queue = append(x.queue, n)
	}
}

// onChain is whether a node, or a unit or its kin, is already on the chain that
// leads to a node: a chain that came back to itself could not be followed.
func (x *exchange) onChain(n, from, unit int32) bool {
	if from == nobody {
		return false
	}
	if unit != nobody && x.rules.kin(unit, x.unit) {
		return true
	}
	for ; from != nobody; from = x.nodes[from].from {
		x.budget--
		if u := x.nodes[from].unit; from == n || unit != nobody && u != nobody && x.rules.kin(u, unit) {
			return true
		}
	}
	return false
}

// follow moves the units of a chain, the last one first.
func (x *exchange) follow(end, last int32) {
	inner := last == nobody && end == x.start // a circle: all rooms stay as they are
	switch {
	case last != nobody:
		to, _, _ := x.rules.spare(last)
		was := x.rules.node(last)
		x.rules.move(last, to)
		x.rules.took(to)
		if x.nodes[end].unit == nobody {
			x.rules.released(was)
		}
	case !inner:
		x.rules.took(end)
	}
	for n := end; n != nobody; {
		unit, before := x.nodes[n].unit, x.nodes[n].from
		if unit == nobody {
			// Those of a shared node left what the one before takes.
			x.rules.took(before)
			n = before
			continue
		}
		was := x.rules.node(unit)
		x.rules.move(unit, n)
		if before != nobody && x.nodes[before].unit == nobody {
			x.rules.released(was)
		}
		n = before
	}
	if !inner {
		x.rules.released(x.start)
	}
}
