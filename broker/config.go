package broker

import (
	"fmt"
	"log/slog"
	"strings"

	"felix/internal/wire"
)

// Config sets a broker. The zero value is usable: it serves no stream and, having no Verifier,
// lets nobody in.
type Config struct {
	// MaxFrameBytes bounds the body of every frame, both ways. If zero, 16 MiB.
	MaxFrameBytes int

	// EventBatchMaxEvents and EventBatchMaxBytes bound what is coalesced into one event frame when
	// several batches wait. A published batch that is larger goes as it is, unsplit. If zero, 64
	// events and 65,536 bytes.
	EventBatchMaxEvents, EventBatchMaxBytes int
	// SingleEvent sends every event in a frame of its own and joins nothing: the latency profile.
	SingleEvent bool

	// SubscriberQueueCapacity is the queue of each subscription, in published batches (checkpoint
	// 5). If zero, 512.
	SubscriberQueueCapacity int
	// SubscriberQueueMaxBytes bounds the same queue in bytes of event frames, counting what is
	// being written. A batch that is larger passes alone. If zero, 64 MiB.
	SubscriberQueueMaxBytes int64
	// SubscriberQueuePolicy says what happens when the queue is full. The zero value drops what
	// is new.
	SubscriberQueuePolicy Policy

	// MaxSubscriptionsPerConn bounds the live subscriptions of a connection. If zero, 4,096.
	MaxSubscriptionsPerConn int

	// LogCapacity is the replay ring of each stream, in payloads. If zero, 1,024.
	LogCapacity int
	// RingMaxBytes bounds the same ring in bytes kept alive, whole batch buffers; RingMaxBytesTotal
	// bounds all rings together. If zero, 64 MiB and 256 MiB.
	RingMaxBytes, RingMaxBytesTotal int64

	// Streams are the streams that exist. Naming one twice means no more than once.
	Streams []wire.Scope
	// Caches are the caches that exist; a Scope's Stream is the cache's name.
	Caches []wire.Scope

	// Verifier decides who may do what. If nil, every client is refused.
	Verifier Verifier
	// Logger receives refused clients at warning level and the rest at debug level. If nil,
	// nothing is logged.
	Logger *slog.Logger
}

const (
	defaultEventBatchMaxEvents     = 64
	defaultEventBatchMaxBytes      = 64 << 10
	defaultSubscriberQueueCapacity = 512
	defaultSubscriberQueueMaxBytes = 64 << 20
	defaultMaxSubscriptionsPerConn = 4096
	defaultLogCapacity             = 1024
	defaultRingMaxBytes            = 64 << 20
	defaultRingMaxBytesTotal       = 256 << 20

	// minFrameBytes leaves room for an auth frame with a token.
	minFrameBytes = 4 << 10
	maxFrameBytes = 1 << 30
)

// Resolve returns the configuration with its defaults filled in, or an error that names the
// field that makes no sense. Resolving twice changes nothing.
func (c Config) Resolve() (Config, error) {
	def := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	def64 := func(v *int64, d int64) {
		if *v == 0 {
			*v = d
		}
	}
	def(&c.MaxFrameBytes, wire.DefaultMaxFrameBytes)
	def(&c.EventBatchMaxEvents, defaultEventBatchMaxEvents)
	def(&c.EventBatchMaxBytes, defaultEventBatchMaxBytes)
	def(&c.SubscriberQueueCapacity, defaultSubscriberQueueCapacity)
	def64(&c.SubscriberQueueMaxBytes, defaultSubscriberQueueMaxBytes)
	def(&c.MaxSubscriptionsPerConn, defaultMaxSubscriptionsPerConn)
	def(&c.LogCapacity, defaultLogCapacity)
	def64(&c.RingMaxBytes, defaultRingMaxBytes)
	def64(&c.RingMaxBytesTotal, defaultRingMaxBytesTotal)

	if c.MaxFrameBytes < minFrameBytes || c.MaxFrameBytes > maxFrameBytes {
		return c, fmt.Errorf("max frame of %d bytes: want %d to %d", c.MaxFrameBytes, minFrameBytes, maxFrameBytes)
	}
	for _, f := range []struct {
		name string
		v    int64
	}{
		{"event batch max events", int64(c.EventBatchMaxEvents)},
		{"event batch max bytes", int64(c.EventBatchMaxBytes)},
		{"subscriber queue capacity", int64(c.SubscriberQueueCapacity)},
		{"subscriber queue max bytes", c.SubscriberQueueMaxBytes},
		{"max subscriptions per connection", int64(c.MaxSubscriptionsPerConn)},
		{"log capacity", int64(c.LogCapacity)},
		{"ring max bytes", c.RingMaxBytes},
		{"ring max bytes total", c.RingMaxBytesTotal},
	} {
		if f.v < 1 {
			return c, fmt.Errorf("%s %d: want at least 1", f.name, f.v)
		}
	}
	if _, err := c.SubscriberQueuePolicy.MarshalText(); err != nil {
		return c, fmt.Errorf("subscriber queue policy: %w", err)
	}
	for _, set := range []struct {
		kind   string
		scopes []wire.Scope
	}{{"stream", c.Streams}, {"cache", c.Caches}} {
		for _, s := range set.scopes {
			if err := checkScope(s); err != nil {
				return c, fmt.Errorf("%s %q: %w", set.kind, s.String(), err)
			}
		}
	}
	if c.Verifier == nil {
		c.Verifier = refuseAll{}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

// checkScope refuses scopes that have no text form and could not be named by a permission.
func checkScope(s wire.Scope) error {
	for _, part := range []string{s.Tenant, s.Namespace, s.Stream} {
		if part == "" || strings.Contains(part, "/") {
			return fmt.Errorf("want three parts without a slash, as in t1/default/demo")
		}
		if len(part) > 0xFFFF {
			return fmt.Errorf("a part of %d bytes: want at most 65535", len(part))
		}
	}
	return nil
}

// joinBytes is the bound on items in one coalesced frame: EventBatchMaxBytes, but never so much
// that the frame would pass MaxFrameBytes at the client.
func (c *Config) joinBytes() int {
	return min(c.EventBatchMaxBytes, c.MaxFrameBytes-eventHeadBytes)
}
