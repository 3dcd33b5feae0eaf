package trial

import (
	"encoding/json"

	"felix/broker"
	"felix/client"
	"felix/internal/host"
	"felix/internal/measure"
	"felix/internal/probe"
	"felix/internal/transport"
	"felix/internal/wire"
	"felix/internal/workload"
)

// A role is the same binary again. It reads one JSON document on stdin, prints one line {"ready":…}, takes words
// on stdin, one a line, and answers on stdout with one JSON object a line; the last one is {"result":…}.

// roleDoc is the document.
type roleDoc struct {
	Case     workload.Case   `json:"case"`
	Sizes    Sizes           `json:"sizes"`
	Settings json.RawMessage `json:"settings"` // as settings.Resolved.Marshal
	Broker   *brokerDoc      `json:"broker,omitempty"`
	Access   *access         `json:"access,omitempty"`
	Tag      uint32          `json:"tag"`
	Profile  *profileDoc     `json:"profile,omitempty"`
}

// brokerDoc is what only the broker role needs.
type brokerDoc struct {
	CertPEM []byte            `json:"cert_pem"`
	KeyPEM  []byte            `json:"key_pem"`
	JWKS    map[string][]byte `json:"jwks"`
	// Windows that --send-window sets on the broker alone; 0 = as the settings say.
	ConnRecvWindow   int64 `json:"conn_recv_window"`
	StreamRecvWindow int64 `json:"stream_recv_window"`
}

// access is how a client reaches the broker.
type access struct {
	Addr       string `json:"addr"`
	ServerName string `json:"server_name"`
	CAPEM      []byte `json:"ca_pem"`
	PinSHA256  string `json:"pin_sha256"`
	Tenant     string `json:"tenant"`
	Token      string `json:"token"`
	// Tokens of the tenants of a case that has several, Tenant among them.
	Tokens map[string]string `json:"tokens,omitempty"`
	Scopes []wire.Scope      `json:"scopes"`
	Listen *brokerDoc        `json:"listen,omitempty"` // of one hop: what the subscribers listen with
}

// The words. mark carries the common time of the mark, stop the milliseconds that closing may take.
const (
	wordWarmup   = "warmup"
	wordMark     = "mark"
	wordMeasure  = "measure"
	wordEnd      = "end"
	wordCounters = "counters"
	wordFreeze   = "freeze" // ends the account of the process and its profiles; without it stop does
	wordStop     = "stop"
)

// line is one answer; exactly one field is set.
type line struct {
	Ready    *readyLine    `json:"ready,omitempty"`
	Progress *sideProgress `json:"progress,omitempty"`
	Done     *doneLine     `json:"done,omitempty"`
	Result   *sideResult   `json:"result,omitempty"`
	Error    *errorLine    `json:"error,omitempty"` // in place of ready
}

type readyLine struct {
	Addr  string `json:"addr,omitempty"`
	Admin string `json:"admin,omitempty"`
	Pid   int    `json:"pid"`
}

type doneLine struct {
	Word      string        `json:"word"`
	Error     string        `json:"error,omitempty"`
	Published *published    `json:"published,omitempty"` // of warmup and measure
	Counters  *broker.Stats `json:"counters,omitempty"`
}

type errorLine struct {
	Text string `json:"text"`
	Hint string `json:"hint"`
}

// published is what the publishers of one process handed to the client in one phase and were not refused.
type published struct {
	Counts     [][]int64 `json:"counts"` // [publisher][stream] messages
	StreamsUse []int     `json:"streams_use"`
	Ended      string    `json:"ended,omitempty"` // why, if not as asked: "interrupted", "stalled", an error
}

// perStream sums the counts of every publisher.
func (p *published) perStream(streams int) []int64 {
	sums := make([]int64, streams)
	for _, counts := range p.Counts {
		for s, n := range counts {
			sums[s] += n
		}
	}
	return sums
}

// sideProgress is what a process has done so far; cheap enough to send every few milliseconds.
type sideProgress struct {
	Published      int64         `json:"published,omitempty"` // measure phase, messages
	PublishedBytes int64         `json:"published_bytes,omitempty"`
	Subs           []subProgress `json:"subs,omitempty"`
}

type subProgress struct {
	Warmup   int64   `json:"warmup"`
	Measured int64   `json:"measured"` // messages of the measure phase, once each
	Bytes    int64   `json:"bytes"`
	Next     []int64 `json:"next"` // by publisher: measured messages received without a gap
	Err      string  `json:"err,omitempty"`
}

// sideResult is what a process ends with.
type sideResult struct {
	Process processResult `json:"process"`

	Senders   []measure.SenderResult `json:"senders,omitempty"`
	Publisher *client.PublisherStats `json:"publisher,omitempty"`

	Receivers []receiverResult `json:"receivers,omitempty"`

	Broker *broker.Stats `json:"broker,omitempty"`
	Relay  *probe.Stats  `json:"relay,omitempty"` // since the mark

	Traces *measure.TraceResult `json:"traces,omitempty"` // nil: nothing was to be traced

	Conns []transport.Timeline `json:"conns"`
	Warn  []string             `json:"warn,omitempty"`
}

type receiverResult struct {
	measure.ReceiverResult
	Subscription uint64                   `json:"subscription"`
	LocalAddr    string                   `json:"local_addr"`
	Stats        client.SubscriptionStats `json:"stats"`
	Err          string                   `json:"err,omitempty"`
}

type processResult struct {
	Name       string             `json:"name"`
	Pid        int                `json:"pid"`
	GOMAXPROCS int                `json:"gomaxprocs"`
	CPUs       *string            `json:"cpus"`
	TimerSlack *int64             `json:"timer_slack_ns"`
	Usage      host.Usage         `json:"usage"` // since the mark
	Clock      measure.ClockCheck `json:"clock"`
	Warn       []string           `json:"warn,omitempty"` // of its profiles
}
