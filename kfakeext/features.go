package kfakeext

import (
	"slices"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// features is what the cluster supports of this protocol. kfake advertises the
// feature streams.version itself, and only the version caps of its
// configuration decide whether it does. It is learned from every ApiVersions
// response, the first of them asked for by ourselves.
type features struct {
	supported atomic.Bool  // streams.version is listed
	full      atomic.Bool  // not capped below 4.4: version 1 and key 93
	level     atomic.Int32 // finalized
}

const streamsVersion = "streams.version"

func (f *features) reset() {
	f.supported.Store(true)
	f.full.Store(true)
	f.level.Store(1)
}

// off is whether the feature has been switched off with UpdateFeatures.
func (f *features) off() bool { return f.level.Load() < 1 }

// maxVersion is what is advertised for one of our keys, -1 if nothing.
func (f *features) maxVersion(key int16) int16 {
	switch {
	case !f.supported.Load():
		return -1
	case kmsg.Key(key) == kmsg.StreamsGroupTopologyDescriptionUpdate:
		if f.full.Load() {
			return 0
		}
		return -1
	case f.full.Load():
		return 1
	}
	return 0
}

// check refuses requests that are not advertised. Without an error kfake is to
// answer, which closes the connection as for any key that it does not know.
func (f *features) check(req kmsg.Request) (err error, refused bool) { //nolint:revive // the error is part of the answer
	switch highest := f.maxVersion(req.Key()); {
	case highest < 0:
		return nil, true
	case req.GetVersion() > highest || req.GetVersion() < 0:
		return unsupported(req.Key(), req.GetVersion()), true
	}
	return nil, false
}

var ourKeys = []kmsg.Key{kmsg.StreamsGroupHeartbeat, kmsg.StreamsGroupDescribe, kmsg.StreamsGroupTopologyDescriptionUpdate}

func (a *adapter) apiVersions(s sender, req *kmsg.ApiVersionsRequest) {
	s.edit(req, func(resp kmsg.Response) {
		if r, ok := resp.(*kmsg.ApiVersionsResponse); ok && r.ErrorCode == 0 {
			a.features.learn(r)
			a.features.advertise(r)
		}
	})
}

// learn reads what a response says about the cluster. Versions before 3 do not
// list features.
func (f *features) learn(r *kmsg.ApiVersionsResponse) {
	if r.Version < 3 {
		return
	}
	f.supported.Store(slices.ContainsFunc(r.SupportedFeatures, func(s kmsg.ApiVersionsResponseSupportedFeature) bool {
		return s.Name == streamsVersion && s.MaxVersion >= 1
	}))
	var level int16
	for _, ff := range r.FinalizedFeatures {
		if ff.Name == streamsVersion {
			level = ff.MaxVersionLevel
		}
	}
	f.level.Store(int32(level))
	// Kafka 4.4 came with version 3 of DeleteGroups, together with version 1 of
	// the heartbeat.
	f.full.Store(slices.ContainsFunc(r.ApiKeys, func(k kmsg.ApiVersionsResponseApiKey) bool {
		return k.ApiKey == kmsg.DeleteGroups.Int16() && k.MaxVersion >= 3
	}))
}

func (f *features) advertise(r *kmsg.ApiVersionsResponse) {
	for _, key := range ourKeys {
		highest := f.maxVersion(key.Int16())
		known := slices.ContainsFunc(r.ApiKeys, func(k kmsg.ApiVersionsResponseApiKey) bool { return k.ApiKey == key.Int16() })
		if highest < 0 || known {
			continue
		}
		k := kmsg.NewApiVersionsResponseApiKey()
		k.ApiKey, k.MaxVersion = key.Int16(), highest
		r.ApiKeys = append(r.ApiKeys, k)
	}
}

// updateFeatures follows changes of the finalized level.
func (a *adapter) updateFeatures(s sender, req *kmsg.UpdateFeaturesRequest) {
	level, found := int16(0), false
	for _, u := range req.FeatureUpdates {
		if u.Feature == streamsVersion {
			level, found = max(u.MaxVersionLevel, 0), true
		}
	}
	if !found || req.Version >= 1 && req.ValidateOnly {
		return
	}
	s.edit(req, func(resp kmsg.Response) {
		r, ok := resp.(*kmsg.UpdateFeaturesResponse)
		if !ok || r.ErrorCode != 0 {
			return
		}
		for _, result := range r.Results {
			if result.Feature == streamsVersion && result.ErrorCode != 0 {
				return
			}
		}
		a.features.level.Store(int32(level))
	})
}
