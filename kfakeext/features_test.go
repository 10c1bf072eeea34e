package kfakeext_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/streamsgroup/streamsgroup/kfakeext"
)

func (w *wire) advertised() map[int16]int16 {
	w.Helper()
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion = "test", "1"
	versions := make(map[int16]int16)
	for _, k := range w.ask(0, req).(*kmsg.ApiVersionsResponse).ApiKeys {
		if k.ApiKey == 88 || k.ApiKey == 89 || k.ApiKey == 93 {
			versions[k.ApiKey] = k.MaxVersion
		}
	}
	return versions
}

func TestAdvertisedVersionsUnderCaps(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		cap  *kversion.Versions
		want map[int16]int16
	}{
		{"none", nil, map[int16]int16{88: 1, 89: 1, 93: 0}},
		{"4.4", kversion.V4_4_0(), map[int16]int16{88: 1, 89: 1, 93: 0}},
		{"4.3", kversion.V4_3_0(), map[int16]int16{88: 0, 89: 0}},
		{"4.2", kversion.V4_2_0(), map[int16]int16{88: 0, 89: 0}},
		{"4.1", kversion.V4_1_0(), map[int16]int16{}},
		{"2.8", kversion.V2_8_0(), map[int16]int16{}},
		{"0.11", kversion.V0_11_0(), map[int16]int16{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(w *wire) {
				assert.Equal(w, tt.want, w.advertised())
				highest, ok := tt.want[88]
				if !ok {
					return
				}
				resp := w.ok(join("g", "m1", "foo"))
				assert.Equal(w, highest, resp.Version)
			}, kfakeext.KfakeOpts(kfake.MaxVersions(tt.cap)))
		})
	}
}

func TestV01FeatureSwitchedOff(t *testing.T) {
	inBubble(t, func(w *wire) {
		w.ok(join("g", "m1", "foo"))
		update := func(level int16, validate bool) int16 {
			req := kmsg.NewPtrUpdateFeaturesRequest()
			req.ValidateOnly = validate
			u := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
			u.Feature, u.MaxVersionLevel, u.UpgradeType = "streams.version", level, 2
			req.FeatureUpdates = append(req.FeatureUpdates, u)
			return w.ask(0, req).(*kmsg.UpdateFeaturesResponse).ErrorCode
		}
		code(w.T, nil, update(0, true))
		w.ok(beat("g", "m1", 2))
		code(w.T, nil, update(0, false))
		w.fails(kerr.UnsupportedVersion, beat("g", "m1", 2))
		w.fails(kerr.UnsupportedVersion, join("h", "m1", "foo"))
		described := w.describe("g")
		code(w.T, kerr.UnsupportedVersion, described.ErrorCode)
		assert.Equal(w, map[int16]int16{88: 1, 89: 1, 93: 0}, w.advertised(), "the keys stay advertised")
		require.Error(w, kerr.ErrorForCode(update(9, false)), "beyond what is supported")
		w.fails(kerr.UnsupportedVersion, beat("g", "m1", 2))
		code(w.T, nil, update(1, false))
		w.ok(beat("g", "m1", 2))
	})
}

func TestV02ProtocolsWithoutStreams(t *testing.T) {
	t.Parallel()
	cl, err := kfakeext.NewCluster(kfakeext.InProcess(), kfakeext.BrokerConfig("group.coordinator.rebalance.protocols", "classic,consumer"))
	if err != nil { // as Kafka, which insists on it
		require.ErrorContains(t, err, "group.coordinator.rebalance.protocols")
		return
	}
	defer cl.Close()
	w := connect(t, cl)
	defer w.client.Close()
	w.fails(kerr.UnsupportedVersion, join("g", "m1", "foo"))
}

func TestTopologyDescriptionsAreNotStored(t *testing.T) {
	inBubble(t, func(w *wire) {
		req := kmsg.NewPtrStreamsGroupTopologyDescriptionUpdateRequest()
		req.Group, req.MemberID = "g", "m1"
		resp := w.home("g", req).(*kmsg.StreamsGroupTopologyDescriptionUpdateResponse)
		code(w.T, kerr.UnsupportedVersion, resp.ErrorCode)
	})
}
