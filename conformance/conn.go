package conformance

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// answerWithin is how long a broker may take for one answer.
const answerWithin = 30 * time.Second

// maxAnswer bounds what is read as one answer.
const maxAnswer = 64 << 20

// conn is one connection: a request, its answer, the next request.
type conn struct {
	net.Conn
	corr int32
	fmt  *kmsg.RequestFormatter
	max  map[int16]int16 // highest version by key; nil before ApiVersions
}

func dial(ctx context.Context, t Target, addr, clientID string) (*conn, error) {
	raw, err := t.Dial(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("cannot connect to %s: %w", addr, err)
	}
	c := &conn{Conn: raw, fmt: kmsg.NewRequestFormatter(kmsg.FormatterClientID(clientID))}
	versions := kmsg.NewPtrApiVersionsRequest()
	versions.ClientSoftwareName, versions.ClientSoftwareVersion = "streamsgroup-conformance", "1"
	versions.SetVersion(3)
	kresp, err := c.roundTrip(ctx, versions)
	if err != nil {
		_ = raw.Close()
		return nil, fmt.Errorf("ApiVersions at %s: %w", addr, err)
	}
	resp := kresp.(*kmsg.ApiVersionsResponse)
	c.max = make(map[int16]int16, len(resp.ApiKeys))
	for _, k := range resp.ApiKeys {
		c.max[k.ApiKey] = k.MaxVersion
	}
	return c, nil
}

// send chooses the highest version that both sides have, unless the request
// was pinned to one, and returns the answer.
func (c *conn) send(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	if p, ok := req.(pinned); ok {
		p.SetVersion(p.version)
		return c.roundTrip(ctx, p.Request)
	}
	highest, ok := c.max[req.Key()]
	if !ok {
		return nil, fmt.Errorf("the broker does not have %s (key %d)", kmsg.NameForKey(req.Key()), req.Key())
	}
	req.SetVersion(min(highest, req.MaxVersion()))
	return c.roundTrip(ctx, req)
}

// pinned is a request to be sent in one version.
type pinned struct {
	kmsg.Request
	version int16
}

func (c *conn) roundTrip(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	deadline := time.Now().Add(answerWithin)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	if err := c.SetDeadline(deadline); err != nil {
		return nil, err
	}
	c.corr++
	if _, err := c.Write(c.fmt.AppendRequest(nil, req, c.corr)); err != nil {
		return nil, fmt.Errorf("%s: write: %w", kmsg.NameForKey(req.Key()), err)
	}
	var head [8]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return nil, fmt.Errorf("%s: no answer: %w", kmsg.NameForKey(req.Key()), err)
	}
	size := int32(binary.BigEndian.Uint32(head[:4]))
	if size < 4 || size > maxAnswer {
		return nil, fmt.Errorf("%s: an answer of %d bytes", kmsg.NameForKey(req.Key()), size)
	}
	if corr := int32(binary.BigEndian.Uint32(head[4:])); corr != c.corr {
		return nil, fmt.Errorf("%s: the answer has correlation id %d, the request had %d", kmsg.NameForKey(req.Key()), corr, c.corr)
	}
	body := make([]byte, size-4)
	if _, err := io.ReadFull(c, body); err != nil {
		return nil, fmt.Errorf("%s: half an answer: %w", kmsg.NameForKey(req.Key()), err)
	}
	resp := req.ResponseKind()
	if resp.IsFlexible() && req.Key() != int16(kmsg.ApiVersions) {
		var err error
		if body, err = skipTags(body); err != nil {
			return nil, fmt.Errorf("%s: header of the answer: %w", kmsg.NameForKey(req.Key()), err)
		}
	}
	if err := resp.ReadFrom(body); err != nil {
		return nil, fmt.Errorf("%s: the answer cannot be decoded: %w", kmsg.NameForKey(req.Key()), err)
	}
	return resp, nil
}

var errTags = errors.New("malformed tagged fields")

// skipTags steps over the tagged fields of a response header.
func skipTags(b []byte) ([]byte, error) {
	count, n := binary.Uvarint(b)
	if n <= 0 {
		return nil, errTags
	}
	b = b[n:]
	for range count {
		for part := range 2 { // the tag, then the size of its value
			v, n := binary.Uvarint(b)
			if n <= 0 {
				return nil, errTags
			}
			b = b[n:]
			if part == 1 {
				if v > uint64(len(b)) {
					return nil, errTags
				}
				b = b[v:]
			}
		}
	}
	return b, nil
}
