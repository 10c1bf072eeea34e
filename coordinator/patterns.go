package coordinator

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/coordinator/topics"
	"github.com/streamsgroup/streamsgroup/topology"
)

// resolution is what the source patterns of a group stand for, as it goes to the
// members.
type resolution struct {
	epoch int64
	field []byte
}

// resolve returns nil if there are no patterns, or their topics are not known.
func resolve(c *topics.Configured) *resolution {
	var found map[string][]string
	for i := range c.Subtopologies {
		if s := &c.Subtopologies[i]; len(s.Matched) > 0 {
			if found == nil {
				found = map[string][]string{}
			}
			found[s.ID] = s.Matched
		}
	}
	if found == nil {
		return nil
	}
	r := topology.NewResolution(found)
	return &resolution{epoch: r.Epoch, field: r.Append(nil)}
}

// respondResolution tells a member which topics its source patterns stand for,
// unless it says that it knows. A member with an older topology keeps to what it
// has read so far.
func (h *heartbeat) respondResolution(resp *kmsg.StreamsGroupHeartbeatResponse) {
	view := &h.g.topics
	if h.fx.soft.topics.configured != nil {
		view = &h.fx.soft.topics
	}
	r := view.resolution
	if r == nil || h.configured != view.configured || h.stale() {
		return
	}
	known := false
	h.req.UnknownTags.Each(func(tag uint32, value []byte) {
		if tag == topology.ResolutionTag {
			epoch, ok := topology.ParseResolutionEpoch(value)
			known = ok && epoch == r.epoch
		}
	})
	if !known {
		resp.UnknownTags.Set(topology.ResolutionTag, r.field)
	}
}
