package kfakeext

import (
	"errors"
	"fmt"
	"io"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// probe finds out what kfake keeps to itself: what its versions are capped at,
// whether it wants SASL, which groups it has loaded from its directory, and what
// its ACLs are. It asks each node over an in-process connection.
func (a *adapter) probe(addrs []string) error {
	for _, addr := range addrs {
		if err := a.probeNode(addr); err != nil {
			return err
		}
	}
	return nil
}

func (a *adapter) probeNode(addr string) error {
	conn, err := a.own.connect(addr, nil)
	if err != nil {
		return fmt.Errorf("kfakeext: %w: open the cluster's listeners through the tap (kfake.ListenFn)", err)
	}
	defer func() { _ = conn.Close() }()
	listVersion, err := a.learnVersions(conn)
	if err != nil {
		return fmt.Errorf("kfakeext: cannot learn the cluster's features from %s: %w: if it uses kfake.TLS, use Tap.ServeTLS in its place", addr, err)
	}
	err = a.learnGroups(conn, listVersion)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrClosedPipe) {
		// kfake closes a connection that asks for anything before it has
		// authenticated.
		a.tap.sasl.Store(true)
		return a.probeAs(addr, listVersion)
	}
	if err == nil {
		err = a.learnACLs(conn)
	}
	if err != nil {
		return fmt.Errorf("kfakeext: cannot learn the cluster's groups and ACLs from %s: %w", addr, err)
	}
	return nil
}

// probeAs goes on as a superuser, if one is known.
func (a *adapter) probeAs(addr string, listVersion int16) error {
	user := a.superuser
	if user == nil {
		user = &kfakeAdmin
	}
	conn, err := a.own.connect(addr, user)
	if err != nil {
		if a.superuser == nil {
			a.logf(kgo.LogLevelInfo, "the coordinator has no credentials for its own requests, so it cannot resolve source patterns: name a superuser with the option Superuser")
			return nil
		}
		return fmt.Errorf("kfakeext: Superuser(%q, %q): %w", user.mechanism, user.name, err)
	}
	defer func() { _ = conn.Close() }()
	a.own.user = user
	// The ACLs have come with the answers to the questions of the tap.
	return a.learnGroups(conn, listVersion)
}

// learnVersions returns the highest version of ListGroups.
func (a *adapter) learnVersions(conn *ownConn) (listVersion int16, err error) {
	versions := kmsg.NewPtrApiVersionsRequest()
	versions.Version = 3
	versions.ClientSoftwareName, versions.ClientSoftwareVersion = ownClientID, "0"
	resp, err := conn.request(versions)
	if err != nil {
		return 0, err
	}
	r := resp.(*kmsg.ApiVersionsResponse)
	if r.ErrorCode != 0 {
		a.features.supported.Store(false) // too old a cap to have the feature
		return 0, nil
	}
	a.features.learn(r)
	for _, k := range r.ApiKeys {
		if k.ApiKey == kmsg.ListGroups.Int16() {
			listVersion = min(5, k.MaxVersion)
		}
	}
	return listVersion, nil
}

func (a *adapter) learnGroups(conn *ownConn, version int16) error {
	list := kmsg.NewPtrListGroupsRequest()
	list.Version = version
	resp, err := conn.request(list)
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, g := range resp.(*kmsg.ListGroupsResponse).Groups {
		if g.GroupType == "consumer" || g.GroupType == "share" {
			a.kinds[g.Group] = true
		}
	}
	return nil
}

// learnACLs reads the ACLs of a cluster without SASL, and finds out whether they
// bind everybody.
func (a *adapter) learnACLs(conn *ownConn) error {
	if a.authorize != nil || !a.features.supported.Load() {
		return nil
	}
	resp, err := conn.request(describeACLs())
	if err != nil {
		return err
	}
	a.acls.learn(resp.(*kmsg.DescribeACLsResponse))
	if resp, err = conn.request(describeCluster()); err != nil {
		return err
	}
	a.anonymous.Store(int32(a.acls.standing(anonymous, hostOf(noHost), resp.(*kmsg.DescribeClusterResponse))))
	return nil
}
