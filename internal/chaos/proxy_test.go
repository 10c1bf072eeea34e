package chaos

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// echo starts a server that returns what it gets, and says goodbye when nothing more
// comes. It returns a proxy in front of it, and a connection.
func echo(t *testing.T) (*Proxy, *net.TCPConn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
				_, _ = c.Write([]byte("goodbye"))
			}()
		}
	}()
	p, err := NewProxy(ln.Addr().String())
	require.NoError(t, err)
	t.Cleanup(p.Close)
	c, err := p.DialContext(t.Context(), "tcp", "wherever:9092")
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	say(t, c, "hello")
	return p, c.(*net.TCPConn)
}

// say expects an echo.
func say(t *testing.T, c net.Conn, text string) {
	t.Helper()
	_, err := c.Write([]byte(text))
	require.NoError(t, err)
	got := make([]byte, len(text))
	_, err = io.ReadFull(c, got)
	require.NoError(t, err)
	assert.Equal(t, text, string(got))
}

func TestProxyPasses(t *testing.T) {
	t.Parallel()
	p, c := echo(t)
	p.Delay(time.Millisecond)
	say(t, c, "again")
	require.NoError(t, c.CloseWrite())
	rest, err := io.ReadAll(c)
	require.NoError(t, err)
	assert.Equal(t, "goodbye", string(rest))
}

func TestProxyCuts(t *testing.T) {
	t.Parallel()
	p, c := echo(t)
	p.Cut()
	_, err := c.Read(make([]byte, 1))
	require.Error(t, err)
}

func TestProxyHalfCloses(t *testing.T) {
	t.Parallel()
	t.Run("to the broker", func(t *testing.T) {
		t.Parallel()
		p, c := echo(t)
		p.HalfClose(true)
		rest, err := io.ReadAll(c)
		require.NoError(t, err)
		assert.Equal(t, "goodbye", string(rest))
	})
	t.Run("to the client", func(t *testing.T) {
		t.Parallel()
		p, c := echo(t)
		p.HalfClose(false)
		rest, err := io.ReadAll(c)
		require.NoError(t, err)
		assert.Empty(t, rest)
		_, err = c.Write([]byte("still"))
		require.NoError(t, err)
	})
}

// What is swallowed never arrives, not even when the network is well again.
func TestProxySwallows(t *testing.T) {
	t.Parallel()
	p, c := echo(t)
	p.Hole(true)
	_, err := c.Write([]byte("lost"))
	require.NoError(t, err)
	swallowed := func() bool { return len(p.all(func(l *link) bool { return l.dead })) == 1 }
	require.Eventually(t, swallowed, time.Minute, time.Millisecond)
	p.Hole(false)
	rest, _ := io.ReadAll(c)
	assert.Empty(t, rest)
	again, err := p.DialContext(t.Context(), "tcp", "")
	require.NoError(t, err)
	defer again.Close()
	say(t, again, "again")
}
