package otelonceward

import (
	"cmp"
	"errors"
	"runtime/debug"
	"sync"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/onceward/onceward/providers"
)

// ScopeName is the instrumentation scope of all spans and metrics.
const ScopeName = "github.com/onceward/onceward/otelonceward"

// Telemetry makes spans and metrics from a client's work. Make one by New for a process, for all clients. A Telemetry
// is safe for concurrent use.
type Telemetry struct {
	cfg        config
	tracer     trace.Tracer
	meter      metric.Meter
	m          instruments
	places     places
	attributes attributes
	parked     parked
}

type config struct {
	tracers   trace.TracerProvider
	meters    metric.MeterProvider
	providers []providers.Provider
	ids       bool
	http      bool
}

// Option configures a Telemetry.
type Option interface{ apply(*config) }

type option func(*config)

func (o option) apply(c *config) { o(c) }

// WithTracerProvider sets the receiver of spans. Default: the global one.
func WithTracerProvider(p trace.TracerProvider) Option {
	return option(func(c *config) { c.tracers = p })
}

// WithMeterProvider sets the receiver of metrics. Default: the global one.
func WithMeterProvider(p metric.MeterProvider) Option {
	return option(func(c *config) { c.meters = p })
}

// WithProviders names the tables in the client's configuration. Counters for rare events then begin at 0 for each
// table. Otherwise an alert on a counter's increase would miss the first event.
func WithProviders(tables ...providers.Provider) Option {
	return option(func(c *config) { c.providers = append(c.providers, tables...) })
}

// WithOperationID puts named operations' IDs on spans, as onceward.operation.id. An ID that follows the rules for
// onceward.WithOperation holds no personal data. No option puts keys anywhere.
func WithOperationID() Option { return option(func(c *config) { c.ids = true }) }

// WithHTTPMetrics also records each attempt as http.client.request.duration, by the HTTP conventions. The attributes
// name the server. Don't use WithHTTPMetrics if a table has a host for each tenant, such as shops.
func WithHTTPMetrics() Option { return option(func(c *config) { c.http = true }) }

// New makes a Telemetry. The error says which instrument could not be made. The Telemetry works without that
// instrument.
func New(opts ...Option) (*Telemetry, error) {
	var cfg config
	for _, o := range opts {
		o.apply(&cfg)
	}
	cfg.tracers = cmp.Or(cfg.tracers, otel.GetTracerProvider())
	cfg.meters = cmp.Or(cfg.meters, otel.GetMeterProvider())
	t := &Telemetry{
		cfg:    cfg,
		tracer: cfg.tracers.Tracer(ScopeName, trace.WithInstrumentationVersion(version()), trace.WithSchemaURL(schemaURL)),
		meter:  cfg.meters.Meter(ScopeName, metric.WithInstrumentationVersion(version()), metric.WithSchemaURL(schemaURL)),
	}
	err := t.makeInstruments()
	t.begin()
	return t, err
}

// schemaURL is the version of the conventions for the names.
const schemaURL = "https://opentelemetry.io/schemas/1.40.0"

// version returns this module's version in the program.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path == ScopeName {
			return m.Version
		}
	}
	return ""
}

// maxPlaces bounds the distinct pairs of provider and endpoint.
const maxPlaces = 1000

// other stands for requests that no table lists, and for pairs beyond maxPlaces.
const other = "other"

// place is a provider and an endpoint as metrics have them.
type place struct{ provider, endpoint string }

// known is a place, with the beginning of the place's span names.
type known struct {
	place
	listed  bool   // its endpoint is one of a table
	name    string // of an operation's span
	begins  trace.SpanStartOption
	attempt []trace.SpanStartOption
}

func newKnown(at place, listed bool) *known {
	return &known{
		place: at, listed: listed, name: "onceward " + at.provider + " " + at.endpoint,
		// What samplers go by, and nothing else, since most spans may be dropped.
		begins:  trace.WithAttributes(keyProvider.String(at.provider), keyEndpoint.String(at.endpoint)),
		attempt: []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindClient)},
	}
}

// places are the known ones.
type places struct {
	mu   sync.RWMutex
	seen map[place]*known
}

var elsewhere = newKnown(place{other, other}, false)

func (ps *places) of(provider, endpoint string) *known {
	was := place{provider, endpoint}
	ps.mu.RLock()
	is, ok := ps.seen[was]
	ps.mu.RUnlock()
	if ok {
		return is
	}
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.seen == nil {
		ps.seen = map[place]*known{}
	}
	if len(ps.seen) >= maxPlaces {
		return elsewhere
	}
	is = newKnown(place{cmp.Or(provider, other), cmp.Or(endpoint, other)}, endpoint != "")
	ps.seen[was] = is
	return is
}

// attributes are the sets of attributes, each made once. Their number is bounded, because their parts are.
type attributes struct {
	mu   sync.RWMutex
	made map[attributeKey]made
}

type made struct {
	option metric.MeasurementOption
	add    []metric.AddOption
	record []metric.RecordOption
}

// attributeKey identifies a set of attributes: a place, and at most two more.
type attributeKey struct {
	place
	first, second, third attribute.KeyValue
}

var errInstrument = errors.New("otelonceward: an instrument could not be made")
