package kfakeext

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/coordinator"
	"github.com/streamsgroup/streamsgroup/topology"
)

// ErrClosed is returned by methods of a cluster that has been closed.
var ErrClosed = errors.New("kfakeext: the cluster is closed")

// Cluster is a kfake cluster with a coordinator for streams groups. All methods
// are safe for concurrent use, and those of the embedded cluster work as usual;
// where this type has a method of the same name, it also tells the coordinator
// at once what would otherwise show after a moment.
//
// Control functions of the embedded cluster for a single key run before the
// coordinator, no matter when they are added. Catch-all functions (Control) run
// behind it; use Intercept for those.
//
// No method may be called after Close, other than Close: those of kfake would
// never return.
type Cluster struct {
	*kfake.Cluster
	adapter *adapter
	tap     *Tap
	addrs   atomic.Pointer[[]string]
	dial    func(ctx context.Context, network, address string) (net.Conn, error)
}

// NewCluster starts a cluster with a coordinator for streams groups. Close it.
func NewCluster(opts ...Opt) (*Cluster, error) {
	cfg, err := newConfig(false, opts)
	if err != nil {
		return nil, err
	}
	return newCluster(cfg)
}

func newCluster(cfg *config) (*Cluster, error) {
	// kfake does not see whether the directory is in use, and changes it.
	log, err := cfg.openLog()
	if err != nil {
		return nil, err
	}
	tap, gate := NewTap(), newGate()
	fake, err := kfake.NewCluster(cfg.kfakeOpts(tap, gate)...)
	if err != nil {
		log.close()
		return nil, fmt.Errorf("kfakeext: %w", err)
	}
	c, err := attach(fake, tap, cfg, log)
	if err != nil {
		fake.Close()
		log.close()
		return nil, err
	}
	for _, t := range cfg.topics {
		if fake.TopicInfo(t.name) != nil {
			continue // loaded from the data directory
		}
		if err := c.CreateTopic(t.name, t.partitions, nil); err != nil {
			c.Close()
			return nil, fmt.Errorf("kfakeext: Topic(%q, %d): %w", t.name, t.partitions, err)
		}
	}
	close(gate.open)
	return c, nil
}

// Attach gives a cluster a coordinator for streams groups. Do so before any
// client connects: clients remember what a node supports. The listeners of the
// cluster must come from the tap. The returned cluster closes the given one.
func Attach(fake *kfake.Cluster, tap *Tap, opts ...Opt) (*Cluster, error) {
	cfg, err := newConfig(true, opts)
	if err != nil {
		return nil, err
	}
	log, err := cfg.openLog()
	if err != nil {
		return nil, err
	}
	c, err := attach(fake, tap, cfg, log)
	if err != nil {
		log.close()
	}
	return c, err
}

func attach(fake *kfake.Cluster, tap *Tap, cfg *config, log recordLog) (*Cluster, error) {
	a, err := newAdapter(fake, tap, cfg, log)
	if err != nil {
		return nil, err
	}
	c := &Cluster{Cluster: fake, adapter: a, tap: tap}
	c.readAddrs()
	if !tap.hooks.CompareAndSwap(nil, &hooks{observe: a.observe, idle: a.stop}) {
		return nil, errors.New("kfakeext: the tap serves another cluster already: make a new one for each cluster")
	}
	err = a.probe(*c.addrs.Load())
	if err == nil {
		err = a.restore()
	}
	if err != nil {
		tap.hooks.Store(nil)
		return nil, err
	}
	fake.Control(a.control)
	a.mu.Lock()
	a.armSweep()
	a.mu.Unlock()
	switch {
	case cfg.inProcess:
		c.dial = tap.DialContext
	case cfg.network != nil:
		c.dial = cfg.network.DialContext
	}
	return c, nil
}

// kfakeOpts are the options of the cluster itself. Our own come last, so that
// nothing undoes them.
func (cfg *config) kfakeOpts(tap *Tap, gate gate) []kfake.Opt {
	opts := slices.Clone(cfg.fake)
	var listen Listen
	switch {
	case cfg.inProcess:
		listen = tap.ListenInProcess
	case cfg.network != nil:
		if len(cfg.ports) == 0 {
			cfg.ports = []int{9092}
		}
		listen = tap.ListenFn(cfg.network.Listen)
	default:
		tap.ServeTLS(cfg.tls)
		listen = tap.ListenFn(gate.listen(cfg.listen))
	}
	opts = append(opts, kfake.ListenFn(listen))
	nodes := cfg.nodes
	if len(cfg.ports) == 1 && nodes == 0 {
		nodes = 1
		if cfg.network != nil {
			nodes = 3
		}
	}
	for len(cfg.ports) > 0 && len(cfg.ports) < nodes {
		cfg.ports = append(cfg.ports, cfg.ports[len(cfg.ports)-1]+1)
	}
	switch {
	case len(cfg.ports) > 0:
		opts = append(opts, kfake.Ports(cfg.ports...))
	case nodes > 0:
		opts = append(opts, kfake.NumBrokers(nodes))
	}
	if cfg.dir != "" {
		opts = append(opts, kfake.DataDir(cfg.dir))
	}
	if cfg.logger != nil {
		opts = append(opts, kfake.WithLogger(kfakeLogger{cfg.logger}))
	}
	if len(cfg.configs) > 0 {
		opts = append(opts, kfake.BrokerConfigs(maps.Clone(cfg.configs)))
	}
	return opts
}

// listen listens on the host of [Addr]; kfake itself only knows the loopback
// interface.
func (cfg *config) listen(network, address string) (net.Listener, error) {
	if cfg.host == "" {
		return net.Listen(network, address)
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	ln, err := net.Listen(network, net.JoinHostPort(cfg.host, port))
	if err != nil {
		return nil, err
	}
	advertised := cfg.host
	if ip := net.ParseIP(cfg.host); ip != nil && ip.IsUnspecified() {
		advertised = "127.0.0.1"
	}
	tcp, _ := ln.Addr().(*net.TCPAddr)
	return &advertisedListener{Listener: ln, addr: advertisedAddr(net.JoinHostPort(advertised, strconv.Itoa(tcp.Port)))}, nil
}

type advertisedListener struct {
	net.Listener
	addr advertisedAddr
}

func (l *advertisedListener) Addr() net.Addr { return l.addr }

type advertisedAddr string

func (advertisedAddr) Network() string  { return "tcp" }
func (a advertisedAddr) String() string { return string(a) }

type kfakeLogger struct{ kgo.Logger }

func (l kfakeLogger) Logf(level kfake.LogLevel, format string, args ...any) {
	if lvl := kgo.LogLevel(level); lvl <= l.Level() {
		l.Log(lvl, "kfake: "+fmt.Sprintf(format, args...))
	}
}

// Addrs returns host and port of each node, to be used as seed brokers.
func (c *Cluster) Addrs() []string { return slices.Clone(*c.addrs.Load()) }

// readAddrs remembers the addresses, because they cannot be asked for once the
// cluster is closed.
func (c *Cluster) readAddrs() {
	addrs := c.ListenAddrs()
	c.addrs.Store(&addrs)
}

// KgoOpts returns what a kgo client needs to reach the cluster: the seed brokers
// and, where there is no real network, the dialer. With [TLS] add
// [kgo.DialTLSConfig].
func (c *Cluster) KgoOpts() []kgo.Opt {
	opts := []kgo.Opt{kgo.SeedBrokers(c.Addrs()...)}
	if c.dial != nil {
		opts = append(opts, kgo.Dialer(c.dial))
	}
	return opts
}

// DialContext connects to a node within the process, whatever network the node
// listens on.
func (c *Cluster) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return c.tap.DialContext(ctx, network, address)
}

// Close stops the coordinator and closes the cluster.
func (c *Cluster) Close() {
	c.adapter.stop()
	c.Cluster.Close()
	c.adapter.own.running.Wait()
}

// Intercept adds a control function that runs before the coordinator for every
// request, in the order of addition. It follows the rules of
// [kfake.Cluster.Control] but stays for good: KeepControl need not, and
// DropControl must not be called in it.
func (c *Cluster) Intercept(fn func(kmsg.Request) (kmsg.Response, error, bool)) {
	for {
		old := c.adapter.intercepts.Load()
		var fns []control
		if old != nil {
			fns = slices.Clone(*old)
		}
		fns = append(fns, fn)
		if c.adapter.intercepts.CompareAndSwap(old, &fns) {
			return
		}
	}
}

// CreateTopic is [kfake.Cluster.CreateTopic]. Groups that wait for the topic see
// it with their next heartbeat.
func (c *Cluster) CreateTopic(topic string, partitions int32, configs map[string]string) error {
	return c.changeTopic(topic, func() error { return c.Cluster.CreateTopic(topic, partitions, configs) })
}

// DeleteTopic is [kfake.Cluster.DeleteTopic]. Groups that need the topic see that
// it is gone with their next heartbeat.
func (c *Cluster) DeleteTopic(topic string) error {
	return c.changeTopic(topic, func() error { return c.Cluster.DeleteTopic(topic) })
}

func (c *Cluster) changeTopic(topic string, change func() error) error {
	if c.closed() {
		return ErrClosed
	}
	if err := change(); err != nil {
		return err
	}
	c.adapter.topics.read([]string{topic})
	return nil
}

// RehashCoordinators is [kfake.Cluster.RehashCoordinators]. Groups that move are
// built again from the log at once, as after a failover.
func (c *Cluster) RehashCoordinators() {
	c.Cluster.RehashCoordinators()
	c.adapter.resettle()
}

// AddNode is [kfake.Cluster.AddNode].
func (c *Cluster) AddNode(nodeID int32, port int) (int32, int, error) {
	nodeID, port, err := c.Cluster.AddNode(nodeID, port)
	c.readAddrs()
	c.adapter.resettle()
	return nodeID, port, err
}

// RemoveNode is [kfake.Cluster.RemoveNode].
func (c *Cluster) RemoveNode(nodeID int32) error {
	err := c.Cluster.RemoveNode(nodeID)
	c.readAddrs()
	c.adapter.resettle()
	return err
}

// SetGroupConfig sets configs of a group by their Kafka names, for example
// streams.session.timeout.ms, as IncrementalAlterConfigs does: either all of
// them or none. Names of other group types are kfake's.
func (c *Cluster) SetGroupConfig(group string, configs map[string]string) error {
	if c.closed() {
		return ErrClosed
	}
	others := make(map[string]string)
	a := c.adapter
	a.mu.Lock()
	overrides := maps.Clone(a.core.GroupOverrides(group))
	if overrides == nil {
		overrides = make(map[string]string)
	}
	for name, value := range configs {
		if strings.HasPrefix(name, groupConfigPrefix) {
			overrides[name] = value
		} else {
			others[name] = value
		}
	}
	err := a.core.CheckGroupConfig(overrides)
	if err == nil {
		err = a.setGroupConfig(group, overrides)
	}
	a.mu.Unlock()
	if err != nil {
		return fmt.Errorf("kfakeext: group %q: %w", group, err)
	}
	if len(others) > 0 {
		c.SetGroupConfigs(group, others)
	}
	return nil
}

// DescribeStreamsGroup describes a group as StreamsGroupDescribe does, without
// a request. The error code in it says if there is none.
func (c *Cluster) DescribeStreamsGroup(group string) kmsg.StreamsGroupDescribeResponseGroup {
	c.adapter.mu.Lock()
	defer c.adapter.mu.Unlock()
	return c.adapter.core.Describe(group, nil)
}

// StreamsGroupState is the state of a group, if there is such a group.
func (c *Cluster) StreamsGroupState(group string) (coordinator.State, bool) {
	c.adapter.mu.Lock()
	defer c.adapter.mu.Unlock()
	return c.adapter.core.State(group)
}

// Explain says where a task of a group is and why: what it waits for, for whom, and
// until when at the latest. The id is that of the group's topology, which members
// with an older one may know by another. ok is false if there is no such group.
func (c *Cluster) Explain(group string, task topology.TaskID) (e coordinator.Explanation, ok bool) {
	c.adapter.mu.Lock()
	defer c.adapter.mu.Unlock()
	return c.adapter.core.Explain(c.adapter.now(), group, task)
}

func (c *Cluster) closed() bool { return c.adapter.isClosed() }
