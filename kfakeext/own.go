package kfakeext

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// ownTimeout bounds a request of our own: Kafka's request.timeout.ms.
const ownTimeout = 30 * time.Second

// own is the coordinator as a client of its cluster, over in-process
// connections: there is no other way to list all topics, or to create one with a
// replication factor.
type own struct {
	tap  *Tap
	user *superuser // nil if the cluster wants no SASL, or we know nobody

	ctx    context.Context
	cancel context.CancelFunc
	// Goroutines are started under the adapter's lock, and none after stop.
	running sync.WaitGroup
}

func (o *own) init(tap *Tap) {
	o.tap = tap
	o.ctx, o.cancel = context.WithCancel(context.Background())
}

// able is whether the cluster will take our requests.
func (o *own) able() bool { return o.user != nil || !o.tap.sasl.Load() }

// superuser is a user on whose behalf the coordinator asks the cluster.
type superuser struct{ mechanism, name, pass string }

// kfakeAdmin is the superuser of a kfake cluster that has been given no user.
var kfakeAdmin = superuser{"SCRAM-SHA-256", "admin", "admin"}

func (u *superuser) sasl() sasl.Mechanism {
	switch u.mechanism {
	case "SCRAM-SHA-256":
		return scram.Auth{User: u.name, Pass: u.pass}.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		return scram.Auth{User: u.name, Pass: u.pass}.AsSha512Mechanism()
	}
	return plain.Auth{User: u.name, Pass: u.pass}.AsMechanism()
}

// ownConn is one of our connections. It is closed with the coordinator.
type ownConn struct {
	net.Conn
	release func() bool
}

func (c *ownConn) Close() error {
	c.release()
	return c.Conn.Close()
}

// connect connects to a node and authenticates as user, if there is one.
func (o *own) connect(addr string, user *superuser) (*ownConn, error) {
	conn, err := o.tap.DialContext(o.ctx, "", addr)
	if err != nil {
		return nil, err
	}
	c := &ownConn{Conn: conn, release: context.AfterFunc(o.ctx, func() { _ = conn.Close() })}
	if user == nil {
		return c, nil
	}
	if err := c.authenticate(o.ctx, addr, user); err != nil {
		_ = c.Close()
		return nil, fmt.Errorf("authenticate as %s with %s: %w", user.name, user.mechanism, err)
	}
	return c, nil
}

func (c *ownConn) authenticate(ctx context.Context, addr string, user *superuser) error {
	handshake := kmsg.NewPtrSASLHandshakeRequest()
	handshake.Version, handshake.Mechanism = 1, user.mechanism
	resp, err := c.request(handshake)
	if err != nil {
		return err
	}
	if err := kerr.ErrorForCode(resp.(*kmsg.SASLHandshakeResponse).ErrorCode); err != nil {
		return err
	}
	session, message, err := user.sasl().Authenticate(ctx, addr)
	for done := false; !done && err == nil; {
		auth := kmsg.NewPtrSASLAuthenticateRequest()
		auth.Version, auth.SASLAuthBytes = 1, message
		if resp, err = c.request(auth); err != nil {
			return err
		}
		r := resp.(*kmsg.SASLAuthenticateResponse)
		if err := kerr.ErrorForCode(r.ErrorCode); err != nil {
			return err
		}
		done, message, err = session.Challenge(r.SASLAuthBytes)
	}
	return err
}

// request sends one request and reads the response, within [ownTimeout].
func (c *ownConn) request(req kmsg.Request) (kmsg.Response, error) {
	_ = c.SetDeadline(time.Now().Add(ownTimeout)) // pipes have deadlines
	defer func() { _ = c.SetDeadline(time.Time{}) }()
	const corr = 1
	formatter := kmsg.NewRequestFormatter(kmsg.FormatterClientID(ownClientID))
	if _, err := c.Write(formatter.AppendRequest(nil, req, corr)); err != nil {
		return nil, err
	}
	var size [4]byte
	if _, err := io.ReadFull(c, size[:]); err != nil {
		return nil, err
	}
	body := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(c, body); err != nil {
		return nil, err
	}
	resp := req.ResponseKind()
	skip := 4
	if resp.IsFlexible() && req.Key() != kmsg.ApiVersions.Int16() {
		skip++
	}
	if req.Key() == kmsg.ApiVersions.Int16() && len(body) >= 6 && int16(binary.BigEndian.Uint16(body[4:])) != 0 {
		resp.SetVersion(0)
	}
	if len(body) < skip {
		return nil, io.ErrUnexpectedEOF
	}
	return resp, resp.ReadFrom(body[skip:])
}

// ownClientID is the client id of our own requests.
const ownClientID = "kfakeext"

// any connects to some node.
func (o *own) any() (*ownConn, error) {
	err := errors.New("the cluster has no node")
	for _, addr := range o.tap.addresses() {
		var conn *ownConn
		if conn, err = o.connect(addr, o.user); err == nil {
			return conn, nil
		}
	}
	return nil, err
}

// createTopics creates topics with one request to the controller. It returns why
// a topic was not created, by name.
func (o *own) createTopics(req *kmsg.CreateTopicsRequest) map[string]string {
	resp, err := o.askController(req)
	failed := make(map[string]string)
	if err != nil {
		for i := range req.Topics {
			failed[req.Topics[i].Topic] = "the request failed: " + err.Error()
		}
		return failed
	}
	for _, t := range resp.Topics {
		if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
			failed[t.Topic] = err.Error()
			if t.ErrorMessage != nil {
				failed[t.Topic] += " (" + *t.ErrorMessage + ")"
			}
		}
	}
	return failed
}

// askController tries each node until one says that it is the controller.
func (o *own) askController(req *kmsg.CreateTopicsRequest) (*kmsg.CreateTopicsResponse, error) {
	err := error(kerr.NotController)
	for _, addr := range o.tap.addresses() {
		var conn *ownConn
		if conn, err = o.connect(addr, o.user); err != nil {
			continue
		}
		resp, failure := conn.request(req)
		_ = conn.Close()
		if failure != nil {
			return nil, failure // it may have been the controller
		}
		r := resp.(*kmsg.CreateTopicsResponse)
		if len(r.Topics) > 0 && r.Topics[0].ErrorCode == kerr.NotController.Code {
			err = kerr.NotController
			continue
		}
		return r, nil
	}
	return nil, err
}

// hostOf is a host as ACLs name it.
func hostOf(host string) string { return strings.TrimPrefix(host, "/") }
