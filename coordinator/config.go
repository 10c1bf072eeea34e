package coordinator

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/streamsgroup/streamsgroup/coordinator/record"
)

// ConfigError is a config value that is refused.
type ConfigError struct{ Name, Value, Reason string }

func (e *ConfigError) Error() string {
	return fmt.Sprintf("coordinator: config %s=%q: %s", e.Name, e.Value, e.Reason)
}

// intConfig is a numeric broker config with what a group may override.
type intConfig struct {
	broker   string // name of the broker config
	def      int64
	low      int64
	override string // name of the group config, empty if there is none
	min, max string // broker configs that bound both
	dynamic  bool
	long     bool // 64 bits wide
}

// The numeric configs, by Kafka's names and with Kafka's defaults.
var intConfigs = []intConfig{
	{broker: "group.streams.session.timeout.ms", def: 45000, low: 1, override: "streams.session.timeout.ms", min: "group.streams.min.session.timeout.ms", max: "group.streams.max.session.timeout.ms"},
	{broker: "group.streams.min.session.timeout.ms", def: 45000, low: 1},
	{broker: "group.streams.max.session.timeout.ms", def: 60000, low: 1},
	{broker: "group.streams.heartbeat.interval.ms", def: 5000, low: 1, override: "streams.heartbeat.interval.ms", min: "group.streams.min.heartbeat.interval.ms", max: "group.streams.max.heartbeat.interval.ms"},
	{broker: "group.streams.min.heartbeat.interval.ms", def: 5000, low: 1},
	{broker: "group.streams.max.heartbeat.interval.ms", def: 15000, low: 1},
	{broker: "group.streams.max.size", def: math.MaxInt32, low: 1},
	{broker: "group.streams.num.standby.replicas", def: 0, override: "streams.num.standby.replicas", max: "group.streams.max.standby.replicas"},
	{broker: "group.streams.max.standby.replicas", def: 2},
	{broker: "group.streams.initial.rebalance.delay.ms", def: 3000, override: "streams.initial.rebalance.delay.ms"},
	{broker: "group.streams.assignment.interval.ms", def: 1000, override: "streams.assignment.interval.ms", min: "group.streams.min.assignment.interval.ms", max: "group.streams.max.assignment.interval.ms", dynamic: true},
	{broker: "group.streams.min.assignment.interval.ms", def: 0},
	{broker: "group.streams.max.assignment.interval.ms", def: 15000},
	{broker: "group.streams.task.offset.interval.ms", def: 60000, low: 1, override: "streams.task.offset.interval.ms", min: "group.streams.min.task.offset.interval.ms"},
	{broker: "group.streams.min.task.offset.interval.ms", def: 15000, low: 1},
	{broker: "group.streams.num.warmup.replicas", def: 2, override: "streams.num.warmup.replicas", max: "group.streams.max.warmup.replicas"},
	{broker: "group.streams.max.warmup.replicas", def: 20},
	{broker: "group.streams.acceptable.recovery.lag", def: 10000, override: "streams.acceptable.recovery.lag", long: true},
}

const (
	cfgTags           = "group.streams.rack.aware.assignment.tags"
	cfgTagsGroup      = "streams.rack.aware.assignment.tags"
	cfgAssignors      = "group.streams.assignors"
	cfgAssignorGroup  = "streams.assignor.name"
	cfgOffload        = "group.streams.assignor.offload.enable"
	cfgOffloadGroup   = "streams.assignor.offload.enable"
	cfgProtocols      = "group.coordinator.rebalance.protocols"
	cfgSession        = "group.streams.session.timeout.ms"
	cfgHeartbeat      = "group.streams.heartbeat.interval.ms"
	cfgMaxSize        = "group.streams.max.size"
	cfgStandbys       = "group.streams.num.standby.replicas"
	cfgInitialDelay   = "group.streams.initial.rebalance.delay.ms"
	cfgInterval       = "group.streams.assignment.interval.ms"
	cfgOffsetInterval = "group.streams.task.offset.interval.ms"
	cfgWarmups        = "group.streams.num.warmup.replicas"
	cfgLag            = "group.streams.acceptable.recovery.lag"
)

// The keys under which a group metadata record has the assignment configs.
const (
	storedStandbys = "num.standby.replicas"
	storedTags     = "rack.aware.assignment.tags"
)

func findInt(name string) *intConfig {
	for i := range intConfigs {
		if intConfigs[i].broker == name {
			return &intConfigs[i]
		}
	}
	return nil
}

func findOverride(name string) *intConfig {
	for i := range intConfigs {
		if intConfigs[i].override != "" && intConfigs[i].override == name {
			return &intConfigs[i]
		}
	}
	return nil
}

// brokerConfig is the broker's level of configuration.
type brokerConfig struct {
	ints      map[string]int64
	tags      []string
	assignors []string
	offload   bool
	protocols []string
}

func newBrokerConfig(values map[string]string, defaultAssignors []string) (brokerConfig, error) {
	b := brokerConfig{ints: map[string]int64{}, assignors: defaultAssignors, offload: true, protocols: []string{"classic", "consumer", "streams"}}
	for i := range intConfigs {
		b.ints[intConfigs[i].broker] = intConfigs[i].def
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if err := b.set(name, values[name]); err != nil {
			return b, err
		}
	}
	return b, b.check()
}

// knows is whether a broker config of that name concerns streams groups.
func (b *brokerConfig) knows(name string) bool {
	switch name {
	case cfgTags, cfgAssignors, cfgOffload, cfgProtocols:
		return true
	}
	return findInt(name) != nil
}

func (b *brokerConfig) set(name, value string) error {
	switch name {
	case cfgTags:
		tags, err := parseTags(name, value)
		if err != nil {
			return err
		}
		b.tags = tags
		return nil
	case cfgAssignors:
		names := splitList(value)
		if len(names) == 0 || repeated(names, same) != nil {
			return &ConfigError{name, value, "want at least one assignor, each once"}
		}
		b.assignors = names
		return nil
	case cfgOffload:
		v, ok := parseBool(value)
		if !ok {
			return &ConfigError{name, value, "want true or false"}
		}
		b.offload = v
		return nil
	case cfgProtocols:
		b.protocols = splitList(value)
		return nil
	}
	c := findInt(name)
	if c == nil {
		return nil // other broker configs are none of ours
	}
	n, err := parseInt(name, value, c.low)
	if err != nil {
		return err
	}
	b.ints[name] = n
	return nil
}

func parseInt(name, value string, low int64) (int64, error) {
	n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
	if err != nil {
		return 0, &ConfigError{name, value, "want a whole number"}
	}
	if n < low {
		return 0, &ConfigError{name, value, fmt.Sprintf("want at least %d", low)}
	}
	return n, nil
}

// check looks at the rules between broker configs.
func (b *brokerConfig) check() error {
	for i := range intConfigs {
		c := &intConfigs[i]
		v := b.ints[c.broker]
		if lo, hi := b.bounds(c); v < lo || v > hi {
			return &ConfigError{c.broker, strconv.FormatInt(v, 10), boundsText(c, lo, hi)}
		}
	}
	if s, h := b.ints[cfgSession], b.ints[cfgHeartbeat]; h >= s {
		return &ConfigError{cfgHeartbeat, strconv.FormatInt(h, 10), fmt.Sprintf("want less than the session time-out of %d", s)}
	}
	return nil
}

func (b *brokerConfig) bounds(c *intConfig) (lo, hi int64) {
	lo, hi = c.low, math.MaxInt32
	if c.long {
		hi = math.MaxInt64
	}
	if c.min != "" {
		lo = b.ints[c.min]
	}
	if c.max != "" {
		hi = b.ints[c.max]
	}
	return lo, hi
}

// effective is what holds for one group. It is computed when a config changes,
// not per heartbeat.
type effective struct {
	session, heartbeat, offsetInterval time.Duration
	initialDelay, interval             time.Duration
	standbys, warmups                  int
	lag                                int64
	tags                               []string
	assignor                           string
	// stored is the part that is kept with the group and whose change leads to a
	// new assignment.
	stored []record.KeyValue
	// clamped are overrides that are used with another value.
	clamped []ConfigClamped
}

func (c *coordinatorState) effectiveConfig(group string) *effective {
	o := c.overrides[group]
	e := &effective{tags: c.broker.tags}
	num := func(name string) int64 {
		cfg := findInt(name)
		v := c.broker.ints[name]
		if s, ok := o[cfg.override]; ok {
			if n, err := strconv.ParseInt(strings.TrimSpace(s), 10, 64); err == nil {
				lo, hi := c.broker.bounds(cfg)
				if v = min(max(n, lo), hi); v != n {
					e.clamped = append(e.clamped, ConfigClamped{Group: group, Name: cfg.override, Value: s, Used: strconv.FormatInt(v, 10)})
				}
			}
		}
		return v
	}
	ms := func(name string) time.Duration { return time.Duration(num(name)) * time.Millisecond }
	e.session, e.heartbeat, e.offsetInterval = ms(cfgSession), ms(cfgHeartbeat), ms(cfgOffsetInterval)
	e.initialDelay, e.interval = ms(cfgInitialDelay), ms(cfgInterval)
	e.standbys, e.warmups, e.lag = int(num(cfgStandbys)), int(num(cfgWarmups)), num(cfgLag)
	if s, ok := o[cfgTagsGroup]; ok {
		e.tags = splitList(s)
	}
	e.assignor = c.broker.assignors[0]
	if name := strings.TrimSpace(o[cfgAssignorGroup]); c.assignors[name] != nil {
		e.assignor = name
	}
	e.stored = []record.KeyValue{{Key: storedStandbys, Value: strconv.Itoa(e.standbys)}}
	if len(e.tags) > 0 {
		e.stored = append(e.stored, record.KeyValue{Key: storedTags, Value: strings.Join(e.tags, ",")})
	}
	return e
}

// asStored has the assignment configs that are stored with a group in place of
// those in force, which no heartbeat has taken up yet.
func (e *effective) asStored(stored []record.KeyValue) *effective {
	old := *e
	for _, kv := range stored {
		switch kv.Key {
		case storedStandbys:
			if n, err := strconv.Atoi(kv.Value); err == nil {
				old.standbys = n
			}
		case storedTags:
			old.tags = splitList(kv.Value)
		}
	}
	if !slices.ContainsFunc(stored, func(kv record.KeyValue) bool { return kv.Key == storedTags }) {
		old.tags = nil
	}
	return &old
}

// sameConfigs compares stored assignment configs, which Kafka writes in any order.
func sameConfigs(a, b []record.KeyValue) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !slices.Contains(b, a[i]) {
			return false
		}
	}
	return true
}

// CheckGroupConfig validates streams.* overrides of one group together, as they
// would stand after the change. The error names key, value and bounds.
func (c *Coordinator) CheckGroupConfig(overrides map[string]string) error {
	b := &c.broker
	for _, name := range slices.Sorted(maps.Keys(overrides)) {
		value := overrides[name]
		switch name {
		case cfgTagsGroup:
			if _, err := parseTags(name, value); err != nil {
				return err
			}
			continue
		case cfgAssignorGroup:
			if c.assignors[strings.TrimSpace(value)] == nil {
				return &ConfigError{name, value, "want one of " + strings.Join(slices.Sorted(maps.Keys(c.assignors)), ", ")}
			}
			continue
		case cfgOffloadGroup:
			if _, ok := parseBool(value); !ok {
				return &ConfigError{name, value, "want true or false"}
			}
			continue
		}
		cfg := findOverride(name)
		if cfg == nil {
			return &ConfigError{name, value, "there is no such group config"}
		}
		n, err := parseInt(name, value, cfg.low)
		if err != nil {
			return err
		}
		if lo, hi := b.bounds(cfg); n < lo || n > hi {
			return &ConfigError{name, value, boundsText(cfg, lo, hi)}
		}
	}
	get := func(name string) int64 {
		if s, ok := overrides[findInt(name).override]; ok {
			n, _ := strconv.ParseInt(strings.TrimSpace(s), 10, 64) // parsed above
			return n
		}
		return b.ints[name]
	}
	if s, h := get(cfgSession), get(cfgHeartbeat); s <= h {
		return &ConfigError{"streams.session.timeout.ms", strconv.FormatInt(s, 10), fmt.Sprintf("want more than the heartbeat interval of %d", h)}
	}
	return nil
}

func boundsText(c *intConfig, lo, hi int64) string {
	text := fmt.Sprintf("want at least %d", lo)
	if c.min != "" {
		text += " (" + c.min + ")"
	}
	text += fmt.Sprintf(" and at most %d", hi)
	if c.max != "" {
		text += " (" + c.max + ")"
	}
	return text
}

// SetGroupConfig replaces a group's overrides without validation: values out of
// bounds are clamped when they are used. The map is copied.
func (c *Coordinator) SetGroupConfig(group string, overrides map[string]string) {
	if len(overrides) == 0 {
		delete(c.overrides, group)
	} else {
		c.overrides[group] = maps.Clone(overrides)
	}
	if g := c.groups[group]; g != nil {
		g.config = nil
	}
}

// GroupOverrides returns a copy of what the group itself sets.
func (c *Coordinator) GroupOverrides(group string) map[string]string {
	return maps.Clone(c.overrides[group])
}

// ConfiguredGroups returns the groups that set something themselves, ascending.
func (c *Coordinator) ConfiguredGroups() []string {
	return slices.Sorted(maps.Keys(c.overrides))
}

// GroupConfigs describes the streams.* settings of a group, sorted by name: what
// DescribeConfigs shows for a group resource. Overrides are shown as they were
// set but for spaces, even where another value is used.
func (c *Coordinator) GroupConfigs(group string) []ConfigEntry {
	var out []ConfigEntry
	add := func(name, value string) {
		e := ConfigEntry{Name: name, Value: value}
		if v, ok := c.overrides[group][name]; ok {
			e.Value, e.Override = parsed(name, v), true
		}
		out = append(out, e)
	}
	for i := range intConfigs {
		if o := intConfigs[i].override; o != "" {
			add(o, strconv.FormatInt(c.broker.ints[intConfigs[i].broker], 10))
		}
	}
	add(cfgTagsGroup, strings.Join(c.broker.tags, ","))
	add(cfgAssignorGroup, c.broker.assignors[0])
	add(cfgOffloadGroup, strconv.FormatBool(c.broker.offload))
	slices.SortFunc(out, func(a, b ConfigEntry) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// BrokerConfigs describes the broker configs that concern streams groups, sorted
// by name.
func (c *Coordinator) BrokerConfigs() []ConfigEntry {
	out := []ConfigEntry{
		{Name: cfgTags, Value: strings.Join(c.broker.tags, ",")},
		{Name: cfgAssignors, Value: strings.Join(c.broker.assignors, ",")},
		{Name: cfgOffload, Value: strconv.FormatBool(c.broker.offload)},
		{Name: cfgProtocols, Value: strings.Join(c.broker.protocols, ",")},
	}
	for i := range intConfigs {
		name := intConfigs[i].broker
		out = append(out, ConfigEntry{Name: name, Value: strconv.FormatInt(c.broker.ints[name], 10)})
	}
	slices.SortFunc(out, func(a, b ConfigEntry) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// parsed is a value without the space that Kafka does not look at.
func parsed(name, value string) string {
	if name == cfgTagsGroup {
		return strings.Join(splitList(value), ",")
	}
	return strings.TrimSpace(value)
}

// IsBrokerConfig is whether a broker config of that name concerns streams
// groups, and whether it can be changed at run time.
func (c *Coordinator) IsBrokerConfig(name string) (known, dynamic bool) {
	cfg := findInt(name)
	return c.broker.knows(name), name == cfgOffload || cfg != nil && cfg.dynamic
}

// SetBrokerConfig changes one broker-level config at run time, nil for the
// default.
func (c *Coordinator) SetBrokerConfig(name string, value *string) error {
	b := c.broker
	b.ints = maps.Clone(b.ints)
	if value == nil {
		def, err := newBrokerConfig(nil, c.builtin)
		if err != nil {
			return err
		}
		switch cfg := findInt(name); {
		case cfg != nil:
			b.ints[name] = cfg.def
		case name == cfgTags:
			b.tags = nil
		case name == cfgAssignors:
			b.assignors = def.assignors
		case name == cfgOffload:
			b.offload = def.offload
		case name == cfgProtocols:
			b.protocols = def.protocols
		}
	} else if err := b.set(name, *value); err != nil {
		return err
	}
	if err := b.check(); err != nil {
		return err
	}
	if err := c.checkAssignors(b); err != nil {
		return err
	}
	c.broker = b
	for _, g := range c.groups {
		g.config = nil
	}
	return nil
}

func (c *coordinatorState) checkAssignors(b brokerConfig) error {
	for _, name := range b.assignors {
		if c.assignors[name] == nil {
			return &ConfigError{cfgAssignors, strings.Join(b.assignors, ","), fmt.Sprintf("there is no assignor %q, only %s", name, strings.Join(slices.Sorted(maps.Keys(c.assignors)), ", "))}
		}
	}
	return nil
}

func splitList(s string) []string {
	if strings.TrimSpace(s) == "" {
		return nil
	}
	out := strings.Split(s, ",")
	for i := range out {
		out[i] = strings.TrimSpace(out[i])
	}
	return out
}

func same(s *string) string { return *s }

func parseTags(name, value string) ([]string, error) {
	tags := splitList(value)
	switch {
	case slices.Contains(tags, ""):
		return nil, &ConfigError{name, value, "a tag key is empty"}
	case repeated(tags, same) != nil:
		return nil, &ConfigError{name, value, "a tag key is there twice"}
	}
	return tags, nil
}

// parseBool reads a boolean as Kafka does: true or false, in any case, and
// nothing else.
func parseBool(value string) (v, ok bool) {
	value = strings.TrimSpace(value)
	v = strings.EqualFold(value, "true")
	return v, v || strings.EqualFold(value, "false")
}
