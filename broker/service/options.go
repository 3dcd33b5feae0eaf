// Package service is a broker as a process has it: settings, certificate, keys, listener,
// statistics of the connections, admin HTTP and drain. It installs no signal handler and
// takes settings from its caller, so that a program can also run several brokers inside itself.
package service

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"felix/broker"
	"felix/internal/settings"
	"felix/internal/transport"
	"felix/internal/wire"
)

// Options is what New makes a broker of. The zero value is a broker with every default, a
// development certificate and no keys, which lets nobody in.
type Options struct {
	// Broker and Transport are what settings.LoadAll filled; nil means the defaults.
	Broker    *settings.Broker
	Transport *settings.Transport
	// Config is shown under "config" in /stats: Resolved.Sections of the load that filled
	// Broker and Transport. It has no secrets. If nil, /stats says null.
	Config map[string]settings.Document

	// CertPEM and KeyPEM take the place of the files tls_cert and tls_key. If both are empty
	// and no files are set, a development certificate is made.
	CertPEM, KeyPEM []byte
	// JWKS are public keys by tenant, besides the files of auth_jwks. A tenant in both is an error.
	JWKS map[string][]byte

	// LimitMemory sets the memory limit of the whole Go process to what the byte bounds in
	// use add up to, and keeps it there as connections and subscriptions come and go, unless
	// GOMEMLIMIT is set. It is for processes that are a broker and nothing else.
	LimitMemory bool

	// ListenPacket stands in for the UDP socket; see transport.Config.
	ListenPacket func(network, addr string) (net.PacketConn, error)
	// Trace follows single batches through the broker. If nil, none is.
	Trace broker.Trace
	// Logger receives what the broker and its endpoint have to say. If nil, nothing is logged.
	Logger *slog.Logger
}

// resolve fills nil settings with their defaults.
func (o Options) resolve() (Options, error) {
	if o.Broker == nil {
		o.Broker = new(settings.Broker)
		if err := settings.Load(o.Broker, settings.Layers{}); err != nil {
			return o, err
		}
	}
	if o.Transport == nil {
		o.Transport = new(settings.Transport)
		if err := settings.Load(o.Transport, settings.Layers{}); err != nil {
			return o, err
		}
	}
	if (len(o.CertPEM) == 0) != (len(o.KeyPEM) == 0) {
		return o, errors.New("a certificate and its key belong together: one is missing")
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o, nil
}

// brokerConfig translates settings; keys and logger are added by the caller.
func brokerConfig(s *settings.Broker) (broker.Config, error) {
	c := broker.Config{
		MaxFrameBytes:                s.MaxFrameBytes,
		EventBatchMaxEvents:          min(s.EventBatchMaxEvents, max(1, s.FanoutBatchSize)),
		EventBatchMaxBytes:           s.EventBatchMaxBytes,
		SingleEvent:                  s.FanoutBatchSize <= 1,
		EventBatchMaxDelay:           time.Duration(s.EventBatchMaxDelay) * time.Microsecond,
		AckOnCommit:                  s.AckOnCommit,
		AckWait:                      time.Duration(s.AckWaitTimeout) * time.Millisecond,
		PubIngressWait:               s.PubIngressWait,
		PublishQueueWait:             time.Duration(s.PublishQueueWait) * time.Millisecond,
		PubConnInflightBytes:         s.PubConnInflight,
		PubInflightBytes:             s.PubInflightBytes,
		PubQueueDepth:                s.PubQueueDepth,
		PubWorkers:                   s.PubWorkersPerConn,
		CoreShards:                   s.CoreShards,
		SubscriberQueueCapacity:      s.SubscriberQueueCapacity,
		SubscriberQueueMaxBytes:      s.SubscriberQueueMaxBytes,
		SubscriberQueueMaxBytesTotal: s.SubscriberQueueMaxTotal,
		SubscriberLaneQueueDepth:     s.SubscriberLaneDepth,
		SubscriberEgressMaxBytes:     s.SubscriberEgressMax,
		MaxSubscriptionsPerConn:      s.MaxSubscriptionsPerConn,
		LogCapacity:                  s.LogCapacity,
		RingMaxBytes:                 s.RingMaxBytes,
		RingMaxBytesTotal:            s.RingMaxBytesTotal,
	}
	if c.EventBatchMaxDelay == 0 {
		c.EventBatchMaxDelay = -1 // in the configuration 0 is the default
	}
	var err error
	if c.SubscriberQueuePolicy, err = broker.ParsePolicy(s.SubscriberQueuePolicy); err != nil {
		return c, fmt.Errorf("subscriber_queue_policy: %w", err)
	}
	if c.SubscriberLaneQueuePolicy, err = broker.ParsePolicy(s.SubscriberLanePolicy); err != nil {
		return c, fmt.Errorf("subscriber_lane_queue_policy: %w", err)
	}
	if c.Streams, err = scopes(s.Streams); err != nil {
		return c, fmt.Errorf("streams: %w", err)
	}
	if c.Caches, err = scopes(s.Caches); err != nil {
		return c, fmt.Errorf("caches: %w", err)
	}
	return c, nil
}

func scopes(texts []string) ([]wire.Scope, error) {
	var out []wire.Scope
	for _, t := range texts {
		s, err := wire.ParseScope(t)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

// TransportConfig translates settings for either end; monitor, role and logger are the
// caller's. In the settings 0 means off for the two timeouts, in the configuration it is
// the default. With sockets: shared, the connections that are dialled with one translation, or with
// copies of it, share a socket.
func TransportConfig(s *settings.Transport) transport.Config {
	gso, _ := transport.ParseOffload(s.GSO) // the settings have no other texts, but for none: auto
	gro, _ := transport.ParseOffload(s.GRO)
	merge, _ := transport.ParseOffload(s.GSOMerge)
	c := transport.Config{
		ConnRecvWindow:      s.ConnRecvWindow,
		StreamRecvWindow:    s.StreamRecvWindow,
		UDPSendBuffer:       s.UDPSendBuffer,
		UDPRecvBuffer:       s.UDPRecvBuffer,
		UDPBufferForce:      s.UDPBufferForce,
		PacketSize:          s.PacketSize,
		PacketSizeAnywhere:  s.PacketSizeAnywhere,
		DisableMTUDiscovery: !s.MTUDiscovery,
		IdleTimeout:         milliseconds(s.IdleTimeout),
		KeepAlive:           milliseconds(s.KeepAlive),
		GSO:                 gso,
		GRO:                 gro,
		GSOMerge:            merge,
		RecvGateBytes:       s.RecvGateBytes,
	}
	if s.Sockets == "shared" {
		c.Shared = new(transport.SharedSocket)
	}
	return c
}

// milliseconds turns a setting of which 0 is off into a duration of which negative is off.
func milliseconds(ms int) time.Duration {
	if ms == 0 {
		return -1
	}
	return time.Duration(ms) * time.Millisecond
}
