package trial

import (
	"encoding/json"
	"time"

	"felix/broker"
	"felix/client"
	"felix/internal/build"
	"felix/internal/host"
	"felix/internal/runrecord"
	"felix/internal/settings"
	"felix/internal/workload"
)

// buildAndHost says what was measured, and on what.
func (t *trial) buildAndHost(r *runrecord.Record) {
	id := build.Identify("")
	r.Build = runrecord.Build{
		Commit: id.Commit, Dirty: id.Dirty, TreeDigest: id.TreeDigest, BenchDigest: id.BenchDigest, BinarySHA256: id.BinarySHA256,
		Source: string(id.Source), Go: id.Go, QuicGo: id.QuicGo, Race: id.Race, Optimized: id.Optimized, PGO: id.PGO, Coverage: id.Coverage,
	}
	t.warnings = append(t.warnings, id.Warnings...)
	if id.Race {
		r.Perturbed = append(r.Perturbed, "race")
	}
	if id.Coverage {
		r.Perturbed = append(r.Perturbed, "coverage")
	}
	if !id.Optimized {
		r.Perturbed = append(r.Perturbed, "not optimized")
	}
	facts := host.Facts()
	r.Host.Fingerprint = facts.Fingerprint
	r.Host.Facts, _ = json.Marshal(facts) // plain data
}

// costs fills processes, noise, UDP counters, checkpoints, wake-ups and the clock.
func (t *trial) costs(r *runrecord.Record) {
	results := []processResult{t.proc.result()}
	for _, side := range []*sideResult{t.results.broker, t.results.pubs, t.results.subs} {
		if side != nil && side.Process.Name != "" {
			results = append(results, side.Process)
		}
	}
	var own int64
	clock := runrecord.Clock{}
	r.Processes = []runrecord.Process{}
	for _, p := range results {
		own += p.Usage.CPUNs()
		t.warnings = append(t.warnings, p.Warn...)
		clock.Source = p.Clock.Source
		clock.BaseErrorNs = max(clock.BaseErrorNs, p.Clock.BaseErrorNs)
		clock.DriftNs = max(clock.DriftNs, abs(p.Clock.DriftNs))
		r.Processes = append(r.Processes, processRecord(p))
	}
	r.Clock = &clock
	if limit := int64(time.Millisecond); clock.DriftNs > limit {
		t.warn("the clock moved %v against the system's: latencies are off by as much", time.Duration(clock.DriftNs))
	}
	if t.markAt == 0 {
		return
	}
	t.noiseRecord(r, own)
	if t.udp != nil {
		r.UDP = t.udp
	}
	r.Checkpoints = t.checkpoints()
	r.Wakeups = t.wakeups()
}

func abs(n int64) int64 { return max(n, -n) }

func (t *trial) noiseRecord(r *runrecord.Record, own int64) {
	n := t.noise.Stop(own)
	if n.Grade == nil {
		t.warn("noise of the machine not known: %s", n.Unavailable)
		return
	}
	r.Host.Noise = &runrecord.Noise{Grade: string(*n.Grade), OthersCPU: n.OthersCPU, Steal: n.Steal, Load: n.Load}
	if *n.Grade != host.Quiet {
		t.warn("the machine was %s: %.0f %% of its CPU went to others, %.0f %% was stolen", *n.Grade, 100**n.OthersCPU, 100**n.Steal)
	}
}

func processRecord(p processResult) runrecord.Process {
	u := p.Usage
	allocs, allocBytes := int64(u.Allocs), int64(u.AllocBytes)
	return runrecord.Process{
		Name: p.Name, Pid: p.Pid, GOMAXPROCS: p.GOMAXPROCS, CPUs: p.CPUs, TimerSlackNs: p.TimerSlack, UserNs: u.UserNs, SystemNs: u.SystemNs,
		VoluntarySwitches: u.VoluntarySwitches, InvoluntarySwitches: u.InvoluntarySwitches, MaxRSSBytes: u.MaxRSSBytes,
		GCCycles: &u.GCCycles, GCPauseNs: &u.GCPauseNs, Allocs: &allocs, AllocBytes: &allocBytes,
		SchedLatencyP99Ns: u.SchedLatencyP99Ns, MutexWaitNs: &u.MutexWaitNs,
	}
}

// udpSince is the kernel's count since before, nil where the system does not tell.
func udpSince(before host.UDP) *runrecord.UDP {
	d := host.ReadUDP().Sub(before)
	if d.InDatagrams == nil || d.OutDatagrams == nil || d.InErrors == nil || d.RcvbufErrors == nil || d.SndbufErrors == nil {
		return nil
	}
	return &runrecord.UDP{
		InDatagrams: int64(*d.InDatagrams), OutDatagrams: int64(*d.OutDatagrams), InErrors: int64(*d.InErrors),
		RcvbufErrors: int64(*d.RcvbufErrors), SndbufErrors: int64(*d.SndbufErrors),
	}
}

func (t *trial) wakeups() []runrecord.Wakeup {
	out := []runrecord.Wakeup{}
	add := func(place string, count, items, bytes uint64) {
		out = append(out, wakeupRecord(place, count, items, bytes))
	}
	total := func(place string, w client.Wakeups) { add(place, w.Count, w.Items, w.Bytes) }
	if p := t.results.pubs; p != nil && p.Publisher != nil {
		total("publish writer", p.Publisher.WriterWakeups)
		total("ack reader", p.Publisher.AckWakeups)
	}
	if subs := t.results.subs; subs != nil {
		var all client.Wakeups
		for _, r := range subs.Receivers {
			all.Count += r.Stats.Wakeups.Count
			all.Items += r.Stats.Wakeups.Items
			all.Bytes += r.Stats.Wakeups.Bytes
		}
		total("event reader", all)
	}
	if m := t.results.broker; m != nil && m.Relay != nil {
		add("relay reader", m.Relay.Reads.Count, m.Relay.Reads.Items, m.Relay.Reads.Bytes)
		if t.Case.Fanout > 1 {
			add("relay writer", m.Relay.Writes.Count, m.Relay.Writes.Items, m.Relay.Writes.Bytes)
		}
	}
	if now := t.results.counters; now != nil {
		for _, w := range now.Wakeups {
			var was broker.Wakeup
			if t.base != nil {
				for _, b := range t.base.Wakeups {
					if b.Place == w.Place {
						was = b
					}
				}
			}
			add(w.Place, w.Count-was.Count, w.Items-was.Items, w.Bytes-was.Bytes)
		}
	}
	out = append(out, t.socketWakeups()...)
	return out
}

func wakeupRecord(place string, count, items, bytes uint64) runrecord.Wakeup {
	w := runrecord.Wakeup{Place: place, Count: int64(count)}
	if count > 0 {
		perItem, perByte := float64(items)/float64(count), float64(bytes)/float64(count)
		w.ItemsPerWakeup, w.BytesPerWakeup = &perItem, &perByte
	}
	return w
}

// configRecord is every effective setting. What --send-window sets on the listening end alone stands beside the
// transport's key, with its own origin.
func (t *trial) configRecord() runrecord.Config {
	show := func(doc settings.Document) map[string]runrecord.Setting {
		out := map[string]runrecord.Setting{}
		for key, o := range doc {
			out[key] = runrecord.Setting{Value: o.Value, From: o.From}
		}
		return out
	}
	section := func(name string) map[string]runrecord.Setting { return show(t.Settings.Sections[name]) }
	c := runrecord.Config{Broker: section("broker"), Client: section("client"), Transport: section("transport"), Sockets: t.sockets()}
	if t.External != nil {
		c.Broker = nil // not ours to know, but for what its page tells
		if t.externalConfig != nil {
			c.Broker = show(t.externalConfig["broker"])
		}
	}
	if t.BrokerTransport != t.Transport {
		end := "broker"
		if t.Case.Probe != workload.ProbeNone {
			end = "listening end"
		}
		c.Transport["conn_recv_window ("+end+")"] = runrecord.Setting{Value: t.BrokerTransport.ConnRecvWindow, From: "flag --send-window"}
		c.Transport["stream_recv_window ("+end+")"] = runrecord.Setting{Value: t.BrokerTransport.StreamRecvWindow, From: "flag --send-window"}
	}
	return c
}
