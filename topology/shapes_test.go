package topology_test

import (
	"fmt"
	"time"

	"github.com/streamsgroup/streamsgroup/topology"
)

// A join of two streams, the left one by another key: what KStream.selectKey and
// KStream.join with JoinWindows make.
func ExampleBuilder_streamStreamJoin() {
	window := func(name string) topology.Store {
		return topology.Store{
			Name: name, Kind: topology.Windowed, Retention: 10 * time.Minute,
			ChangelogConfig: map[string]string{"cleanup.policy": "delete"},
		}
	}
	t, err := new(topology.Builder).
		AddSource("clicks", "clicks").
		AddProcessor("by-ad", "clicks").
		AddRepartition("clicks-by-ad").
		AddSink("to-ads", "clicks-by-ad", "by-ad").
		AddSource("clicks-by-ad", "clicks-by-ad").
		AddSource("views", "views").
		AddProcessor("join", "clicks-by-ad", "views").
		AddStateStore(window("clicks-window"), "join").
		AddStateStore(window("views-window"), "join").
		AddSink("out", "clicked-views", "join").
		Copartition("clicks-by-ad", "views").
		Build("ads")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, id := range t.Subtopologies() {
		fmt.Println(id, "reads", t.Sources(id), "logs to", t.Changelogs(id))
	}
	// Output:
	// 0 reads [clicks] logs to []
	// 1 reads [ads-clicks-by-ad-repartition views] logs to [ads-clicks-window-changelog ads-views-window-changelog]
}

// A join of two tables over a foreign key: orders ask for their customer through
// one topic and are answered through another. A global table is looked up on the
// way, and the outcome is merged with another stream.
func ExampleBuilder_foreignKeyJoin() {
	t, err := new(topology.Builder).
		AddGlobalStore("rates", "rates", "rates", "load-rates").
		AddInternalTopic("subscription").
		AddInternalTopic("response").
		AddSource("orders", "orders").
		AddProcessor("order-table", "orders").
		AddSink("subscribe", "subscription", "order-table").
		AddSource("customers", "customers").
		AddProcessor("customer-table", "customers").
		AddSource("subscription", "subscription").
		AddProcessor("subscriptions", "subscription", "customer-table").
		AddSink("respond", "response", "subscriptions").
		AddSource("response", "response").
		AddProcessor("resolve", "response").
		AddSource("imported", "imported-orders").
		AddProcessor("merge", "resolve", "imported").
		AddSink("out", "enriched-orders", "merge").
		AddStateStore(topology.Store{Name: "orders", SourceTopic: "orders"}, "order-table", "resolve").
		AddStateStore(topology.Store{Name: "customers"}, "customer-table", "subscriptions").
		AddStateStore(topology.Store{Name: "subscriptions"}, "subscriptions").
		Copartition("customers", "subscription").
		Copartition("orders", "response").
		Build("shop")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, id := range t.Subtopologies() {
		fmt.Println(id, "reads", t.Sources(id), "logs to", t.Changelogs(id))
	}
	// Output:
	// 1 reads [imported-orders orders shop-response] logs to [orders]
	// 2 reads [customers shop-subscription] logs to [shop-customers-changelog shop-subscriptions-changelog]
}
