package kfakeext

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// probe finds out what kfake keeps to itself: what its versions are capped at,
// whether it wants SASL, and which groups it has loaded from its directory. It
// asks each node over an in-process connection.
func (a *adapter) probe(addrs []string) error {
	for _, addr := range addrs {
		versions := kmsg.NewPtrApiVersionsRequest()
		versions.Version = 3
		versions.ClientSoftwareName, versions.ClientSoftwareVersion = "kfakeext", "0"
		list := kmsg.NewPtrListGroupsRequest()
		list.Version = 5
		conn, err := a.tap.DialContext(context.Background(), "", addr)
		if err != nil {
			return fmt.Errorf("kfakeext: %w: open the cluster's listeners through the tap (kfake.ListenFn)", err)
		}
		err = a.ask(conn, versions, list)
		_ = conn.Close()
		if err != nil {
			return fmt.Errorf("kfakeext: cannot learn the cluster's features from %s: %w: if it uses kfake.TLS, use Tap.ServeTLS in its place", addr, err)
		}
	}
	return nil
}

func (a *adapter) ask(conn net.Conn, versions *kmsg.ApiVersionsRequest, list *kmsg.ListGroupsRequest) error {
	resp, err := roundTrip(conn, versions)
	if err != nil {
		return err
	}
	if r := resp.(*kmsg.ApiVersionsResponse); r.ErrorCode == 0 {
		a.features.learn(r)
		for _, k := range r.ApiKeys {
			if k.ApiKey == list.Key() {
				list.Version = min(list.Version, k.MaxVersion)
			}
		}
	} else {
		a.features.supported.Store(false) // too old a cap to have the feature
		list.Version = 0
	}
	resp, err = roundTrip(conn, list)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrClosedPipe) {
		// kfake closes a connection that asks for anything before it has
		// authenticated.
		a.tap.sasl.Store(true)
		return nil
	}
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

// roundTrip sends one request and reads the response.
func roundTrip(conn net.Conn, req kmsg.Request) (kmsg.Response, error) {
	const corr = 1
	formatter := kmsg.NewRequestFormatter(kmsg.FormatterClientID("kfakeext"))
	if _, err := conn.Write(formatter.AppendRequest(nil, req, corr)); err != nil {
		return nil, err
	}
	var size [4]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return nil, err
	}
	body := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(conn, body); err != nil {
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
