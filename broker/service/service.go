package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"felix/broker"
	"felix/internal/settings"
	"felix/internal/transport"
)

// Service is one broker. It is started and stopped once.
type Service struct {
	opts    Options
	log     *slog.Logger
	broker  *broker.Broker
	cert    []byte
	key     []byte
	tconf   transport.Config
	monitor *transport.Monitor
	keyed   bool // some tenant has keys

	mu       sync.Mutex
	started  bool
	listener *transport.Listener
	admin    *admin
	memory   *memoryLimit

	ready    atomic.Bool   // /ready says so; false before Start and from the beginning of Stop
	served   chan struct{} // closed when the broker no longer serves
	serveErr error         // why; readable once served is closed

	stopOnce sync.Once
	hard     chan struct{} // closed when the drain is to end now
	hardOnce sync.Once
	report   Report // readable once stopOnce has run
	stopErr  error
}

// Ready says where a started broker is reached. Its JSON form is the line that a child
// process reports to its parent.
type Ready struct {
	Addr     string               `json:"addr"`  // UDP host:port, with the port that was given
	AdminURL string               `json:"admin"` // "http://127.0.0.1:8080"
	Socket   transport.SocketInfo `json:"socket"`
	// Warnings are sentences for a person, besides Socket.Warnings, which the Logger is told:
	// nobody who could log in, nothing to log in for.
	Warnings []string `json:"warnings,omitempty"`
}

// Report is what a stopped broker has to say.
type Report struct {
	// Drained is true if everything accepted was written before the broker closed.
	Drained bool `json:"drained"`
	// DiscardedOnClose counts the deliveries (a message to one subscription) that were still
	// queued when the drain ended.
	DiscardedOnClose uint64        `json:"discarded_on_close"`
	Took             time.Duration `json:"took_ns"`
	Broker           broker.Stats  `json:"broker"` // the last statistics
}

// New reads the files that the options name and checks everything that can be checked
// without opening a socket. What a person can mend is a *settings.Error.
func New(o Options) (*Service, error) {
	o, err := o.resolve()
	if err != nil {
		return nil, err
	}
	bc, err := brokerConfig(o.Broker)
	if err != nil {
		return nil, err
	}
	s := &Service{opts: o, log: o.Logger, served: make(chan struct{}), hard: make(chan struct{})}
	if s.cert, s.key, err = o.certificate(); err != nil {
		return nil, err
	}
	if _, err := transport.ServerTLS(s.cert, s.key); err != nil {
		return nil, &settings.Error{What: err.Error(), Hint: "tls_cert and tls_key must be PEM files that belong together"}
	}
	jwks, err := o.keys()
	if err != nil {
		return nil, err
	}
	keyring, err := broker.NewKeyring(jwks)
	if err != nil {
		return nil, &settings.Error{What: err.Error(), Hint: "auth_jwks wants a JWKS document with Ed25519 keys (kty OKP)"}
	}
	s.keyed = len(jwks) > 0
	bc.Verifier, bc.Logger, bc.Trace = keyring, o.Logger, o.Trace
	if s.broker, err = broker.New(bc); err != nil {
		return nil, err
	}

	// The monitor is always there: with conn_stats_ms 0 it still keeps each connection's end.
	s.monitor = transport.NewMonitor(milliseconds(o.Broker.ConnStats))
	tc := TransportConfig(o.Transport)
	tc.Monitor, tc.Role, tc.Logger, tc.ListenPacket = s.monitor, "broker", o.Logger, o.ListenPacket
	if s.tconf, err = tc.Resolve(); err != nil {
		return nil, err
	}
	return s, nil
}

// CertPEM is the certificate that clients have to trust.
func (s *Service) CertPEM() []byte { return slices.Clone(s.cert) }

// Monitor keeps the statistics of the broker's connections.
func (s *Service) Monitor() *transport.Monitor { return s.monitor }

// Stats is the broker's Stats.
func (s *Service) Stats() broker.Stats { return s.broker.Stats() }

// Start opens the listener and the admin HTTP and begins to serve. It does not block; ctx
// bounds only the opening of sockets. After an error nothing is left open. An address that
// cannot be used is a *settings.Error.
func (s *Service) Start(ctx context.Context) (Ready, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.started {
		return Ready{}, errors.New("the broker was started already")
	}
	tlsConf, err := transport.ServerTLS(s.cert, s.key)
	if err != nil {
		return Ready{}, err
	}
	l, err := transport.Listen(s.opts.Broker.QUICBind, tlsConf, s.tconf)
	if err != nil {
		return Ready{}, &settings.Error{What: err.Error(), Hint: "quic_bind (--quic-bind, FELIX_QUIC_BIND) wants a free UDP address of this machine; port 0 takes any"}
	}
	a, err := startAdmin(ctx, s.opts.Broker.MetricsBind, s.handler())
	if err != nil {
		return Ready{}, errors.Join(&settings.Error{What: err.Error(), Hint: "metrics_bind (--metrics-bind, FELIX_BROKER_METRICS_BIND) wants a free TCP address of loopback; port 0 takes any"}, l.Close())
	}
	s.started, s.listener, s.admin = true, l, a
	if s.opts.LimitMemory {
		s.memory = startMemoryLimit(func() int64 { return s.memoryInUse().Sum() })
	}
	go func() {
		defer close(s.served)
		// Serve ends by Stop, which does not go by this context.
		err := s.broker.Serve(context.WithoutCancel(ctx), l)
		if err != nil && !errors.Is(err, net.ErrClosed) {
			s.serveErr = fmt.Errorf("serve: %w", err)
		}
		s.ready.Store(false)
	}()
	s.ready.Store(true)
	return Ready{Addr: l.Addr().String(), AdminURL: a.url, Socket: l.SocketInfo(), Warnings: s.warnings()}, nil
}

func (s *Service) warnings() []string {
	var w []string
	if !s.keyed {
		w = append(w, "no public keys: every client will be refused (set auth_jwks)")
	}
	if len(s.opts.Broker.Streams) == 0 && len(s.opts.Broker.Caches) == 0 {
		w = append(w, "no stream and no cache is registered: there is nothing to publish to (set streams)")
	}
	if AlmostLossless(s.opts.Broker) {
		w = append(w, NotLossless)
	}
	return w
}

// Done is closed when the broker no longer serves: because of Stop, or because its socket
// failed, which Err then explains.
func (s *Service) Done() <-chan struct{} { return s.served }

// Err is why the broker stopped serving by itself; nil before Done, and after Stop.
func (s *Service) Err() error {
	select {
	case <-s.served:
		return s.serveErr
	default:
		return nil
	}
}

// Stop drains and closes: no new connections, publishes that were read are fanned out, what
// is queued is written, event streams are finished. That is bounded by
// shutdown_drain_timeout_ms and by ctx, whichever ends first; what is left then is discarded
// and counted. /ready says 503 meanwhile. Stop waits for everything the service started.
// A second call waits for the first, and hurries it when its own ctx ends.
func (s *Service) Stop(ctx context.Context) (Report, error) {
	s.mu.Lock()
	started := s.started
	s.started = true // a Start from now on is refused
	s.mu.Unlock()
	unhook := context.AfterFunc(ctx, func() { s.hardOnce.Do(func() { close(s.hard) }) })
	defer unhook()
	s.stopOnce.Do(func() {
		if started {
			s.report, s.stopErr = s.stop()
		} else {
			s.stopErr = s.broker.Close()
		}
	})
	return s.report, s.stopErr
}

func (s *Service) stop() (Report, error) {
	began := time.Now()
	s.ready.Store(false)
	// With a timeout of 0 the context has ended before it begins, which is what 0 says.
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(s.opts.Broker.ShutdownDrainTimeout)*time.Millisecond)
	drained := make(chan struct{})
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		select {
		case <-s.hard:
			cancel()
		case <-drained:
		}
	}()
	discarded, err := s.broker.Shutdown(ctx)
	close(drained)
	<-watching
	cancel()

	r := Report{DiscardedOnClose: discarded, Drained: err == nil && discarded == 0}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		err = nil // that the time was up stands in the report
	}
	err = errors.Join(err, s.broker.Close())
	<-s.served
	r.Broker = s.broker.Stats()
	if e := s.listener.Close(); e != nil && !errors.Is(e, net.ErrClosed) {
		err = errors.Join(err, e)
	}
	if s.memory != nil {
		s.memory.stop()
	}
	// Last, so that the drain can be watched.
	err = errors.Join(err, s.admin.stop(s.hard))
	r.Took = time.Since(began)
	return r, err
}
