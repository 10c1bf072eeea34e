package kfakeext

import (
	"encoding/binary"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// rewrite changes a response before it leaves. It runs on the connection's
// writing goroutine, outside of the cluster's loop: it must not call the
// cluster.
type rewrite struct {
	key, version int16
	edit         func(kmsg.Response)
}

func (c *tapConn) rewrite(corr int32, rw rewrite) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rewrites == nil {
		c.rewrites = make(map[int32]rewrite)
	}
	prior, ok := c.rewrites[corr]
	if ok && prior.key == rw.key {
		first, second := prior.edit, rw.edit
		rw.edit = func(resp kmsg.Response) { first(resp); second(resp) }
	}
	c.rewrites[corr] = rw
}

// Write passes on one response of kfake, which comes in one piece.
func (c *tapConn) Write(p []byte) (int, error) {
	if c.opaque.Load() || len(p) < 8 {
		return c.Conn.Write(p)
	}
	if c.keep(p) {
		return len(p), nil
	}
	corr := int32(binary.BigEndian.Uint32(p[4:]))
	// Before the bytes leave: the client's next request may be read at once.
	c.mu.Lock()
	rw, ok := c.answered(corr)
	c.mu.Unlock()
	if ok {
		if out, ok := c.edited(p, rw); ok {
			if cap(c.out) > keptRoom {
				c.out = nil
			}
			if _, err := c.Conn.Write(out); err != nil {
				return 0, err
			}
			return len(p), nil
		}
	}
	return c.Conn.Write(p)
}

// edited decodes a response, has it edited and encodes it.
func (c *tapConn) edited(p []byte, rw rewrite) ([]byte, bool) {
	resp := kmsg.ResponseForKey(rw.key)
	if resp == nil {
		return nil, false
	}
	resp.SetVersion(rw.version)
	body := 8
	if rw.key == kmsg.ApiVersions.Int16() {
		// A refused version is answered with a version 0 body.
		if len(p) < body+2 || int16(binary.BigEndian.Uint16(p[body:])) == kerr.UnsupportedVersion.Code {
			return nil, false
		}
	} else if resp.IsFlexible() {
		body++ // kfake's empty header tags
	}
	if len(p) < body || resp.ReadFrom(p[body:]) != nil {
		return nil, false
	}
	rw.edit(resp)
	c.out = resp.AppendTo(append(c.out[:0], p[:body]...))
	binary.BigEndian.PutUint32(c.out, uint32(len(c.out)-4))
	return c.out, true
}
