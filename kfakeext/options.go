package kfakeext

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/coordinator"
	"github.com/streamsgroup/streamsgroup/coordinator/assignor"
)

// Opt is an option of [NewCluster], [Start] and [Attach].
type Opt interface{ apply(*config) error }

type opt struct {
	fn func(*config) error
	// own is the option's name if it configures the cluster itself, so that
	// [Attach] cannot take it.
	own string
}

func (o opt) apply(c *config) error {
	if c.attached && o.own != "" {
		return fmt.Errorf("kfakeext: option %s configures a cluster, and this one exists already: use kfake's own option", o.own)
	}
	return o.fn(c)
}

type config struct {
	attached bool

	policy    coordinator.Policy
	broker    map[string]string // of the coordinator
	assignors []assignor.Assignor
	authorize func(Caller, kmsg.ACLOperation, kmsg.ACLResourceType, string) bool
	superuser *superuser
	onEvent   func(coordinator.Event)
	logger    kgo.Logger

	descriptions DescriptionStore
	noJavaEdits  bool

	fake      []kfake.Opt
	configs   map[string]string // all broker configs
	topics    []seed
	nodes     int
	ports     []int
	host      string
	network   *kfake.VirtualNetwork
	inProcess bool
	tls       *tls.Config
	dir       string
}

type seed struct {
	name       string
	partitions int32
}

func newConfig(attached bool, opts []Opt) (*config, error) {
	c := &config{attached: attached, broker: make(map[string]string), configs: make(map[string]string)}
	for _, o := range opts {
		if o == nil {
			continue
		}
		if err := o.apply(c); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// Policy chooses between KIP-1071 with what goes beyond Kafka, the default, and
// Kafka's own behaviour.
func Policy(p coordinator.Policy) Opt {
	return opt{fn: func(c *config) error {
		if p != coordinator.KIP1071 && p != coordinator.Kafka {
			return fmt.Errorf("kfakeext: Policy(%d): want coordinator.KIP1071 or coordinator.Kafka", p)
		}
		c.policy = p
		return nil
	}}
}

// BrokerConfig sets a broker config by its Kafka name: those of streams groups
// (group.streams.*, group.coordinator.rebalance.protocols) and all that kfake
// knows. A value that the coordinator refuses is an error of [NewCluster].
// With [Attach] only those of streams groups can be set.
func BrokerConfig(name, value string) Opt {
	return opt{fn: func(c *config) error {
		ours := strings.HasPrefix(name, "group.streams.") || name == "group.coordinator.rebalance.protocols"
		if !ours && c.attached {
			return fmt.Errorf("kfakeext: BrokerConfig(%q): the cluster exists already: use kfake.BrokerConfigs", name)
		}
		if ours {
			c.broker[name] = value
		}
		c.configs[name] = value
		return nil
	}}
}

// Assignor registers task assignors in addition to the built-in ones, for the
// group config streams.assignor.name.
func Assignor(as ...assignor.Assignor) Opt {
	return opt{fn: func(c *config) error {
		c.assignors = append(c.assignors, as...)
		return nil
	}}
}

// OnEvent has fn called for every event of the coordinator, in order. fn runs
// under the coordinator's lock, on the goroutine of kfake's control function or
// of the coordinator's timer: it must not block, and must not call the cluster.
// Hand events that need work to a goroutine of your own.
func OnEvent(fn func(coordinator.Event)) Opt {
	return opt{fn: func(c *config) error {
		if prior := c.onEvent; prior != nil {
			c.onEvent = func(e coordinator.Event) { prior(e); fn(e) }
			return nil
		}
		c.onEvent = fn
		return nil
	}}
}

// Authorize decides who may do what with streams groups, and it decides alone:
// kfake's ACLs ([kfake.EnableACLs]) are then not asked for requests that the
// coordinator answers, while kfake goes on to apply them to its own. Without
// this option the ACLs of the cluster govern both. fn may run under the
// coordinator's lock: it must not block, and must not call the cluster. The
// resource name of the cluster is "kafka-cluster".
func Authorize(fn func(who Caller, op kmsg.ACLOperation, kind kmsg.ACLResourceType, name string) bool) Opt {
	return opt{fn: func(c *config) error {
		c.authorize = fn
		return nil
	}}
}

// Superuser names a superuser of a cluster with [kfake.EnableSASL]. The
// mechanism is PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512. [NewCluster] and [Start]
// make it one, as [kfake.Superuser] does; with [Attach] it must be one already.
//
// The coordinator itself authenticates as this user, in-process. It has to in
// order to list the topics of the cluster for source patterns, to create
// internal topics with a replication factor, and to read the ACLs that the
// cluster starts with ([kfake.User], [DataDir]). Without the option it tries
// kfake's default, admin with password admin and SCRAM-SHA-256. If that fails as
// well, source patterns match nothing, internal topics have the replication
// factor of the cluster, and ACLs are known from the moment when the first user
// has connected who may describe them; until then users that are bound by ACLs
// are refused.
func Superuser(mechanism, user, pass string) Opt {
	return opt{fn: func(c *config) error {
		switch mechanism {
		case "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512":
		default:
			return fmt.Errorf("kfakeext: Superuser(%q, %q): want PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512", mechanism, user)
		}
		if c.superuser == nil {
			c.superuser = &superuser{mechanism, user, pass}
		}
		c.fake = append(c.fake, kfake.Superuser(mechanism, user, pass))
		return nil
	}}
}

// Logger logs what kfake and the coordinator have to say. The default is
// silence.
func Logger(l kgo.Logger) Opt {
	return opt{fn: func(c *config) error {
		c.logger = l
		return nil
	}}
}

// KfakeOpts passes options on to [kfake.NewCluster]. They may not touch what
// options of this package set: listeners, ports, broker configs of streams
// groups, TLS.
func KfakeOpts(opts ...kfake.Opt) Opt {
	return opt{own: "KfakeOpts", fn: func(c *config) error {
		c.fake = append(c.fake, opts...)
		return nil
	}}
}

// Topic creates a topic at the start.
func Topic(name string, partitions int32) Opt {
	return opt{own: "Topic", fn: func(c *config) error {
		if name == "" || partitions < 1 {
			return fmt.Errorf("kfakeext: Topic(%q, %d): want a name and at least one partition", name, partitions)
		}
		c.topics = append(c.topics, seed{name, partitions})
		return nil
	}}
}

// Nodes sets the number of nodes, 3 by default (1 for [Start]). Their ids are 0
// to n-1.
func Nodes(n int) Opt {
	return opt{own: "Nodes", fn: func(c *config) error {
		if n < 1 {
			return fmt.Errorf("kfakeext: Nodes(%d): want at least one", n)
		}
		c.nodes = n
		return nil
	}}
}

// Ports sets the port of each node, and with it the number of nodes. By default
// ports are free ones that the system chooses.
func Ports(ports ...int) Opt {
	return opt{own: "Ports", fn: func(c *config) error {
		for _, p := range ports {
			if p < 1 || p > 65535 {
				return fmt.Errorf("kfakeext: Ports(%d): want 1 to 65535", p)
			}
		}
		c.ports = ports
		return nil
	}}
}

// Addr sets the host and port of the first node; further nodes take the ports
// that follow. A host that stands for all interfaces is advertised as
// 127.0.0.1.
func Addr(hostport string) Opt {
	return opt{own: "Addr", fn: func(c *config) error {
		host, port, err := net.SplitHostPort(hostport)
		if err != nil {
			return fmt.Errorf("kfakeext: Addr(%q): %w: want host:port", hostport, err)
		}
		n, err := strconv.Atoi(port)
		if err != nil || n < 1 || n > 65535 {
			return fmt.Errorf("kfakeext: Addr(%q): want a port from 1 to 65535", hostport)
		}
		c.host, c.ports = host, []int{n}
		return nil
	}}
}

// VirtualNetwork has the nodes listen on kfake's network within the process, on
// ports from 9092 up unless [Ports] says otherwise. It is for tests in a bubble
// of testing/synctest whose clients dial that network.
func VirtualNetwork(vn *kfake.VirtualNetwork) Opt {
	return opt{own: "VirtualNetwork", fn: func(c *config) error {
		c.network, c.inProcess = vn, false
		return nil
	}}
}

// InProcess has the nodes listen nowhere: clients come in through
// [Cluster.DialContext], which [Cluster.KgoOpts] uses. It is safe in a bubble of
// testing/synctest, and the default of [Start].
func InProcess() Opt {
	return opt{own: "InProcess", fn: func(c *config) error {
		c.inProcess, c.network = true, nil
		return nil
	}}
}

// TCP has the nodes listen on the loopback interface: the default, except of
// [Start]. Do not use it in a bubble of testing/synctest.
func TCP() Opt {
	return opt{own: "TCP", fn: func(c *config) error {
		c.inProcess, c.network = false, nil
		return nil
	}}
}

// TLS has the nodes speak TLS. In-process connections stay plain. Use it in
// place of [kfake.TLS], which would hide the requests from the coordinator.
func TLS(cfg *tls.Config) Opt {
	return opt{own: "TLS", fn: func(c *config) error {
		c.tls = cfg
		return nil
	}}
}

// DataDir keeps the cluster in a directory: what kfake keeps there (topics,
// records, committed offsets, groups of other types) and the streams groups with
// their configs. A cluster that is started with the directory again goes on
// where the last one ended: members keep their epochs and tasks, and do not join
// again.
//
// What has been answered is never lost if the process is killed, with one
// exception of kfake's: it writes the deletion of a group down when it is shut
// down, so that the offsets of a deleted group may be back. If the machine goes down, changes of streams groups may be lost that were answered within the
// last second, none of them in part.
//
// [NewCluster] fails with [ErrDataDirInUse] if another cluster has the directory,
// and with a [*CorruptLogError] if the disk has lost what was on it. With
// [Attach], pass the directory to [kfake.DataDir] too.
func DataDir(dir string) Opt {
	return opt{fn: func(c *config) error {
		if dir == "" {
			return errors.New("kfakeext: DataDir(\"\"): want the path of a directory")
		}
		c.dir = dir
		return nil
	}}
}
