package broker

import (
	"fmt"
	"log/slog"
	"strings"
	"time"

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
	// SingleEvent sends every event in a frame of its own: the latency profile. A place in the
	// writer's queue is then a published batch.
	SingleEvent bool

	// EventBatchMaxDelay is how long a frame that has room for more may be held back for it, from
	// its first batch on, while the writer is busy with earlier ones. A frame for an idle writer
	// never waits. If zero, 250 us; if negative, a frame has what came at once.
	EventBatchMaxDelay time.Duration

	// PubConnInflightBytes and PubInflightBytes bound the bytes of frames that were read and are
	// not fanned out yet (checkpoint 3), per connection and in all. A larger publish passes alone.
	// If zero, 16 MiB and 64 MiB.
	PubConnInflightBytes, PubInflightBytes int64
	// PubQueueDepth is checkpoint 4, in publishes: PubQueueDepth x PubWorkers wait in all, and
	// PubQueueDepth of each tenant always find room. If zero, 64.
	PubQueueDepth int
	// PubWorkers is how many publishes may be executed at once, of different streams. If zero, 4.
	PubWorkers int
	// PubIngressWait makes publishes that find no room at 3 or 4 wait, and with them the stream
	// that they came on, instead of being shed (unacked) or refused (acked).
	PubIngressWait bool
	// AckOnCommit acks a publish when it was fanned out; otherwise when it was accepted. An acked
	// publish then waits for room at 3 and 4, for PublishQueueWait at most.
	AckOnCommit bool
	// PublishQueueWait is the one deadline over both checkpoints; AckWait bounds how long a commit
	// ack may take. If zero, 2 s each.
	PublishQueueWait, AckWait time.Duration
	// CoreShards is how many pinned shards publishes and feeders run on. If zero, none. A shard
	// executes one publish at a time and has its part of PubQueueDepth x PubWorkers.
	CoreShards int

	// SubscriberQueueCapacity is the queue of each subscription, in published batches (checkpoint
	// 5). If zero, 512.
	SubscriberQueueCapacity int
	// SubscriberQueueMaxBytes bounds the same queue in bytes of event frames. A batch that is
	// larger passes alone. If zero, 64 MiB.
	SubscriberQueueMaxBytes int64
	// SubscriberQueuePolicy says what happens when the queue is full. The zero value drops what
	// is new.
	SubscriberQueuePolicy Policy

	// SubscriberQueueMaxBytesTotal bounds what all subscriptions together hold from checkpoint 5
	// until it is written. If zero, 512 MiB.
	SubscriberQueueMaxBytesTotal int64

	// SubscriberLaneQueueDepth is the writer's queue of each subscription, in frames (checkpoint
	// 6). If zero, 64. SubscriberLaneQueuePolicy says what happens to a frame that finds it full;
	// the zero value drops what is new. Until a new subscription has caught up with its replay,
	// nothing is dropped here.
	SubscriberLaneQueueDepth  int
	SubscriberLaneQueuePolicy Policy
	// SubscriberEgressMaxBytes bounds the bytes of a connection between its subscriptions' queues
	// and the wire; each live subscription may hold an equal share. While its share is full, what
	// is published waits in its queue at checkpoint 5. A frame larger than the share passes alone.
	// If zero, 256 MiB.
	SubscriberEgressMaxBytes int64

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
	// Trace follows single batches. If nil, none is.
	Trace Trace
	// Logger receives refused clients at warning level and the rest at debug level. If nil,
	// nothing is logged.
	Logger *slog.Logger
}

const (
	defaultEventBatchMaxEvents     = 64
	defaultEventBatchMaxBytes      = 64 << 10
	defaultSubscriberQueueCapacity = 512
	defaultSubscriberQueueMaxBytes = 64 << 20
	defaultEventBatchMaxDelay      = 250 * time.Microsecond
	defaultPubConnInflightBytes    = 16 << 20
	defaultPubInflightBytes        = 64 << 20
	defaultPubQueueDepth           = 64
	defaultPubWorkers              = 4
	defaultPublishQueueWait        = 2 * time.Second
	defaultAckWait                 = 2 * time.Second
	defaultSubscriberQueueMaxTotal = 512 << 20
	defaultSubscriberLaneDepth     = 64
	defaultSubscriberEgressMax     = 256 << 20
	defaultMaxSubscriptionsPerConn = 4096
	defaultLogCapacity             = 1024
	defaultRingMaxBytes            = 64 << 20
	defaultRingMaxBytesTotal       = 256 << 20

	// minFrameBytes leaves room for an auth frame with a token.
	minFrameBytes = 4 << 10
	maxFrameBytes = 1 << 30
	maxCoreShards = 1024
)

// def sets a field that is zero.
func def[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

// Resolve returns the configuration with its defaults filled in, or an error that names the
// field that makes no sense. Resolving twice changes nothing.
func (c Config) Resolve() (Config, error) {
	def(&c.MaxFrameBytes, wire.DefaultMaxFrameBytes)
	def(&c.EventBatchMaxEvents, defaultEventBatchMaxEvents)
	def(&c.EventBatchMaxBytes, defaultEventBatchMaxBytes)
	def(&c.SubscriberQueueCapacity, defaultSubscriberQueueCapacity)
	def(&c.SubscriberQueueMaxBytes, defaultSubscriberQueueMaxBytes)
	def(&c.EventBatchMaxDelay, defaultEventBatchMaxDelay)
	def(&c.PubConnInflightBytes, defaultPubConnInflightBytes)
	def(&c.PubInflightBytes, defaultPubInflightBytes)
	def(&c.PubQueueDepth, defaultPubQueueDepth)
	def(&c.PubWorkers, defaultPubWorkers)
	def(&c.PublishQueueWait, defaultPublishQueueWait)
	def(&c.AckWait, defaultAckWait)
	def(&c.SubscriberQueueMaxBytesTotal, defaultSubscriberQueueMaxTotal)
	def(&c.SubscriberLaneQueueDepth, defaultSubscriberLaneDepth)
	def(&c.SubscriberEgressMaxBytes, defaultSubscriberEgressMax)
	def(&c.MaxSubscriptionsPerConn, defaultMaxSubscriptionsPerConn)
	def(&c.LogCapacity, defaultLogCapacity)
	def(&c.RingMaxBytes, defaultRingMaxBytes)
	def(&c.RingMaxBytesTotal, defaultRingMaxBytesTotal)

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
		{"publish inflight bytes per connection", c.PubConnInflightBytes},
		{"publish inflight bytes", c.PubInflightBytes},
		{"publish queue depth", int64(c.PubQueueDepth)},
		{"publish workers", int64(c.PubWorkers)},
		{"publish queue wait", int64(c.PublishQueueWait)},
		{"ack wait", int64(c.AckWait)},
		{"subscriber queue max bytes total", c.SubscriberQueueMaxBytesTotal},
		{"subscriber lane queue depth", int64(c.SubscriberLaneQueueDepth)},
		{"subscriber egress max bytes", c.SubscriberEgressMaxBytes},
		{"max subscriptions per connection", int64(c.MaxSubscriptionsPerConn)},
		{"log capacity", int64(c.LogCapacity)},
		{"ring max bytes", c.RingMaxBytes},
		{"ring max bytes total", c.RingMaxBytesTotal},
	} {
		if f.v < 1 {
			return c, fmt.Errorf("%s %d: want at least 1", f.name, f.v)
		}
	}
	if c.CoreShards < 0 || c.CoreShards > maxCoreShards {
		return c, fmt.Errorf("core shards %d: want 0 to %d", c.CoreShards, maxCoreShards)
	}
	if _, err := c.SubscriberQueuePolicy.MarshalText(); err != nil {
		return c, fmt.Errorf("subscriber queue policy: %w", err)
	}
	if _, err := c.SubscriberLaneQueuePolicy.MarshalText(); err != nil {
		return c, fmt.Errorf("subscriber lane queue policy: %w", err)
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
