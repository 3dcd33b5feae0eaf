package trial

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"felix/broker"
	"felix/client"
	"felix/internal/measure"
	"felix/internal/runrecord"
	"felix/internal/transport"
)

// tenants lists who connects: the tenants of the case, or the one of the access.
func (p *Plan) tenants(a *access) []string {
	if len(p.Case.Tenants) == 0 {
		return []string{a.Tenant}
	}
	names := make([]string, len(p.Case.Tenants))
	for i, t := range p.Case.Tenants {
		names[i] = t.Name
	}
	return names
}

func (a *access) tokenOf(tenant string) string { return cmp.Or(a.Tokens[tenant], a.Token) }

// dialAll connects one role to the broker, once a tenant.
func dialAll(ctx context.Context, p *Plan, a *access, role string, monitor *transport.Monitor, trace client.Trace) ([]*client.Client, error) {
	var clients []*client.Client
	shared := new(transport.SharedSocket) // with sockets shared, that of the role: for all of its tenants
	for _, tenant := range p.tenants(a) {
		c, err := dial(ctx, p, a, tenant, role, monitor, shared, trace)
		if err != nil {
			return nil, errors.Join(err, closeAll(ctx, clients))
		}
		clients = append(clients, c)
	}
	return clients, nil
}

func closeAll(ctx context.Context, clients []*client.Client) error {
	var errs []error
	for _, c := range clients {
		errs = append(errs, c.Close(ctx))
	}
	return errors.Join(errs...)
}

// fillersOf is what a receiver compares with: the one filler of a case, or those of its payload mix.
func fillersOf(p *Plan) (*measure.Filler, []*measure.Filler) {
	var all []*measure.Filler
	for _, size := range p.Case.PayloadSizes() {
		all = append(all, measure.NewFiller(p.Sizes.Seed, size))
	}
	if len(all) == 1 {
		return all[0], nil
	}
	return nil, all
}

// addStats adds what the record shows of publishers.
func addStats(a, b client.PublisherStats) client.PublisherStats {
	a.Written += b.Written
	a.BlockedAdmissionNs += b.BlockedAdmissionNs
	a.BlockedQueueNs += b.BlockedQueueNs
	a.BlockedWriteNs += b.BlockedWriteNs
	a.AdmittedHighWaterBytes = max(a.AdmittedHighWaterBytes, b.AdmittedHighWaterBytes)
	a.QueueHighWater = max(a.QueueHighWater, b.QueueHighWater)
	a.QUICStreamsUsed = slices.Concat(a.QUICStreamsUsed, b.QUICStreamsUsed)
	for _, w := range []struct {
		to   *client.Wakeups
		from client.Wakeups
	}{{&a.WriterWakeups, b.WriterWakeups}, {&a.AckWakeups, b.AckWakeups}} {
		w.to.Count += w.from.Count
		w.to.Items += w.from.Items
		w.to.Bytes += w.from.Bytes
	}
	return a
}

// tenantRecords are the figures of each tenant of a case that has several: what it offered, what arrived, what was
// dropped where, and how long it took.
func (t *trial) tenantRecords(senders []measure.SenderResult, receivers []measure.ReceiverResult, l measure.Ledger) []runrecord.Tenant {
	var out []runrecord.Tenant
	c := t.Case
	for i, tenant := range c.Tenants {
		r := runrecord.Tenant{Name: tenant.Name, RateMsgsPerSec: tenant.Rate}
		var sent []measure.SenderResult
		for _, s := range senders {
			if int(s.Publisher)/c.Publishers == i {
				sent = append(sent, s)
			}
		}
		var got []measure.ReceiverResult
		sum := &ledgerSum{}
		for j, a := range l.Subscribers {
			if c.TenantOfStream(int(a.Stream)) == i {
				got = append(got, receivers[j])
				sum.add(a)
			}
		}
		r.Expected, r.Delivered, r.Lost, r.Unaccounted, r.Dropped = sum.expected, sum.delivered, sum.lost, sum.unaccounted, sum.dropped()
		m, err := measure.Merge(sent, got)
		if err != nil {
			t.invalid("tenant %s: %v", tenant.Name, err) // all together fitted
			continue
		}
		r.Offered, r.Published = int64(m.Offered), int64(m.Published)
		r.PublishedMsgsPerSec, r.DeliveredMsgsPerSec = m.Rates.PublishedMsgsPerSec, m.Rates.DeliveredMsgsPerSec
		r.DeliveredBytesPerSec = m.Rates.DeliveredBytesPerSec
		if m.EndToEnd != nil && m.EndToEnd.N() > 0 {
			s := m.EndToEnd.Summary()
			r.P50Ns, r.P99Ns = s.P50Ns, s.P99Ns
		}
		out = append(out, r)
	}
	return out
}

// ledgerSum adds up subscribers. What is not known of one is not known of all.
type ledgerSum struct {
	expected, delivered, lost, unaccounted int64
	drops                                  [4]knownCount
}

type knownCount struct {
	n       int64
	unknown bool
}

func (k *knownCount) add(n *uint64) {
	if n == nil {
		k.unknown = true
		return
	}
	k.n += int64(*n)
}

func (k *knownCount) total() *int64 {
	if k.unknown {
		return nil
	}
	n := k.n
	return &n
}

func (s *ledgerSum) add(a measure.SubscriberAccount) {
	s.expected += int64(a.Expected)
	s.delivered += int64(a.Delivered)
	s.lost += a.Lost
	s.unaccounted += a.Unaccounted
	for i, n := range []*uint64{a.Dropped.Ingress, a.Dropped.Subscriber, a.Dropped.Writer, a.Dropped.Client} {
		s.drops[i].add(n)
	}
}

func (s *ledgerSum) dropped() runrecord.Dropped {
	return runrecord.Dropped{Ingress: s.drops[0].total(), Subscriber: s.drops[1].total(), Writer: s.drops[2].total(), Client: s.drops[3].total()}
}

// ingressOf is what was dropped at checkpoints 3 and 4 since base, by the stream's index.
func (t *trial) ingressOf(now, base *broker.Stats) map[uint16]uint64 {
	out := map[uint16]uint64{}
	for i, scope := range t.access.Scopes {
		out[uint16(i)] = streamOf(now, scope.String()).IngressDroppedMsgs - streamOf(base, scope.String()).IngressDroppedMsgs
	}
	return out
}

func streamOf(s *broker.Stats, scope string) broker.StreamStats {
	for _, one := range s.Streams {
		if one.Scope == scope {
			return one
		}
	}
	return broker.StreamStats{}
}
