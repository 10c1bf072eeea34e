package client_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamsgroup/streamsgroup/client"
	"github.com/streamsgroup/streamsgroup/membership"
)

// offline is a client that never connects.
func offline(t *testing.T) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers("127.0.0.1:1"))
	require.NoError(t, err)
	t.Cleanup(cl.Close)
	return cl
}

func TestMaxPollRecords(t *testing.T) {
	inBubble(t, func(w *world) {
		w.produce("in", 0, 0, 10)
		c, err := client.NewConsumer("g", plain(t), client.KgoOpts(w.cl.KgoOpts()...), client.MaxPollRecords(4))
		require.NoError(w, err)
		defer func() { require.NoError(w, c.Close(w.Context())) }()
		var batches []int
		for n := 0; n < 10; {
			fetches, err := c.Poll(w.Context())
			require.NoError(w, err)
			for _, batch := range fetches.Tasks() {
				n += len(batch.Records)
				batches = append(batches, len(batch.Records))
			}
		}
		assert.Equal(w, []int{4, 4, 2}, batches)
	})
}

func TestMaxPollRecordsIsValidated(t *testing.T) {
	t.Parallel()
	_, err := client.NewConsumer("g", plain(t), client.MaxPollRecords(-1))
	require.ErrorContains(t, err, "MaxPollRecords(-1)")
	_, err = client.NewMember(offline(t), "g", plain(t), client.MaxPollRecords(1))
	require.ErrorContains(t, err, "MaxPollRecords(1)")
}

// A method with another signature is no hook, as with kgo.
func TestHooksThatAreNone(t *testing.T) {
	t.Parallel()
	_, err := client.NewMember(offline(t), "g", plain(t), client.WithHooks(misspelt{}))
	var bad *client.OptionError
	require.ErrorAs(t, err, &bad)
	assert.Equal(t, "WithHooks", bad.Option)
	assert.Equal(t, "client_test.misspelt", bad.Value)
}

type misspelt struct{}

func (misspelt) OnTasksRevoked([]string) {}

func TestBadOptions(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		opt           client.Opt
		option, value string
	}{
		{client.InstanceID(""), "InstanceID", `""`},
		{client.InstanceID(" "), "InstanceID", `" "`},
		{client.RackID(""), "RackID", `""`},
		{client.ProcessID("\t"), "ProcessID", `"\t"`},
		{client.UserEndpoint("", 80), "UserEndpoint", `"", 80`},
		{client.UserEndpoint("host", 0), "UserEndpoint", `"host", 0`},
		{client.ClientTag("", "v"), "ClientTag", `"", "v"`},
		{client.ClientTag("k", " "), "ClientTag", `"k", " "`},
		{client.ClientTag(strings.Repeat("k", 21), "v"), "ClientTag", strings.Repeat("k", 21)},
		{client.ClientTag("k", strings.Repeat("v", 31)), "ClientTag", strings.Repeat("v", 31)},
		{client.MaxPollInterval(0), "MaxPollInterval", "0s"},
		{client.MaxPollInterval(time.Microsecond), "MaxPollInterval", "1µs"},
		{client.MaxPollInterval(25 * 24 * time.Hour), "MaxPollInterval", "600h0m0s"},
		{client.RetryBackoff(-time.Second, time.Second), "RetryBackoff", "-1s"},
		{client.RetryBackoff(time.Second, 0), "RetryBackoff", "0s"},
		{client.RequestTimeout(0), "RequestTimeout", "0s"},
		{client.LeaveTimeout(-1), "LeaveTimeout", "-1ns"},
		{client.LeaveWith(membership.LeaveMode(9)), "LeaveWith", "9"},
		{client.KgoOpts(kgo.ClientID("x")), "KgoOpts", "…"},
	} {
		t.Run(tt.option+" "+tt.value, func(t *testing.T) {
			t.Parallel()
			_, err := client.NewMember(offline(t), "g", plain(t), tt.opt)
			var e *client.OptionError
			require.ErrorAs(t, err, &e)
			assert.Equal(t, tt.option, e.Option)
			assert.Contains(t, e.Value, tt.value)
			assert.NotEmpty(t, e.Reason)
			assert.ErrorContains(t, err, tt.option+"(")
			assert.ErrorContains(t, err, tt.value)
			if tt.option != "KgoOpts" {
				_, err = client.NewConsumer("g", plain(t), client.KgoOpts(kgo.SeedBrokers("127.0.0.1:1")), tt.opt)
				require.ErrorAs(t, err, &e, "a consumer refuses the same")
			}
		})
	}
}

func TestAllBadOptionsAreNamed(t *testing.T) {
	t.Parallel()
	_, err := client.NewMember(offline(t), "g", plain(t), client.RackID(""), client.InstanceID(""))
	require.ErrorContains(t, err, "RackID")
	require.ErrorContains(t, err, "InstanceID")
}

func TestTooManyTags(t *testing.T) {
	t.Parallel()
	var opts []client.Opt
	for _, k := range []string{"a", "b", "c", "d", "e"} {
		opts = append(opts, client.ClientTag(k, "v"), client.ClientTag(k, "w"))
	}
	_, err := client.NewMember(offline(t), "g", plain(t), opts...)
	require.NoError(t, err)
	_, err = client.NewMember(offline(t), "g", plain(t), append(opts, client.ClientTag("f", "v"))...)
	require.ErrorContains(t, err, `ClientTag("f", "v"): want at most five tags`)
}

func TestGoodOptions(t *testing.T) {
	t.Parallel()
	m, err := client.NewMember(offline(t), "g", plain(t), nil, client.WithLogger(nil), client.ProcessID("p"),
		client.RackID("r"), client.InstanceID("i"), client.RetryBackoff(time.Second, time.Second), client.RequestTimeout(time.Second))
	require.NoError(t, err)
	assert.Equal(t, "p", m.ProcessID())
	assert.Equal(t, "i", m.Snapshot().InstanceID)
}

func TestNewMemberWithoutWhatItNeeds(t *testing.T) {
	t.Parallel()
	_, err := client.NewMember(nil, "g", plain(t))
	require.ErrorContains(t, err, "*kgo.Client")
	_, err = client.NewMember(offline(t), " ", plain(t))
	require.ErrorContains(t, err, "Group")
	_, err = client.NewMember(offline(t), "g", nil)
	require.ErrorContains(t, err, "Topology")
	_, err = client.NewConsumer("g", nil)
	require.ErrorContains(t, err, "Topology")
}

func TestOptionsThatChooseWhatToConsumeAreRefused(t *testing.T) {
	t.Parallel()
	for value, opt := range map[string]kgo.Opt{
		"kgo.ConsumerGroup":     kgo.ConsumerGroup("other"),
		"kgo.ConsumeTopics":     kgo.ConsumeTopics("in"),
		"kgo.ConsumePartitions": kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"in": {0: kgo.NewOffset()}}),
		"kgo.ConsumeRegex":      kgo.ConsumeRegex(),
	} {
		t.Run(value, func(t *testing.T) {
			t.Parallel()
			_, err := client.NewConsumer("g", plain(t), client.KgoOpts(opt))
			var e *client.OptionError
			require.ErrorAs(t, err, &e)
			assert.Equal(t, "KgoOpts", e.Option)
			assert.Equal(t, value, e.Value)
		})
	}
	_, err := client.NewConsumer("g", plain(t), client.KgoOpts(kgo.SeedBrokers()))
	require.ErrorContains(t, err, "KgoOpts")
}
