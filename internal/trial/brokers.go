package trial

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"felix/broker"
	"felix/broker/service"
	"felix/internal/host"
	"felix/internal/measure"
	"felix/internal/runrecord"
	"felix/internal/transport"
	"felix/internal/workload"
)

const (
	// brokerDrain bounds how long our own broker drains when a trial closes it: everything that is wanted has
	// arrived by then.
	brokerDrain = 2 * time.Second
	tokenLife   = 24 * time.Hour
)

// startBroker starts the broker that the topology says, and returns how clients reach it.
func (t *trial) startBroker(ctx context.Context) (middle, *access, error) {
	if x := t.External; x != nil {
		a := &access{Addr: x.Addr, ServerName: x.ServerName, CAPEM: x.CAPEM, PinSHA256: x.PinSHA256, Tenant: x.Tenant, Token: x.Token, Scopes: t.scopes()}
		b := &externalBroker{admin: x.Admin}
		page, err := b.fetch(ctx)
		if err != nil {
			return nil, nil, usage("--broker-admin is the URL that brokerd prints, http://127.0.0.1:8080 by default; leave it out and what was dropped stays unaccounted", "broker admin: %w", err)
		}
		if page != nil {
			t.externalConfig = page.Config
			shed := pageConfig(page.Config["broker"])
			t.Lossless = losslessOf(shed, t.Client.ClientSubQueuePolicy)
			if t.Lossless == runrecord.LosslessAlmost && shed.ingressWait != nil && !*shed.ingressWait {
				t.warn("%s", NotLossless)
			}
			if t.Case.Policy == workload.PolicyLossless && !t.promisesLossless() {
				t.warn("the broker drops where a queue is full, and no policy of ours changes that: what it has dropped and counted is no fault. For a lossless one: brokerd --set subscriber_queue_policy=block --set subscriber_lane_queue_policy=block --set pub_ingress_wait=true")
			}
		}
		return b, a, nil
	}
	certPEM, keyPEM, err := transport.DevelopmentCertificate(time.Now())
	if err != nil {
		return nil, nil, fmt.Errorf("make the broker's certificate: %w", err)
	}
	creds, err := service.NewDevCredentials(time.Now(), tokenLife, t.scopes()...)
	if err != nil {
		return nil, nil, fmt.Errorf("make the broker's keys: %w", err)
	}
	a := &access{CAPEM: certPEM, Tenant: ownTenant, Token: creds.Tokens[ownTenant], Scopes: t.scopes()}
	if len(t.Case.Tenants) > 0 {
		a.Tokens = creds.Tokens
	}
	doc := brokerDoc{CertPEM: certPEM, KeyPEM: keyPEM, JWKS: creds.JWKS}
	if t.BrokerTransport != t.Transport {
		doc.ConnRecvWindow, doc.StreamRecvWindow = t.BrokerTransport.ConnRecvWindow, t.BrokerTransport.StreamRecvWindow
	}
	if t.Case.Topology == workload.TopologyInprocess {
		b, err := openBroker(ctx, t.Plan, doc, t.tag, t.proc.clock, false)
		if err != nil {
			return nil, nil, err
		}
		a.Addr = b.addr()
		return b, a, nil
	}
	settings, err := t.Settings.Marshal()
	if err != nil {
		return nil, nil, err
	}
	c, ready, err := startChild(ctx, t.Plan, "broker", roleDoc{Case: t.Case, Sizes: t.Sizes, Settings: settings, Broker: &doc, Tag: t.tag})
	if err != nil {
		return nil, nil, fmt.Errorf("broker: %w", err)
	}
	a.Addr = ready.Addr
	return remoteBroker{c}, a, nil
}

// localBroker is a broker of this process.
type localBroker struct {
	svc    *service.Service
	ready  service.Ready
	tracer *measure.Tracer // nil: nothing is traced
}

// openBroker starts the service; the settings let the system choose its ports.
func openBroker(ctx context.Context, p *Plan, doc brokerDoc, tag uint32, clock *measure.Clock, ownProcess bool) (*localBroker, error) {
	tracer, err := p.newTracer(tag)
	if err != nil {
		return nil, err
	}
	var trace broker.Trace
	if tracer != nil {
		trace = brokerTrace{tracer, clock}
	}
	b, tr := p.Broker, p.Transport
	if doc.ConnRecvWindow > 0 {
		tr.ConnRecvWindow, tr.StreamRecvWindow = doc.ConnRecvWindow, doc.StreamRecvWindow
	}
	svc, err := service.New(service.Options{Broker: &b, Transport: &tr, CertPEM: doc.CertPEM, KeyPEM: doc.KeyPEM, JWKS: doc.JWKS, Config: p.Settings.Sections, LimitMemory: ownProcess, Trace: trace})
	if err != nil {
		return nil, fmt.Errorf("broker: %w", err)
	}
	ready, err := svc.Start(ctx)
	if err != nil {
		return nil, fmt.Errorf("broker: %w", err)
	}
	return &localBroker{svc: svc, ready: ready, tracer: tracer}, nil
}

func (b *localBroker) addr() string          { return b.ready.Addr }
func (b *localBroker) admin() string         { return b.ready.AdminURL }
func (b *localBroker) dead() <-chan struct{} { return nil }

func (b *localBroker) mark(context.Context, int64) error {
	b.svc.Monitor().Mark()
	return nil
}

func (b *localBroker) counters(context.Context) (*broker.Stats, error) {
	stats := b.svc.Stats()
	return &stats, nil
}

func (b *localBroker) stop(ctx context.Context) (*sideResult, error) {
	_, err := b.svc.Stop(ctx)
	stats := b.svc.Stats() // what was discarded is in it
	return &sideResult{Broker: &stats, Conns: b.svc.Monitor().Timelines(), Traces: b.tracer.Result()}, err
}

// externalBroker is a broker that somebody else runs. What it counts is known if it has an admin page.
type externalBroker struct {
	admin  *url.URL
	marked *service.Document
}

func (b *externalBroker) dead() <-chan struct{} { return nil }

func (b *externalBroker) mark(ctx context.Context, _ int64) (err error) {
	b.marked, err = b.fetch(ctx)
	return err
}

func (b *externalBroker) counters(ctx context.Context) (*broker.Stats, error) {
	page, err := b.fetch(ctx)
	if page == nil {
		return nil, err
	}
	return &page.Broker, nil
}

// maxStatsPage bounds what is read of an admin page.
const maxStatsPage = 64 << 20

// fetch reads /stats. It returns nil without an error if there is no admin page.
func (b *externalBroker) fetch(ctx context.Context) (*service.Document, error) {
	if b.admin == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, b.admin.JoinPath("stats").String(), nil)
	if err != nil {
		return nil, err
	}
	req.Close = true // one page now and then: no idle connection is left behind
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", req.URL, resp.Status)
	}
	var page service.Document
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxStatsPage)).Decode(&page); err != nil {
		return nil, fmt.Errorf("%s: %w", req.URL, err)
	}
	return &page, nil
}

func (b *externalBroker) stop(ctx context.Context) (*sideResult, error) {
	page, err := b.fetch(ctx)
	if page == nil {
		return nil, err
	}
	r := &sideResult{Broker: &page.Broker}
	was := &service.Document{}
	if b.marked != nil {
		was = b.marked
		r.Process = externalUsage(page.Process, was.Process)
	}
	for _, c := range page.Conns {
		line := transport.Timeline{Final: c, Socket: page.Socket, SocketMarked: &was.Socket}
		for i := range was.Conns {
			if was.Conns[i].ID == c.ID {
				line.Marked = &was.Conns[i]
			}
		}
		r.Conns = append(r.Conns, line)
	}
	return r, nil
}

// externalUsage is what the broker's process used since the mark, as far as its page tells.
func externalUsage(now, was service.Process) processResult {
	diff := func(a, b *int64) *int64 {
		if a == nil || b == nil {
			return nil
		}
		n := *a - *b
		return &n
	}
	return processResult{Name: "broker", GOMAXPROCS: now.GOMAXPROCS, Usage: host.Usage{
		UserNs: diff(now.UserNs, was.UserNs), SystemNs: diff(now.SystemNs, was.SystemNs),
		VoluntarySwitches: diff(now.VoluntarySwitches, was.VoluntarySwitches), InvoluntarySwitches: diff(now.InvoluntarySwitches, was.InvoluntarySwitches),
		MaxRSSBytes: now.MaxRSSBytes, GCCycles: int64(now.GCCycles) - int64(was.GCCycles),
		GCPauseNs: int64(now.GCPauseNs) - int64(was.GCPauseNs), Allocs: now.Allocs - was.Allocs,
		AllocBytes: now.AllocBytes - was.AllocBytes, MutexWaitNs: now.MutexWaitNs - was.MutexWaitNs,
	}}
}

// withoutFelix drops the FELIX_* variables.
func withoutFelix(environ []string) []string {
	var out []string
	for _, kv := range environ {
		if !strings.HasPrefix(kv, "FELIX_") {
			out = append(out, kv)
		}
	}
	return out
}
