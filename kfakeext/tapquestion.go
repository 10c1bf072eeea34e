package kfakeext

import (
	"encoding/binary"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// question is a request that the tap puts into a client's connection, to be
// answered as if the client had sent it. The client sees nothing of it.
type question struct {
	req    kmsg.Request
	answer func(kmsg.Response)
}

// questionCorr is the correlation id of questions. A client that happened to use
// it would do no harm to others, and none can guess it.
func (t *Tap) questionCorr() int32 { return int32(uint32(t.secret>>32) | 1<<31) }

// ask has a question put in front of the next request of the connection.
func (c *tapConn) ask(q question) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.questions = append(c.questions, q)
	c.asking.Store(true)
}

// questionFrames are the requests to pass before the frame that starts now.
func (c *tapConn) questionFrames() (frames []byte) {
	if !c.asking.Load() {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asking.Store(false)
	formatter := kmsg.NewRequestFormatter(kmsg.FormatterClientID(ownClientID))
	for _, q := range c.questions {
		frames = append(frames, formatter.AppendRequest(nil, q.req, c.tap.questionCorr())...)
	}
	c.open = append(c.open, c.questions...)
	c.questions = nil
	return frames
}

// keep takes the response to a question. It returns false for responses to the
// client.
func (c *tapConn) keep(p []byte) bool {
	if int32(binary.BigEndian.Uint32(p[4:])) != c.tap.questionCorr() {
		return false
	}
	c.mu.Lock()
	if len(c.open) == 0 {
		c.mu.Unlock()
		return false
	}
	q := c.open[0]
	c.open = c.open[1:]
	c.mu.Unlock()
	resp := q.req.ResponseKind()
	body := 8
	if resp.IsFlexible() {
		body++
	}
	if len(p) >= body && resp.ReadFrom(p[body:]) == nil {
		q.answer(resp)
	}
	return true
}
