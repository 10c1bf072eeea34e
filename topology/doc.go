// Package topology says what a stream-processing application is: a graph of
// sources, processors, stores and sinks, cut into subtopologies, with the topics
// that connect them. It holds data only: nothing in it runs the graph.
//
// A [Builder] takes the graph in the vocabulary of Kafka's Processor API and
// yields a [Topology], which a member of a streams group sends when it joins
// (KIP-1071). A [TaskID] names a unit of work: a subtopology and a partition.
//
// # Subtopologies
//
// Nodes that are connected, or that share a store, make one subtopology; its
// tasks run independently of each other. Topics do not connect: a repartition
// topic, written by a sink and read by a source, is what separates two
// subtopologies. Subtopologies are numbered in the order in which their first
// nodes were added, and a global store uses up a number without being one.
// [Builder.Subtopology] gives one an id of its own, which stays when others come
// and go.
//
// # Names
//
// In the builder, an internal topic goes by the name that it was added with. On
// the cluster it belongs to the application:
//
//	AddRepartition("words")            wordcount-words-repartition
//	AddInternalTopic("words")          wordcount-words
//	AddStateStore(Store{Name: "n"})    wordcount-n-changelog
//
// # Every instance must build the same
//
// A broker compares the topology of a joining member with that of the group
// element by element, order included, and refuses a member whose topology
// differs. So the same calls in the same order yield the same bytes, in every
// process and after every restart, and everything that reaches the topology must
// be the same on all instances: the settings of topics, retention times and the
// replication factor too. A changed graph needs a new topology epoch
// ([Builder.Epoch]).
//
// # Changes
//
// [Diff] compares the topology of a running group with the next one and tells
// what becomes of its tasks, and whether members may be replaced one by one.
// [Successors] is the rule behind it, which coordinators follow as well.
package topology
