package coordinator

import (
	"errors"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Status codes of a heartbeat response that do not come from the topics.
const (
	statusStaleTopology     = 0
	statusShutdown          = 4
	statusAssignmentDelayed = 5
	statusMissingClientTags = 6
)

const staleDetail = "the member's topology epoch %d is behind the group's %d"

type wireStatus = kmsg.StreamsGroupHeartbeatResponseStatus

// noStatuses is an empty list, which is not the same as null on the wire. It has
// no room, so whoever appends to it gets a list of his own.
var noStatuses = []wireStatus{}

func emptyResponse(resp *kmsg.StreamsGroupHeartbeatResponse) {
	*resp = kmsg.StreamsGroupHeartbeatResponse{Version: resp.Version, AcceptableRecoveryLag: -1, Status: noStatuses}
}

// respond fills the answer to a join or a regular heartbeat.
func (h *heartbeat) respond(resp *kmsg.StreamsGroupHeartbeatResponse) {
	emptyResponse(resp)
	resp.MemberID, resp.MemberEpoch = h.meta.Member, h.next.epoch
	resp.HeartbeatIntervalMillis = int32(h.cfg.heartbeat.Milliseconds())
	resp.TaskOffsetIntervalMillis = int32(h.cfg.offsetInterval.Milliseconds())
	resp.AcceptableRecoveryLag = h.cfg.lag
	if h.req.MemberEpoch == 0 || !h.next.sameTasks(h.cur) || h.missedAssignment() {
		resp.ActiveTasks = listToWire(h.next.assigned.active)
		resp.StandbyTasks = listToWire(h.next.assigned.standby)
		resp.WarmupTasks = listToWire(h.next.assigned.warmup)
	}
	h.respondStatuses(resp)
	h.respondEndpoints(resp)
	h.respondResolution(resp)
	h.askForDescription(resp)
}

// missedAssignment is whether the member reports other tasks than it would if it
// had seen its assignment: then the answer that carried it was lost, and the
// tasks are sent again. KIP-1071 wants this; Kafka sends them once.
func (h *heartbeat) missedAssignment() bool {
	return h.c.policy == KIP1071 && h.owned != nil &&
		!h.owned.equal(h.next.assigned) && !h.owned.equal(h.next.assigned.plus(h.next.pending))
}

func (h *heartbeat) respondStatuses(resp *kmsg.StreamsGroupHeartbeatResponse) {
	add := func(code int8, format string, args ...any) {
		s := kmsg.NewStreamsGroupHeartbeatResponseStatus()
		s.StatusCode, s.StatusDetail = code, fmt.Sprintf(format, args...)
		resp.Status = append(resp.Status, s)
	}
	if status := h.behindStatus(); status != nil {
		resp.Status = status
	} else if h.g.topology != nil && h.stale() {
		add(statusStaleTopology, staleDetail, h.meta.TopologyEpoch, h.topology.Epoch)
	}
	if h.delayed {
		add(statusAssignmentDelayed, "the assignment is delayed: more members may join, or the last one is too recent")
	}
	if h.configured != nil && h.configured.Problem != nil && !h.behind() {
		add(h.configured.Problem.Status, "%s", h.configured.Problem.Detail)
	}
	by := h.g.shutdownBy
	if by == "" {
		by = h.fx.soft.shutdownBy
	}
	if by != "" {
		add(statusShutdown, "member %s asked for the shutdown of the application", by)
	}
	if h.req.Version >= 1 && len(h.cfg.tags) > 0 {
		if missing := h.missingTags(); len(missing) > 0 {
			add(statusMissingClientTags, "client tags missing: %s", strings.Join(missing, ", "))
		}
	}
}

// missingTags are the configured tag keys that the member lacks, in configured
// order.
func (h *heartbeat) missingTags() []string {
	var missing []string
	for _, key := range h.cfg.tags {
		if findTag(h.meta.ClientTags, key) == nil {
			missing = append(missing, key)
		}
	}
	return missing
}

// respondRefusal answers with an error: the code, and a text except where Kafka
// gives none.
func respondRefusal(resp *kmsg.StreamsGroupHeartbeatResponse, r *refusal) {
	emptyResponse(resp)
	resp.ErrorCode = r.err.Code
	if r.text != "" && r.err != kerr.UnknownServerError {
		resp.ErrorMessage = &r.text
	}
}

// AppendFailed turns a failed append into the answer of a heartbeat. A kerr
// error says why it failed; anything else is an unknown server error.
func AppendFailed(resp *kmsg.StreamsGroupHeartbeatResponse, err error) {
	respondRefusal(resp, &refusal{err: appendError(err)})
}

// appendError is how Kafka answers what it could not write.
func appendError(err error) *kerr.Error {
	if k := (*kerr.Error)(nil); errors.As(err, &k) {
		switch k {
		case kerr.UnknownTopicOrPartition, kerr.NotEnoughReplicas, kerr.NotEnoughReplicasAfterAppend, kerr.RequestTimedOut:
			return kerr.CoordinatorNotAvailable
		case kerr.NotLeaderForPartition, kerr.KafkaStorageError:
			return kerr.NotCoordinator
		case kerr.NetworkException:
			return kerr.CoordinatorLoadInProgress
		}
	}
	return kerr.UnknownServerError
}
