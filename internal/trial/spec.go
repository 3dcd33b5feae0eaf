// Package trial runs one case once and says what can be believed of it. It is the only package that knows both the
// system under test and the bench, and the only maker of measured records.
//
// A trial is a broker, subscribers and publishers, each in the process that the topology says, driven through
// phases: warm-up, a barrier at which publishing stops until everything has arrived, measure, and a drain with
// a deadline. Every wait has an end, so that a lost message never hangs a run.
package trial

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"

	"felix/broker/service"
	"felix/client"
	"felix/internal/runrecord"
	"felix/internal/settings"
	"felix/internal/transport"
	"felix/internal/wire"
	"felix/internal/workload"
	"felix/presets"
)

// Sizes is how much of a case is run, and how long a trial waits. None of it is part of the case's key.
type Sizes struct {
	Total           int64         // messages of the measure phase over all publishers; 0 = auto (no bound when Duration is set)
	Duration        time.Duration // 0 = none
	Warmup          int64         // messages over all publishers; < 0 = auto
	SendWindow      int64         // bytes; 0 = 64 MiB, and the windows of our broker stay as configured
	MaxDeliveries   int64         // ends --total auto; 0 = 3,000,000
	AllowUndersized bool
	IdleTimeout     time.Duration // without a delivery, at the barrier and in the drain; 0 = 5 s
	Seed            uint64
	ConnStats       time.Duration // sampling interval of connection statistics; 0 = 250 ms, < 0 = only at the end
	TraceEvery      int64         // one of so many messages is traced; 0 = by the case, < 0 = none
	Canary          Canary        // slows the system by intention; zero = not at all
}

// DefaultIdleTimeout is how long the barrier and the drain wait without a delivery.
const DefaultIdleTimeout = 5 * time.Second

// External names a broker that is already running.
type External struct {
	Addr       string
	Tenant     string
	Namespace  string
	Stream     string // with several streams, "-1", "-2" … are appended from the second on
	Token      string
	CAPEM      []byte
	PinSHA256  string
	ServerName string
	Admin      *url.URL // nil: its counters are unknown
}

// Spec is everything that a trial is told.
type Spec struct {
	Case     workload.Case
	Sizes    Sizes
	External *External // only with topology external
	YAML     []byte    // settings file, with its name
	YAMLName string
	Environ  []string  // FELIX_* settings
	Binary   string    // runs the roles; "" = this executable
	Args     []string  // what the user typed, for the record
	Stderr   io.Writer // warnings of roles pass through to it
	Progress func(Progress)
	// Pprof are the profiles that every process of the trial takes. They lie in the extras, and the run is perturbed.
	Pprof Profiles
}

// Progress is what a run looks like at a moment, for somebody who watches.
type Progress struct {
	Phase     string // "start", "warm-up", "measure", "drain"
	Elapsed   time.Duration
	Published int64
	Delivered int64 // of the slowest subscriber
	Total     int64 // published messages that end the phase; 0 = not known
}

// UsageError is a spec that cannot be run as it stands: exit code 2.
type UsageError struct {
	Err  error
	Hint string
}

func (e *UsageError) Error() string { return e.Err.Error() }
func (e *UsageError) Unwrap() error { return e.Err }

func usage(hint, format string, args ...any) error {
	return &UsageError{Err: fmt.Errorf(format, args...), Hint: hint}
}

// Plan is a spec with every setting decided.
type Plan struct {
	Spec
	Settings        *settings.Resolved
	Broker          settings.Broker
	Client          settings.Client
	Transport       settings.Transport // of the clients
	BrokerTransport settings.Transport // the same, but for what --send-window sets
	Lossless        runrecord.Lossless
	Warnings        []string
	profiling       *profileDoc // of a trial under way; nil: nothing is profiled
}

// Resolve decides every setting of the spec. What is wrong is a *UsageError.
func (s Spec) Resolve() (*Plan, error) {
	c, err := s.Case.Resolve()
	if err != nil {
		return nil, usage("latencydemo --help lists every flag with its levels", "%w", err)
	}
	s.Case = c
	if err := s.Sizes.Canary.check(&c); err != nil {
		return nil, err
	}
	if c.Burst > 0 && (s.Sizes.Total > 0 || s.Sizes.Duration > 0) {
		return nil, usage("leave --total and --duration out", "--burst %d with --total or --duration: a burst is as long as it is", c.Burst)
	}
	if err := checkPlacement(&c); err != nil {
		return nil, err
	}
	if s.Sizes.TraceEvery > 0 && c.Probe != workload.ProbeNone {
		return nil, usage("leave it out", "--trace-every %d: a probe has no stages", s.Sizes.TraceEvery)
	}
	if s.Sizes.IdleTimeout == 0 {
		s.Sizes.IdleTimeout = DefaultIdleTimeout
	}
	if s.Sizes.MaxDeliveries == 0 {
		s.Sizes.MaxDeliveries = workload.DefaultMaxDeliveries
	}
	if s.Sizes.ConnStats == 0 {
		s.Sizes.ConnStats = 250 * time.Millisecond
	}
	if s.Stderr == nil {
		s.Stderr = io.Discard
	}
	p := &Plan{Spec: s}
	if err := p.checkExternal(); err != nil {
		return nil, err
	}
	if err := p.settle(); err != nil {
		return nil, err
	}
	p.Lossless = p.lossless()
	if p.Lossless == runrecord.LosslessAlmost && p.External == nil {
		p.Warnings = append(p.Warnings, NotLossless)
	}
	if text := s.Sizes.Canary.warning(); text != "" {
		p.Warnings = append(p.Warnings, text)
	}
	if text := p.shallow(); text != "" {
		p.Warnings = append(p.Warnings, text)
	}
	return p, nil
}

// shallow says when a closed loop cannot be as deep as it is told to be: what is in flight holds client admission.
func (p *Plan) shallow() string {
	c := p.Case
	deep := int64(c.Inflight) * int64(c.Publishers)
	fit := p.Client.PublishInflightBytes / int64(c.Batch*(c.LargestMessage()+4))
	if c.Load != workload.LoadClosed || c.Inflight == 1 || deep <= fit || c.Probe != workload.ProbeNone {
		return ""
	}
	return fmt.Sprintf("of %d batches in flight only %d fit into publish_inflight_bytes of %s: the loop is shallower than it says; raise it with --client-set", deep, fit, settings.FormatSize(p.Client.PublishInflightBytes))
}

func (p *Plan) checkExternal() error {
	if p.Case.Topology != workload.TopologyExternal {
		if p.External != nil {
			return usage("add --topology external, or leave the flags of a running broker out", "--broker and its companions need --topology external")
		}
		return nil
	}
	if p.External == nil || p.External.Addr == "" {
		return usage("start one with: go run ./broker/brokerd --dev DIR", "--topology external needs --broker HOST:PORT")
	}
	if len(p.Case.BrokerSet) > 0 {
		return usage("set it where the broker is started", "--broker-set: a broker that is already running cannot be set")
	}
	x := p.External
	if _, err := transport.ClientTLS(transport.ClientTLSOptions{ServerName: x.ServerName, CAPEM: x.CAPEM, PinSHA256: x.PinSHA256}); err != nil {
		return usage("--tls-ca takes a PEM file with a certificate, --tls-pin the 64 hex digits of its SHA-256", "what to trust: %w", err)
	}
	for _, s := range p.scopes() {
		if _, err := wire.ParseScope(s.String()); err != nil {
			return usage("give --tenant, --namespace and --stream as they are registered on the broker", "scope %s: %w", s, err)
		}
	}
	return nil
}

// The scope of a trial with its own broker.
const (
	ownTenant    = "t1"
	ownNamespace = "default"
	ownStream    = "latency"
)

// scopes lists the logical streams: latency, latency-1, latency-2 …, of each tenant.
func (p *Plan) scopes() []wire.Scope {
	tenant, ns, stream := ownTenant, ownNamespace, ownStream
	if x := p.External; x != nil {
		tenant, ns, stream = x.Tenant, x.Namespace, x.Stream
	}
	scopes := make([]wire.Scope, p.Case.AllStreams())
	for i := range scopes {
		scopes[i] = wire.Scope{Tenant: tenant, Namespace: ns, Stream: stream}
		if len(p.Case.Tenants) > 0 {
			scopes[i].Tenant = p.Case.Tenants[p.Case.TenantOfStream(i)].Name
		}
		if n := i % p.Case.Streams; n > 0 {
			scopes[i].Stream += "-" + strconv.Itoa(n)
		}
	}
	return scopes
}

// decided are the settings that a trial sets itself, by what decides them. Setting one of them otherwise would be
// ignored, so it is refused.
var decided = map[string]string{
	"publish_conn_pool": "--pub-conns", "publish_streams_per_conn": "--pub-streams-per-conn", "publish_sharding": "--sharding",
	"event_conn_pool": "--sub-conns", "quic_bind": "the trial", "metrics_bind": "the trial", "streams": "--streams", "caches": "the trial",
	"shutdown_drain_timeout_ms": "the trial", "tls_cert": "the trial", "tls_key": "the trial", "auth_jwks": "the trial", "auth_tenant_id": "--tenant", "auth_token": "--token",
	"conn_stats_ms": "--conn-stats",
}

func (p *Plan) settle() error {
	profile, err := presets.LookupProfile(p.Case.Profile)
	if err != nil {
		return usage("profiles are in presets/profiles.yml", "--profile: %w", err)
	}
	l := settings.Layers{YAML: p.YAML, YAMLName: p.YAMLName, Environ: p.Environ}
	if l.Under, err = under(p.Case, profile); err != nil {
		return err
	}
	for _, set := range []struct {
		section string
		kv      map[string]string
	}{{"broker", p.Case.BrokerSet}, {"client", p.Case.ClientSet}, {"transport", p.Case.TransportSet}} {
		for k, v := range set.kv {
			l.More = append(l.More, settings.Set{Section: set.section, Key: k, Value: v, From: "flag --" + set.section + "-set"})
		}
	}
	loaded, err := settings.LoadAll(l, &p.Broker, &p.Client, &p.Transport)
	if err != nil {
		return settingsUsage(err)
	}
	for key, by := range decided {
		if o := loaded.Origins[key]; o.From != "default" && !(p.External != nil && strings.HasPrefix(key, "auth_")) {
			if by == "the trial" {
				return usage("leave it out", "setting %s (%s): a trial decides it by itself", key, o.From)
			}
			return usage("use "+by+", or leave it out", "setting %s (%s): in a trial %s decides it", key, o.From, by)
		}
	}
	c := p.Case
	var streams []string
	for _, s := range p.scopes() {
		streams = append(streams, s.String())
	}
	for _, s := range []settings.Set{
		{Section: "broker", Key: "quic_bind", Value: "127.0.0.1:0"},
		{Section: "broker", Key: "metrics_bind", Value: "127.0.0.1:0"},
		{Section: "broker", Key: "streams", Value: strings.Join(streams, ",")},
		{Section: "broker", Key: "shutdown_drain_timeout_ms", Value: strconv.FormatInt(brokerDrain.Milliseconds(), 10)},
		{Section: "broker", Key: "conn_stats_ms", Value: strconv.FormatInt(max(0, p.Sizes.ConnStats.Milliseconds()), 10)},
		{Section: "client", Key: "publish_conn_pool", Value: strconv.Itoa(c.PubConns)},
		{Section: "client", Key: "publish_streams_per_conn", Value: strconv.Itoa(c.PubStreamsPerConn)},
		{Section: "client", Key: "publish_sharding", Value: c.Sharding.String()},
		{Section: "client", Key: "event_conn_pool", Value: strconv.Itoa(c.SubConns)},
	} {
		if s.From = "case"; s.Section == "broker" {
			s.From = "trial"
		}
		l.More = append(l.More, s)
	}
	if p.Settings, err = settings.LoadAll(l, &p.Broker, &p.Client, &p.Transport); err != nil {
		return settingsUsage(err)
	}
	p.BrokerTransport = p.Transport
	if p.Sizes.SendWindow > 0 && p.External == nil {
		p.BrokerTransport.ConnRecvWindow = p.Sizes.SendWindow
		p.BrokerTransport.StreamRecvWindow = max(1, p.Sizes.SendWindow/4)
	}
	return nil
}

func settingsUsage(err error) error {
	var e *settings.Error
	if errors.As(err, &e) {
		return &UsageError{Err: err, Hint: e.Hint}
	}
	return &UsageError{Err: err, Hint: "latencydemo --dry-run lists every key with its FELIX_* variable"}
}

// under lists the layers below the user's own settings: the profile, and what the bench's policy means.
func under(c workload.Case, profile presets.Profile) ([]settings.Layer, error) {
	var layers []settings.Layer
	add := func(name string, maps ...map[string]string) {
		var doc strings.Builder
		for _, m := range maps {
			for k, v := range m {
				fmt.Fprintf(&doc, "%s: %s\n", k, v)
			}
		}
		if doc.Len() > 0 {
			layers = append(layers, settings.Layer{Name: name, YAML: []byte(doc.String())})
		}
	}
	// The generator must see every event that reached the client, whatever the broker's policy: a drop in the
	// bench's own queue would be the bench's fault.
	add("policy "+c.Policy.String(), map[string]string{"client_sub_queue_policy": "block"})
	if c.Policy == workload.PolicyLossless {
		// Everything waits, and the queues are small enough that the path cannot swallow a run.
		add("policy lossless", map[string]string{
			"pub_ingress_wait": "true", "subscriber_queue_policy": "block", "subscriber_lane_queue_policy": "block",
			"subscriber_queue_max_bytes": "8MiB", "subscriber_egress_max_bytes": "16MiB",
		})
	}
	// A profile is the more deliberate choice: high_memory means its queues in lossless too.
	add("profile "+c.Profile, profile.Broker, profile.Client, profile.Transport)
	return layers, nil
}

// clientConfig is the client of one role of the trial.
func (p *Plan) clientConfig(addr string, tlsConf *tls.Config, tenant, token, role string, monitor *transport.Monitor, trace client.Trace) (client.Config, error) {
	cfg := client.Config{
		Addr: addr, TLS: tlsConf, Tenant: tenant, Token: token,
		PublishConnPool: p.Client.PublishConnPool, PublishStreamsPerConn: p.Client.PublishStreamsPerConn,
		PublishQueueDepth: p.Client.PublishQueueDepth, PublishInflightBytes: p.Client.PublishInflightBytes,
		EventConnPool: p.Client.EventConnPool, SubQueueCapacity: p.Client.ClientSubQueueCapacity,
		AckTimeout: time.Duration(p.Client.AckTimeout) * time.Millisecond, MaxFrameBytes: p.Client.MaxFrameBytes,
		Transport: transportConfig(p.Transport, role, monitor), Trace: trace,
	}
	if p.Case.Sharding == workload.ShardingRR {
		cfg.PublishSharding = client.ShardRoundRobin
	}
	if p.Case.Encoding == workload.EncodingJSON {
		cfg.Encoding = client.EncodingJSON
	}
	var err error
	cfg.SubQueuePolicy, err = client.ParsePolicy(p.Client.ClientSubQueuePolicy)
	return cfg, err
}

func transportConfig(s settings.Transport, role string, monitor *transport.Monitor) transport.Config {
	c := service.TransportConfig(&s)
	c.Monitor, c.Role = monitor, role
	return c
}
