// Package prom provides Prometheus metrics for members of streams groups, in the
// manner of franz-go's plugin/kprom:
//
//	metrics := prom.NewMetrics("shop")
//	m, err := client.NewMember(cl, "shop", topo, client.WithHooks(metrics))
//	http.Handle("/metrics", metrics.Handler())
//
// One Metrics may serve all members of a process. All metrics have the label group;
// those of a single member have the label member as well, and vanish when the member
// ends.
//
// These are the metrics, with the ones of Kafka that they correspond to: of
// consumer-coordinator-metrics where nothing else is said. Rates, averages and
// maximums are the business of queries: rate(...), and quantiles of histograms.
//
//	{ns}_heartbeats_total                         heartbeat-total, heartbeat-rate
//	{ns}_heartbeat_errors_total{error}            –
//	{ns}_heartbeat_response_seconds               heartbeat-response-time-max
//	{ns}_last_heartbeat_seconds_ago{member}       last-heartbeat-seconds-ago
//	{ns}_rebalances_total                         rebalance-total, rebalance-rate-per-hour
//	{ns}_failed_rebalances_total                  failed-rebalance-total, failed-rebalance-rate-per-hour
//	{ns}_rebalance_seconds                        rebalance-latency-avg, -max, -total
//	{ns}_last_rebalance_seconds_ago{member}       last-rebalance-seconds-ago
//	{ns}_assigned_tasks{member,role}              assigned-partitions (of tasks, by role)
//	{ns}_tasks_revoked_seconds                    tasks-revoked-latency-avg, -max (stream-thread-metrics)
//	{ns}_tasks_assigned_seconds                   tasks-assigned-latency-avg, -max (stream-thread-metrics)
//	{ns}_tasks_lost_seconds                       tasks-lost-latency-avg, -max (stream-thread-metrics)
//	{ns}_callback_errors_total{callback}          –
//	{ns}_state{member,state}                      thread-state (stream-thread-metrics): 1 for the present state
//	{ns}_member_epoch{member}                     –
//	{ns}_ready{member}                            – (1 if the group processes)
//	{ns}_status{member,status}                    – (1 while the coordinator reports the status)
//	{ns}_coordinator_changes_total                –
//	{ns}_retries_total                            –
//
// A rebalance is the time from the moment when an assignment arrives that differs from
// the present one until it has been put into effect. Unlike with Kafka it does not
// count as failed because of an error that is merely retried: only if the member is
// fenced or fails meanwhile.
package prom
