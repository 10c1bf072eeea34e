package conformance

import (
	"slices"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Unset takes group configs of the scenario's group back.
func (c *C) Unset(names ...string) {
	c.note("group configs %v are taken back", names)
	began := c.target.Clock.Now()
	require.NoError(c, c.alter(groupResource, c.group, kmsg.IncrementalAlterConfigOpDelete, names, ""))
	c.await("the end of group configs", func() bool {
		set := c.overrides()
		return !slices.ContainsFunc(names, func(name string) bool { return slices.Contains(set, name) })
	})
	c.settle(began)
}

// overrides are the names of the configs that are set for the scenario's group.
func (c *C) overrides() []string {
	res := kmsg.NewDescribeConfigsRequestResource()
	res.ResourceType, res.ResourceName = groupResource, c.group
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.Resources = append(req.Resources, res)
	var names []string
	for _, r := range c.AskCoordinator(req).(*kmsg.DescribeConfigsResponse).Resources {
		for _, cfg := range r.Configs {
			if cfg.Source == kmsg.ConfigSourceGroupConfig {
				names = append(names, cfg.Name)
			}
		}
	}
	return names
}

// alter changes configs, each to the same value.
func (c *C) alter(kind kmsg.ConfigResourceType, resource string, op kmsg.IncrementalAlterConfigOp, names []string, value string) error {
	res := kmsg.NewIncrementalAlterConfigsRequestResource()
	res.ResourceType, res.ResourceName = kind, resource
	for _, name := range names {
		cfg := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		cfg.Name, cfg.Op = name, op
		if op != kmsg.IncrementalAlterConfigOpDelete {
			cfg.Value = &value
		}
		res.Configs = append(res.Configs, cfg)
	}
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Resources = append(req.Resources, res)
	return kerr.ErrorForCode(c.AskController(req).(*kmsg.IncrementalAlterConfigsResponse).Resources[0].ErrorCode)
}

// refusedConfigs is a scenario of values that a group config must not have.
type refusedConfigs struct {
	IDs    []string
	Title  string
	Config string
	Good   string
	Bad    []string
	Only44 bool
}

func (r refusedConfigs) scenario() Scenario {
	return Scenario{IDs: r.IDs, Title: r.Title, Run: func(c *C) {
		if r.Only44 {
			c.Need44()
		}
		c.Config(r.Config, r.Good)
		for _, value := range r.Bad {
			require.ErrorIs(c, c.TryConfig(r.Config, value), kerr.InvalidConfig, "%s = %q", r.Config, value)
		}
		require.Equal(c, r.Good, c.GroupConfigs()[r.Config])
	}}
}

// Configs of groups.
var configs = []Scenario{
	refusedConfigs{
		IDs: []string{"25-group.streams.session.timeout.ms", "25-2"}, Title: "bounds of the session time-out",
		Config: "streams.session.timeout.ms", Good: "45000", Bad: []string{"", "x", "-1", "10", "60001", "5000"},
	}.scenario(),
	refusedConfigs{
		IDs: []string{"25-group.streams.heartbeat.interval.ms", "25-2"}, Title: "bounds of the heartbeat interval",
		Config: "streams.heartbeat.interval.ms", Good: "6000", Bad: []string{"x", "-1", "10", "15001"},
	}.scenario(),
	refusedConfigs{
		IDs: []string{"25-group.streams.num.standby.replicas", "25-2"}, Title: "bounds of the number of standbys",
		Config: "streams.num.standby.replicas", Good: "2", Bad: []string{"x", "-1", "3"},
	}.scenario(),
	refusedConfigs{
		IDs: []string{"25-group.streams.initial.rebalance.delay.ms", "25-2"}, Title: "bounds of the initial rebalance delay",
		Config: "streams.initial.rebalance.delay.ms", Good: "5", Bad: []string{"x", "-1"},
	}.scenario(),
	refusedConfigs{
		IDs: []string{"25-group.streams.assignment.interval.ms", "25-2"}, Title: "bounds of the assignment interval",
		Config: "streams.assignment.interval.ms", Good: "15000", Bad: []string{"x", "-1", "15001"},
	}.scenario(),
	refusedConfigs{
		IDs: []string{"25-group.streams.task.offset.interval.ms", "25-2"}, Title: "bounds of the task offset interval",
		Config: "streams.task.offset.interval.ms", Good: "20000", Bad: []string{"x", "-1", "10"}, Only44: true,
	}.scenario(),
	refusedConfigs{
		IDs: []string{"25-group.streams.num.warmup.replicas", "25-2"}, Title: "bounds of the number of warm-ups",
		Config: "streams.num.warmup.replicas", Good: "20", Bad: []string{"x", "-1", "21"}, Only44: true,
	}.scenario(),
	refusedConfigs{
		IDs: []string{"25-group.streams.acceptable.recovery.lag", "25-2"}, Title: "bounds of the acceptable recovery lag",
		Config: "streams.acceptable.recovery.lag", Good: "0", Bad: []string{"x", "-1"}, Only44: true,
	}.scenario(),
	refusedConfigs{
		IDs: []string{"25-group.streams.rack.aware.assignment.tags", "J-38", "25-2"}, Title: "rack-aware tags that are empty or repeat",
		Config: "streams.rack.aware.assignment.tags", Good: "zone,cluster", Bad: []string{"zone,,cluster", "zone,zone"}, Only44: true,
	}.scenario(),
	refusedConfigs{
		IDs: []string{"25-group.streams.assignor.offload.enable", "25-2"}, Title: "a switch that is neither true nor false",
		Config: "streams.assignor.offload.enable", Good: "false", Bad: []string{"x", "1"}, Only44: true,
	}.scenario(),
	{
		IDs: []string{"25-2"}, Title: "a session time-out that is not above the heartbeat interval, and unknown names",
		Run: func(c *C) {
			before := c.GroupConfigs()
			require.ErrorIs(c, c.TryConfig("streams.session.timeout.ms", "9000", "streams.heartbeat.interval.ms", "9000"), kerr.InvalidConfig)
			require.ErrorIs(c, c.TryConfig("streams.no.such.config", "1"), kerr.InvalidConfig)
			require.ErrorIs(c, c.TryConfig("streams.num.standby.replicas", "1", "streams.no.such.config", "1"), kerr.InvalidConfig)
			require.Equal(c, before, c.GroupConfigs())
		},
	},
	{
		IDs:   []string{"J-29", "7-11", "25-8", "25-group.streams.num.standby.replicas"},
		Title: "another number of standbys is a new epoch",
		Run: func(c *C) {
			c.AtOnce()
			c.Topic("foo", 4)
			c.Topic("log", 4)
			m1, m2 := c.Member("m1"), c.Member("m2")
			t := Topology(Keeps("s1", "foo", "log"))
			m1.Join(t).OK(2)
			m2.Join(t).OK(3)
			c.Converge(m1, m2)
			require.Empty(c, union(m1.Standby, m2.Standby))
			c.Config("streams.num.standby.replicas", "1")
			m1.Ack().OK(4)
			m2.Ack().OK(4)
			c.Converge(m1, m2)
			require.Equal(c, m1.Active, m2.Standby)
			require.Equal(c, m2.Active, m1.Standby)
			c.Describe().In("Stable", 4)
			m1.Ack().OK(4).NoLists()

			c.Unset("streams.num.standby.replicas")
			m1.Beat().OK(4).HasAll(m1.Active, none, none)
			m1.Ack().OK(5).NoLists()
			c.Converge(m1, m2)
			require.Empty(c, union(m1.Standby, m2.Standby))
			c.Describe().In("Stable", 5)
		},
	},
	{
		IDs:   []string{"J-30", "25-1", "25-8", "14-3", "14-4", "7-11"},
		Title: "intervals and lag are in the next answer and no new epoch",
		Run: func(c *C) {
			c.Need44()
			c.Topic("foo", 2)
			m := c.Member("m1")
			old := m.Join(T1()).OK(2)
			c.Config("streams.heartbeat.interval.ms", "7000", "streams.task.offset.interval.ms", "70000",
				"streams.acceptable.recovery.lag", "50000", "streams.num.warmup.replicas", "5")
			a := m.Ack().OK(2).NoLists()
			require.Equal(c, int32(7000), a.HeartbeatIntervalMillis)
			require.Equal(c, int32(70000), a.TaskOffsetIntervalMillis)
			require.Equal(c, int64(50000), a.AcceptableRecoveryLag)
			c.Unset("streams.heartbeat.interval.ms", "streams.task.offset.interval.ms", "streams.acceptable.recovery.lag")
			a = m.Ack().OK(2).NoLists()
			require.Equal(c, old.HeartbeatIntervalMillis, a.HeartbeatIntervalMillis)
			require.Equal(c, old.TaskOffsetIntervalMillis, a.TaskOffsetIntervalMillis)
			require.Equal(c, old.AcceptableRecoveryLag, a.AcceptableRecoveryLag)
			c.Describe().In("Stable", 2)
		},
	},
	{
		IDs:   []string{"J-35", "J-37", "7-11", "14.1-6", "25-group.streams.rack.aware.assignment.tags", "25-8"},
		Title: "client tags that the group asks for",
		Run: func(c *C) {
			c.Need44()
			c.AtOnce()
			c.Topic("foo", 2)
			m := c.Member("m1")
			m.Join(T1(), Tags("rack", "a")).OK(2).Says("-")
			c.Config("streams.rack.aware.assignment.tags", "zone,cluster")
			detail := m.Ack().OK(3).NoLists().Says("6").Detail(6)
			require.Regexp(c, "zone.*cluster", detail)
			m.Ack().OK(3).Says("6")
			detail = m.Ack(Tags("cluster", "c1")).OK(4).Says("6").Detail(6)
			require.Contains(c, detail, "zone")
			require.NotContains(c, detail, "cluster")
			m.Ack(Tags("cluster", "c1", "zone", "z1")).OK(5).Says("-")
			c.Config("streams.rack.aware.assignment.tags", "rack")
			require.Contains(c, m.Ack().OK(6).Says("6").Detail(6), "rack")
			c.Unset("streams.rack.aware.assignment.tags")
			m.Ack().OK(7).Says("-")
			c.Describe().In("Stable", 7)
		},
	},
	{
		IDs: []string{"25-6"}, Title: "group configs outlive the group",
		Run: func(c *C) {
			c.Config("streams.heartbeat.interval.ms", "7000")
			c.Topic("foo", 2)
			m := c.Member("m1")
			m.Join(T1()).OK(2)
			m.Leave().OK(-1)
			c.DeleteGroup()
			c.Describe().Is("GROUP_ID_NOT_FOUND")
			require.Equal(c, "7000", c.GroupConfigs()["streams.heartbeat.interval.ms"])
			require.Equal(c, int32(7000), m.Join(T1()).OK(2).HeartbeatIntervalMillis)
		},
	},
	{
		IDs: []string{"25-3", "25-5", "25-1"}, Title: "configs of the broker", Alone: true,
		Run: func(c *C) {
			const dynamic, override = "group.streams.assignment.interval.ms", "streams.assignment.interval.ms"
			set, unset := kmsg.IncrementalAlterConfigOpSet, kmsg.IncrementalAlterConfigOpDelete
			err := c.alter(kmsg.ConfigResourceTypeBroker, "", set, []string{"group.streams.heartbeat.interval.ms"}, "6000")
			require.ErrorIs(c, err, kerr.InvalidRequest)

			before := c.GroupConfigs()[override]
			c.onEnd(func() { _ = c.alter(kmsg.ConfigResourceTypeBroker, "", unset, []string{dynamic}, "") })
			require.NoError(c, c.alter(kmsg.ConfigResourceTypeBroker, "", set, []string{dynamic}, "1234"))
			c.await("the broker's value", func() bool { return c.GroupConfigs()[override] == "1234" })
			c.Config(override, "2345")
			require.Equal(c, "2345", c.GroupConfigs()[override])
			c.Unset(override)
			require.Equal(c, "1234", c.GroupConfigs()[override])
			require.NotContains(c, c.overrides(), override)
			require.NoError(c, c.alter(kmsg.ConfigResourceTypeBroker, "", unset, []string{dynamic}, ""))
			c.await("the broker's former value", func() bool { return c.GroupConfigs()[override] == before })
		},
	},
}
