package prom

import (
	"maps"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

type config struct {
	namespace, subsystem string
	registerer           prometheus.Registerer
	gatherer             prometheus.Gatherer
	labels               prometheus.Labels
	buckets              []float64
	handler              promhttp.HandlerOpts
}

// Opt is an option of [NewMetrics].
type Opt interface{ apply(*config) }

type optFunc func(*config)

func (f optFunc) apply(c *config) { f(c) }

// RegistererGatherer is a registry.
type RegistererGatherer interface {
	prometheus.Registerer
	prometheus.Gatherer
}

// Registry adds the metrics to a registry of yours, rather than to a new one.
func Registry(r RegistererGatherer) Opt {
	return optFunc(func(c *config) { c.registerer, c.gatherer = r, r })
}

// Registerer sets what the metrics are added to.
func Registerer(r prometheus.Registerer) Opt { return optFunc(func(c *config) { c.registerer = r }) }

// Gatherer sets what [Metrics.Handler] reads from.
func Gatherer(g prometheus.Gatherer) Opt { return optFunc(func(c *config) { c.gatherer = g }) }

// HandlerOpts sets the options of [Metrics.Handler].
func HandlerOpts(opts promhttp.HandlerOpts) Opt { return optFunc(func(c *config) { c.handler = opts }) }

// Subsystem sets the subsystem, the second part of the names. There is none by default.
func Subsystem(s string) Opt { return optFunc(func(c *config) { c.subsystem = s }) }

// WithStaticLabel adds labels to all metrics.
func WithStaticLabel(labels prometheus.Labels) Opt {
	return optFunc(func(c *config) { c.labels = maps.Clone(labels) })
}

// DefBuckets are the default buckets of histograms, in seconds. They reach from what a
// heartbeat takes to what a restore takes.
var DefBuckets = []float64{0.001, 0.004, 0.016, 0.064, 0.256, 1, 4, 16, 64, 256}

// Buckets sets the buckets of histograms.
func Buckets(buckets []float64) Opt { return optFunc(func(c *config) { c.buckets = buckets }) }
