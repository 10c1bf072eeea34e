package kafkagraph

import "github.com/twmb/franz-go/pkg/kmsg"

type object = map[string]any

// Wire is the Topology of a heartbeat in the names of Kafka's schemas.
func Wire(w *kmsg.StreamsGroupHeartbeatRequestTopology) any {
	subs := make([]object, 0, len(w.Subtopologies))
	for _, s := range w.Subtopologies {
		groups := make([]object, 0, len(s.CopartitionGroups))
		for _, g := range s.CopartitionGroups {
			groups = append(groups, object{"sourceTopics": g.SourceTopics, "sourceTopicRegex": g.SourceTopicRegex, "repartitionSourceTopics": g.RepartitionSourceTopics})
		}
		subs = append(subs, object{
			"subtopologyId": s.SubtopologyID, "sourceTopics": s.SourceTopics, "sourceTopicRegex": s.SourceTopicRegex,
			"stateChangelogTopics": topics(s.StateChangelogTopics), "repartitionSinkTopics": s.RepartitionSinkTopics,
			"repartitionSourceTopics": topics(s.RepartitionSourceTopics), "copartitionGroups": groups,
		})
	}
	return object{"epoch": w.Epoch, "subtopologies": subs}
}

func topics(in []kmsg.TopicInfo) []object {
	out := make([]object, 0, len(in))
	for _, i := range in {
		configs := make([]object, 0, len(i.Configs))
		for _, c := range i.Configs {
			configs = append(configs, object{"key": c.Key, "value": c.Value})
		}
		out = append(out, object{"name": i.Topic, "partitions": i.NumPartitions, "replicationFactor": i.ReplicationFactor, "topicConfigs": configs})
	}
	return out
}

// Description is a topology description in the names of Kafka's schemas.
func Description(d *kmsg.TopologyDescription) any {
	subs, globals := make([]object, 0, len(d.Subtopologies)), make([]object, 0, len(d.GlobalStores))
	for _, s := range d.Subtopologies {
		nodes := make([]object, 0, len(s.Nodes))
		for _, n := range s.Nodes {
			nodes = append(nodes, node(n))
		}
		subs = append(subs, object{"subtopologyId": s.SubtopologyID, "nodes": nodes})
	}
	for _, g := range d.GlobalStores {
		globals = append(globals, object{"source": node(g.Source), "processor": node(g.Processor)})
	}
	return object{"subtopologies": subs, "globalStores": globals}
}

func node(n kmsg.TopologyDescriptionNode) object {
	return object{
		"name": n.Name, "nodeType": n.NodeType, "sourceTopics": n.SourceTopics, "sinkTopic": n.SinkTopic,
		"stores": n.Stores, "successors": n.Successors,
	}
}
