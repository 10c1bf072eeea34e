package kfakeext

import (
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/coordinator"
)

// control is the signature of kfake's control functions.
type control = func(kmsg.Request) (kmsg.Response, error, bool)

// adapter drives the coordinator over a kfake cluster: one control function,
// one lock, one timer. Every request has the same shape: ask the cluster without
// the lock; take the lock, decide, append, apply, release; then act on the
// cluster. kfake runs control functions one at a time, so what only they touch
// needs no lock.
type adapter struct {
	fake      *kfake.Cluster
	tap       *Tap
	logger    kgo.Logger
	authorize func(Caller, kmsg.ACLOperation, kmsg.ACLResourceType, string) bool
	superuser *superuser // as configured
	policy    coordinator.Policy
	creator   topicCreator
	onEvent   func(coordinator.Event)
	store     DescriptionStore // nil if there is none
	// noJavaEdits is whether responses pass that Java clients do not understand.
	noJavaEdits bool
	// What DescribeConfigs says of the levels below a group: the configs that the
	// broker was started with, by name, and the defaults, as of a group.
	static   map[string]string
	defaults []coordinator.ConfigEntry
	// brokerDefaults are the same of a broker.
	brokerDefaults []coordinator.ConfigEntry
	start          time.Time

	kept       atomic.Bool // KeepControl has been called; it is sticky
	intercepts atomic.Pointer[[]control]
	features   features
	topics     topicCache
	own        own
	lister     lister
	sweeper    sweeper
	creating   creations
	acls       aclMirror
	anonymous  atomic.Int32 // the standing of those who need not authenticate

	// Of the control function.
	heartbeatAccess access
	topicGen        uint64 // grows with every request that may change topics
	placeGen        uint64 // grows with every hint that coordinators moved
	listed          listing

	mu     sync.Mutex
	closed bool
	// dynamic are the broker configs that have been set at run time.
	dynamic map[string]bool
	core    *coordinator.Coordinator
	// Of the core, which asks under the lock.
	logEnds logEnds
	log     recordLog
	places  map[string]*place
	kinds   map[string]bool // ids of consumer and share groups of kfake
	// pushing are the groups whose description is being pushed or removed, until
	// the channel closes.
	pushing map[string]chan struct{}
	// producers are, by transactional id, those that have begun last.
	producers map[string]producer
	undecided map[string]map[string]undecided // by group and transactional id
	timer     timer
	req       coordinator.Request
	fx        coordinator.Effects
	// Movements on behalf of test code, outside of the control function.
	moved atomic.Uint64
}

func newAdapter(fake *kfake.Cluster, tap *Tap, cfg *config, log recordLog) (*adapter, error) {
	a := &adapter{
		fake:      fake,
		tap:       tap,
		logger:    cfg.logger,
		authorize: cfg.authorize,
		superuser: cfg.superuser,
		policy:    cfg.policy,
		onEvent:   cfg.onEvent,
		store:     cfg.descriptions,
		start:     time.Now(),
		log:       log,
		places:    make(map[string]*place),
		kinds:     make(map[string]bool),
		dynamic:   make(map[string]bool),
		pushing:   make(map[string]chan struct{}),
		producers: make(map[string]producer),
		undecided: make(map[string]map[string]undecided),
	}
	a.logEnds.fake = fake
	core, err := coordinator.New(coordinator.Config{
		Policy: cfg.policy, Broker: cfg.broker, Assignors: cfg.assignors, Descriptions: cfg.descriptions != nil, LogEnds: &a.logEnds,
	})
	if err != nil {
		return nil, err
	}
	a.core = core
	a.noJavaEdits = cfg.noJavaEdits
	a.static = maps.Clone(cfg.broker)
	plain, err := coordinator.New(coordinator.Config{Policy: cfg.policy})
	if err != nil {
		return nil, err
	}
	a.defaults, a.brokerDefaults = plain.GroupConfigs(""), plain.BrokerConfigs()
	a.topics.init(fake)
	a.own.init(tap)
	a.sweeper.init(cfg.configs)
	a.creator = a.createTopics
	a.acls.missing = a.missingACLs
	a.features.reset()
	return a, nil
}

// now is the time of the cluster. The monotonic part starts with the adapter.
func (a *adapter) now() coordinator.Now {
	now := time.Now()
	return coordinator.Now{Mono: now.Sub(a.start), WallMillis: now.UnixMilli()}
}

// control is the control function. It never panics: that would end the process.
func (a *adapter) control(req kmsg.Request) (resp kmsg.Response, err error, handled bool) { //nolint:revive // kfake's signature
	if _, ok := req.(*kmsg.StreamsGroupHeartbeatRequest); ok {
		growStack(false)
	}
	if !a.kept.Load() {
		a.fake.KeepControl()
		a.kept.Store(true)
	}
	defer func() {
		if p := recover(); p != nil {
			a.logf(kgo.LogLevelError, "request of key %d: panic: %v", req.Key(), p)
			resp, err, handled = nil, fmt.Errorf("kfakeext: request of key %d: panic: %v", req.Key(), p), true
		}
	}()
	if fns := a.intercepts.Load(); fns != nil {
		for _, fn := range *fns {
			if resp, err, handled := fn(req); handled {
				return resp, err, true
			}
		}
	}
	return a.route(req)
}

// route hands a request to whoever answers or prepares it.
func (a *adapter) route(req kmsg.Request) (kmsg.Response, error, bool) { //nolint:revive // kfake's signature
	s := sender{}
	switch req.(type) {
	case *kmsg.ProduceRequest, *kmsg.FetchRequest: // the bulk, and none of ours
		return nil, nil, false
	default:
		s.who, s.corr = a.tap.identify(req)
	}
	if a.tap.sasl.Load() && !s.authenticated() && !a.harmless(req) {
		return nil, nil, false // kfake closes the connection
	}
	if group, ok := memberGroup(req); ok && a.refusedByCluster(s, group) {
		return nil, nil, false
	}
	switch r := req.(type) {
	case *kmsg.StreamsGroupHeartbeatRequest:
		return a.heartbeat(s, r)
	case *kmsg.StreamsGroupDescribeRequest:
		return a.describe(s, r)
	case *kmsg.StreamsGroupTopologyDescriptionUpdateRequest:
		return a.topologyDescription(s, r)
	case *kmsg.ApiVersionsRequest:
		a.apiVersions(s, r)
	case *kmsg.UpdateFeaturesRequest:
		a.updateFeatures(s, r)

	case *kmsg.MetadataRequest:
		if r.AllowAutoTopicCreation {
			a.topicGen++
		}
	case *kmsg.CreateTopicsRequest:
		a.topicGen++
		a.createTopicsEdit(s, r)
	case *kmsg.DeleteTopicsRequest, *kmsg.CreatePartitionsRequest, *kmsg.AlterPartitionAssignmentsRequest:
		a.topicGen++
	case *kmsg.DescribeTopicPartitionsRequest:
		a.describeTopicPartitionsEdit(s, r)
	case *kmsg.OffsetForLeaderEpochRequest:
		a.offsetForLeaderEpochEdit(s, r)
	case *kmsg.InitProducerIDRequest:
		return a.initProducerID(s, r)
	case *kmsg.EndTxnRequest:
		a.decided(r.TransactionalID, r.ProducerEpoch)
	case *kmsg.FindCoordinatorRequest:
		a.placeGen++

	case *kmsg.OffsetCommitRequest:
		return a.offsetCommit(s, r)
	case *kmsg.TxnOffsetCommitRequest:
		return a.txnOffsetCommit(s, r)
	case *kmsg.OffsetFetchRequest:
		return a.offsetFetch(s, r)
	case *kmsg.OffsetDeleteRequest:
		a.offsetDelete(r)

	case *kmsg.ListGroupsRequest:
		a.listGroups(s, r)
	case *kmsg.DescribeGroupsRequest:
		a.describeGroups(s, r)
	case *kmsg.ConsumerGroupDescribeRequest:
		a.consumerGroupDescribe(s, r)
	case *kmsg.ShareGroupDescribeRequest:
		a.shareGroupDescribe(s, r)
	case *kmsg.DeleteGroupsRequest:
		return a.deleteGroups(s, r)

	case *kmsg.IncrementalAlterConfigsRequest:
		a.incrementalAlterConfigs(s, r)
	case *kmsg.AlterConfigsRequest:
		return a.alterConfigs(s, r)
	case *kmsg.DescribeConfigsRequest:
		a.describeConfigs(s, r)
	case *kmsg.ListConfigResourcesRequest:
		a.listConfigResources(s, r)

	case *kmsg.JoinGroupRequest:
		return a.joinGroup(s, r)
	case *kmsg.SyncGroupRequest:
		return a.syncGroup(r)
	case *kmsg.HeartbeatRequest:
		return a.classicHeartbeat(r)
	case *kmsg.LeaveGroupRequest:
		return a.leaveGroup(r)
	case *kmsg.ConsumerGroupHeartbeatRequest:
		return a.consumerHeartbeat(r)
	case *kmsg.ShareGroupHeartbeatRequest:
		return a.shareHeartbeat(r)
	}
	return nil, nil, false
}

// harmless requests are let through to kfake unchanged in any case, so it does
// not matter who sends them.
func (a *adapter) harmless(req kmsg.Request) bool {
	switch req.(type) {
	case *kmsg.ApiVersionsRequest, *kmsg.MetadataRequest, *kmsg.FindCoordinatorRequest, *kmsg.OffsetDeleteRequest,
		*kmsg.CreateTopicsRequest, *kmsg.DeleteTopicsRequest, *kmsg.CreatePartitionsRequest, *kmsg.AlterPartitionAssignmentsRequest:
		return true
	}
	return false
}

// commit makes a decision durable and then part of the state. The error is that
// of the log; nothing has happened then. The lock is held.
func (a *adapter) commit(now coordinator.Now, fx *coordinator.Effects) error {
	if len(fx.Records) > 0 {
		if err := a.log.append(fx.Records); err != nil {
			a.core.Discard(now, fx)
			return err
		}
	}
	a.core.Apply(now, fx)
	if a.onEvent != nil {
		for _, e := range fx.Events {
			a.onEvent(e)
		}
	}
	return nil
}

// observe follows requests whose response is edited although they cannot carry
// the identity of their sender. It is called while the request is read.
func (a *adapter) observe(who *caller, req kmsg.Request) func(kmsg.Response) {
	switch r := req.(type) {
	case *kmsg.SASLHandshakeRequest:
		return who.conn.handshake(r.Mechanism)
	case *kmsg.SASLAuthenticateRequest:
		return who.conn.authenticate(r.SASLAuthBytes, func() { a.authenticated(who.conn) })
	case *kmsg.CreateACLsRequest:
		return a.acls.created(r)
	case *kmsg.DeleteACLsRequest:
		return a.acls.deleted
	case *kmsg.OffsetDeleteRequest:
		return a.offsetDeleted(r)
	case *kmsg.OffsetFetchRequest:
		return offsetsFetched(r)
	case *kmsg.ListGroupsRequest:
		if a.alone() {
			return a.groupsListed(sender{who: who}, r, func(string) bool { return true })
		}
	case *kmsg.DescribeGroupsRequest:
		if a.alone() {
			return a.groupsDescribed(sender{who: who}, r, a.has)
		}
	case *kmsg.DescribeConfigsRequest:
		return a.configsDescribed(r)
	}
	return nil
}

// stop ends the timer and our own requests, and closes the log. It may be called
// from anywhere, any number of times.
func (a *adapter) stop() {
	a.mu.Lock()
	a.closed = true
	a.own.cancel()
	a.timer.stop()
	if a.sweeper.timer != nil {
		a.sweeper.timer.Stop()
	}
	log := a.log
	a.mu.Unlock()
	log.close()
}

func (a *adapter) isClosed() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.closed
}

func (a *adapter) logf(level kgo.LogLevel, format string, args ...any) {
	if a.logger != nil && level <= a.logger.Level() {
		a.logger.Log(level, fmt.Sprintf(format, args...))
	}
}
