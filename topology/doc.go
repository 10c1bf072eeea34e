// Package topology says what a stream-processing application is: a graph of
// sources, processors, stores and sinks, cut into subtopologies, with the topics
// that connect them. It holds data only: nothing in it runs the graph.
//
// A [Builder] takes the graph in the vocabulary of Kafka's Processor API and
// yields a [Topology], which a member of a streams group sends when it joins
// (KIP-1071). The result is the same, byte for byte, on every instance that
// builds the same graph, as the broker demands.
package topology
