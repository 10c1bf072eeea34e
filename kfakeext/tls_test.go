package kfakeext_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamsgroup/streamsgroup/kfakeext"
)

func certificate(t *testing.T) (server, client *tls.Config) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(time.Hour),
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, MinVersion: tls.VersionTLS12},
		&tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	server, client := certificate(t)
	cl := kfakeext.Start(t, kfakeext.TCP(), kfakeext.TLS(server), kfakeext.Topic("foo", 1))
	w := connect(t, cl, kgo.DialTLSConfig(client))
	w.ok(join("g", "m1", "foo"))
	assert.Equal(t, "wire", w.describe("g").Members[0].ClientID)
	assert.Equal(t, "/127.0.0.1", w.describe("g").Members[0].ClientHost)
}

// kfake's own TLS hides the requests from the tap, and clients would not learn
// that the protocol is there.
func TestKfakesOwnTLS(t *testing.T) {
	t.Parallel()
	server, _ := certificate(t)
	tap := kfakeext.NewTap()
	fake, err := kfake.NewCluster(kfake.ListenFn(tap.ListenFn(nil)), kfake.NumBrokers(1), kfake.TLS(server), kfake.SeedTopics(1, "foo"))
	require.NoError(t, err)
	defer fake.Close()
	_, err = kfakeext.Attach(fake, tap)
	require.ErrorContains(t, err, "use Tap.ServeTLS")
}

func TestAddr(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := ln.Addr().String()
	require.NoError(t, ln.Close())
	_, port, err := net.SplitHostPort(addr)
	require.NoError(t, err)
	cl, err := kfakeext.NewCluster(kfakeext.Addr("0.0.0.0:"+port), kfakeext.Topic("foo", 1), kfakeext.BrokerConfig("group.streams.initial.rebalance.delay.ms", "0"))
	require.NoError(t, err)
	defer cl.Close()
	assert.Equal(t, []string{addr}, cl.Addrs(), "one node, advertised under an address that can be dialled")
	w := connect(t, cl)
	defer w.client.Close()
	w.ok(join("g", "m1", "foo"))
}

func TestOptionErrors(t *testing.T) {
	t.Parallel()
	for name, opt := range map[string]kfakeext.Opt{
		"Topic":                            kfakeext.Topic("foo", 0),
		"Nodes(0)":                         kfakeext.Nodes(0),
		"Ports(70000)":                     kfakeext.Ports(70000),
		"Addr(\"x\")":                      kfakeext.Addr("x"),
		"Policy(9)":                        kfakeext.Policy(9),
		"group.streams.session.timeout.ms": kfakeext.BrokerConfig("group.streams.session.timeout.ms", "soon"),
	} {
		_, err := kfakeext.NewCluster(kfakeext.InProcess(), opt)
		require.ErrorContains(t, err, name)
	}
}
