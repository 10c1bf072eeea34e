package kfakeext

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// principal is what a connection's SASL exchange says. Controls run before
// kfake's own check, so the coordinator has to know whether a connection is
// authenticated.
type principal struct {
	mechanism     string
	name          string // as claimed; proven only if authenticated
	exchanges     int
	authenticated bool
	standing      standing
}

// user is the authenticated name, or empty.
func (c *tapConn) user() (name string, authenticated bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.principal.authenticated {
		return "", false
	}
	return c.principal.name, true
}

func (c *tapConn) standing() standing {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.principal.standing
}

func (c *tapConn) setStanding(s standing) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.principal.standing = s
}

// handshake follows a SaslHandshake to its response. A handshake of an
// authenticated connection starts a re-authentication, during which kfake
// serves nothing else.
func (c *tapConn) handshake(mechanism string) func(kmsg.Response) {
	return func(resp kmsg.Response) {
		if r, ok := resp.(*kmsg.SASLHandshakeResponse); ok && r.ErrorCode == 0 {
			c.mu.Lock()
			c.principal = principal{mechanism: mechanism}
			c.mu.Unlock()
		}
	}
}

// authenticate follows a SaslAuthenticate to its response. PLAIN ends with one
// exchange, SCRAM with the second; then is called after the last.
func (c *tapConn) authenticate(bytes []byte, then func()) func(kmsg.Response) {
	sent := string(bytes)
	return func(resp kmsg.Response) {
		r, ok := resp.(*kmsg.SASLAuthenticateResponse)
		if !ok || r.ErrorCode != 0 {
			return
		}
		if c.exchanged(sent) {
			then()
		}
	}
}

// exchanged takes note of a successful exchange. It returns whether it was the
// last one.
func (c *tapConn) exchanged(sent string) (authenticated bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := &c.principal
	p.exchanges++
	switch {
	case p.mechanism == "PLAIN":
		// kfake takes the empty password of a user whom it does not know for
		// right. Kafka accepts none.
		p.name, p.authenticated = plainUser(sent), !strings.HasSuffix(sent, "\x00")
	case strings.HasPrefix(p.mechanism, "SCRAM-") && p.exchanges == 1:
		p.name = scramUser(sent)
	case strings.HasPrefix(p.mechanism, "SCRAM-"):
		p.authenticated = true
	}
	return p.authenticated
}

// plainUser is the second of three fields separated by zeros.
func plainUser(sent string) string {
	_, rest, _ := strings.Cut(sent, "\x00")
	user, _, _ := strings.Cut(rest, "\x00")
	return user
}

var scramName = strings.NewReplacer("=3D", "=", "=2C", ",")

// scramUser is the attribute n of the client's first message, which follows the
// two fields of the GS2 header.
func scramUser(sent string) string {
	fields := strings.Split(sent, ",")
	for _, field := range fields[min(2, len(fields)):] {
		if name, ok := strings.CutPrefix(field, "n="); ok {
			return scramName.Replace(name)
		}
	}
	return ""
}
