package trial

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"

	"felix/internal/measure"
	"felix/internal/runrecord"
	"felix/internal/transport"
)

// Outcome is a finished run: its record, small enough for one line, and what is too large for it.
type Outcome struct {
	Record *runrecord.Record
	// Extras are files for beside the record, by name: the whole time line of every connection, the whole interval
	// series, every histogram, every traced delivery, every profile.
	Extras map[string][]byte
}

// Names of the extras.
const (
	connsFile      = "connections.jsonl"
	intervalsFile  = "intervals.json"
	histogramsFile = "histograms.json"
	tracesFile     = "traces.jsonl"
)

// connLine is one connection end in connections.jsonl.
type connLine struct {
	ID string `json:"id"` // as in the record's conns
	transport.Timeline
}

func (t *trial) outcome(r *runrecord.Record, merged *measure.Merged) (*Outcome, error) {
	o := &Outcome{Record: r, Extras: map[string][]byte{}}
	var conns bytes.Buffer
	e := json.NewEncoder(&conns)
	for _, end := range t.ends() {
		if err := e.Encode(connLine{ID: end.process + "/" + end.Final.ID, Timeline: end.Timeline}); err != nil {
			return nil, fmt.Errorf("connection time lines: %w", err)
		}
	}
	o.Extras[connsFile] = conns.Bytes()
	if merged != nil {
		var err error
		if o.Extras[intervalsFile], err = json.Marshal(merged.Intervals); err != nil {
			return nil, fmt.Errorf("intervals: %w", err)
		}
	}
	if len(t.journeys) > 0 {
		var err error
		if o.Extras[tracesFile], err = t.tracesLines(); err != nil {
			return nil, err
		}
	}
	histograms, err := json.Marshal(r.Latency)
	if err != nil {
		return nil, fmt.Errorf("histograms: %w", err)
	}
	o.Extras[histogramsFile] = histograms
	profiles, err := t.profileFiles()
	if err != nil {
		return nil, err
	}
	maps.Copy(o.Extras, profiles)
	return o, trim(r)
}

// trim leaves out of the record what is least missed until it is small enough for its line, and says what.
func trim(r *runrecord.Record) error {
	drop := func(d *runrecord.Distribution) {
		if d != nil {
			d.HDR = nil
		}
	}
	for _, step := range []struct {
		what string
		do   func()
	}{
		{"histograms of network, publish_delay and ack_rtt: " + histogramsFile, func() {
			drop(r.Latency.Network)
			drop(r.Latency.PublishDelay)
			drop(r.Latency.AckRTT)
		}},
		{"intervals joined in twos: " + intervalsFile, func() { joinIntervals(r) }},
		{"connections beyond the 12 busiest: " + connsFile, func() { r.Conns = r.Conns[:min(len(r.Conns), 12)] }},
		{"histogram of end_to_end: " + histogramsFile, func() { drop(r.Latency.EndToEnd) }},
		{"intervals joined in fours: " + intervalsFile, func() { joinIntervals(r) }},
		{"missing ranges beyond the first of each subscriber", func() {
			for i := range r.Subscribers {
				r.Subscribers[i].Missing = r.Subscribers[i].Missing[:min(len(r.Subscribers[i].Missing), 1)]
			}
		}},
	} {
		line, err := r.Encode()
		if err != nil {
			return err
		}
		if len(line) <= runrecord.MaxBytes {
			return nil
		}
		step.do()
		r.Trimmed = append(r.Trimmed, step.what)
	}
	return nil // wide fanouts may be larger: their subscribers are not left out
}

// joinIntervals halves the series. Percentiles of two intervals cannot be merged without their histograms, so the
// joined ones have none.
func joinIntervals(r *runrecord.Record) {
	var out []runrecord.Interval
	for i := 0; i < len(r.Intervals); i += 2 {
		iv := r.Intervals[i]
		if i+1 < len(r.Intervals) {
			next := r.Intervals[i+1]
			iv.AtNs = next.AtNs
			iv.Published += next.Published
			iv.PublishedBytes += next.PublishedBytes
			iv.Delivered += next.Delivered
			iv.DeliveredBytes += next.DeliveredBytes
			iv.P50Ns, iv.P99Ns = nil, nil
		}
		out = append(out, iv)
	}
	r.Intervals, r.IntervalNs = out, 2*r.IntervalNs
}
