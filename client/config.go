// Package client publishes to and subscribes from a Felix broker over QUIC.
//
// A Client is one authenticated identity towards one broker. A Publisher is a pool of
// connections and publish streams with byte admission and pipelined acks, which copies payloads
// (Publish) or lends the frame that they are made in (PublishFunc); a Subscription
// is one broker-opened event stream, read by the goroutine that calls Next. Every queue is
// bounded, what a full queue does is in its policy, and what was dropped, refused or failed
// is counted in Stats.
//
// The package reads no flags, environment or files and logs only to Config.Logger.
package client

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"felix/internal/transport"
	"felix/internal/wire"
)

const (
	defaultPublishConnPool       = 4
	defaultPublishStreamsPerConn = 2
	defaultPublishQueueDepth     = 64
	defaultPublishInflightBytes  = 4 << 20
	defaultEventConnPool         = 8
	defaultSubQueueCapacity      = 256
	defaultAckTimeout            = 30 * time.Second
)

// Config says how to reach a broker and how much may be under way. Addr, Tenant and Token
// are required; every other zero value is a default.
type Config struct {
	// Addr is the broker's UDP address, host:port.
	Addr string
	// TLS is the client's TLS configuration (transport.ClientTLS makes one). If nil, the
	// system's roots are trusted and the server name is localhost. It must offer no ALPN.
	TLS *tls.Config
	// Tenant and Token authenticate every stream that the client opens.
	Tenant, Token string

	// PublishConnPool and PublishStreamsPerConn size a Publisher: one worker (queue, writer,
	// ack reader) a stream. If zero, 4 connections of 2 streams.
	PublishConnPool, PublishStreamsPerConn int
	// PublishQueueDepth is the queue of each worker, in batches. If zero, 64. A full one makes
	// Publish wait.
	PublishQueueDepth int
	// PublishInflightBytes bounds the encoded bytes that a Publisher holds over all its workers:
	// until the write returned (unacked) or the ack arrived (acked). If zero, 4 MiB. A batch
	// larger than the whole budget passes when nothing else is held.
	PublishInflightBytes int64
	// PublishSharding picks the worker of a batch. Zero is ShardHashStream.
	PublishSharding Sharding

	// EventConnPool is the number of connections that subscriptions are spread over, round
	// robin. If zero, 8. Each opens when it is first needed.
	EventConnPool int
	// SubQueueCapacity is the queue of a subscription under PolicyDropNew and PolicyDropOld,
	// in frames. If zero, 256. PolicyBlock has no queue.
	SubQueueCapacity int
	// SubQueuePolicy says what a subscription does when the application is too slow. Zero is
	// PolicyDropNew.
	SubQueuePolicy Policy

	// AckTimeout is how long a written acked publish may stay unanswered before its worker
	// ends. If zero, 30 s.
	AckTimeout time.Duration
	// Encoding is how publishes are encoded. Zero is EncodingBinary.
	Encoding Encoding
	// MaxFrameBytes bounds the body of a frame, sent or received. If zero, 16 MiB.
	MaxFrameBytes int

	// Transport configures every connection. An empty Role becomes "publisher" or
	// "subscriber" after the pool that a connection was opened for, and "client" for the one
	// that Dial opens: set it when a Client does only one of the two.
	Transport transport.Config
	// Trace follows single batches. If nil, none is.
	Trace Trace
	// Logger receives warnings about what has no caller to return an error to. It may be nil.
	Logger *slog.Logger
}

// resolve fills in the defaults and refuses what cannot work.
func (c Config) resolve() (Config, error) {
	setDefault(&c.PublishConnPool, defaultPublishConnPool)
	setDefault(&c.PublishStreamsPerConn, defaultPublishStreamsPerConn)
	setDefault(&c.PublishQueueDepth, defaultPublishQueueDepth)
	setDefault(&c.PublishInflightBytes, defaultPublishInflightBytes)
	setDefault(&c.EventConnPool, defaultEventConnPool)
	setDefault(&c.SubQueueCapacity, defaultSubQueueCapacity)
	setDefault(&c.AckTimeout, defaultAckTimeout)
	setDefault(&c.MaxFrameBytes, wire.DefaultMaxFrameBytes)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}

	var errs []error
	want := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	want(c.Addr != "", "no broker address")
	want(c.Tenant != "", "no tenant")
	want(c.Token != "", "no token")
	want(c.PublishConnPool > 0, "publish pool of %d connections: want at least 1", c.PublishConnPool)
	want(c.PublishStreamsPerConn > 0, "%d publish streams per connection: want at least 1", c.PublishStreamsPerConn)
	want(c.PublishQueueDepth > 0, "publish queue of %d batches: want at least 1", c.PublishQueueDepth)
	want(c.PublishInflightBytes > 0, "publish budget of %d bytes: want at least 1", c.PublishInflightBytes)
	want(c.PublishSharding <= ShardRoundRobin, "sharding %d: want one of %s", c.PublishSharding, choices(shardingNames[:]))
	want(c.EventConnPool > 0, "event pool of %d connections: want at least 1", c.EventConnPool)
	want(c.SubQueueCapacity > 0, "subscription queue of %d frames: want at least 1", c.SubQueueCapacity)
	want(c.SubQueuePolicy <= PolicyBlock, "subscription policy %d: want one of %s", c.SubQueuePolicy, choices(policyNames[:]))
	want(c.AckTimeout > 0, "ack timeout of %v: want more than 0", c.AckTimeout)
	want(c.Encoding <= EncodingJSON, "encoding %d: want one of %s", c.Encoding, choices(encodingNames[:]))
	want(c.MaxFrameBytes > 0, "frames of at most %d bytes: want at least 1", c.MaxFrameBytes)
	if c.TLS == nil {
		t, err := transport.ClientTLS(transport.ClientTLSOptions{})
		want(err == nil, "tls: %w", err)
		c.TLS = t
	}
	return c, errors.Join(errs...)
}

func setDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}
