// Package runrecord is the one durable format of the bench: what a single trial left behind, as one JSON object a
// line. Names are fixed so that scripts can rely on them: fields are added, never renamed, and a fact that is
// absent is null, never 0.
package runrecord

import (
	"encoding/json"
	"time"

	"felix/internal/workload"
)

// Schema is the version that this code writes.
const Schema = "felix.run/1"

// MaxBytes is the size of one record at fanout 10: summaries only. What does not fit lies beside the records, in
// runs/<run_id>/.
const MaxBytes = 32 << 10

// Record is what one trial left behind.
type Record struct {
	Schema     string    `json:"schema"`
	RunID      string    `json:"run_id"`     // UUIDv7
	SessionID  *string   `json:"session_id"` // one sitting of measurement
	StartedAt  time.Time `json:"started_at"`
	DurationNs int64     `json:"duration_ns"` // of the whole trial, processes and all

	Trial *int    `json:"trial"` // from 1; set by the matrix, and by latencydemo --repeat for its sequence
	Arm   *string `json:"arm"`
	Pair  *int    `json:"pair"`
	Order *int    `json:"order"`
	Kind  string  `json:"kind"` // case | raw | relay | echo

	Case    Case              `json:"case"`
	Command []string          `json:"command"`
	Env     map[string]string `json:"env"`   // FELIX_*, GO* and QUIC_GO_* variables that were set
	Rerun   string            `json:"rerun"` // a shell line that runs the same again

	Build Build `json:"build"`
	// Bench is whose bench drove an arm of an A/B that did not measure itself: head; null otherwise. Build is the broker's
	// then, with the bench's digest, and BenchBuild that of the latencydemo.
	Bench      *string `json:"bench"`
	BenchBuild *Build  `json:"bench_build"`
	Host       Host    `json:"host"`

	Valid       bool     `json:"valid"`
	Reasons     []string `json:"reasons"` // why it is not valid
	Warnings    []string `json:"warnings"`
	Perturbed   []string `json:"perturbed"`
	SizeGrade   string   `json:"size_grade"`
	Lossless    Lossless `json:"lossless"`
	Interrupted bool     `json:"interrupted"`
	Error       *string  `json:"error"`

	Counts      Counts       `json:"counts"`
	Flow        Flow         `json:"flow"`
	Rates       Rates        `json:"rates"`
	Latency     Latency      `json:"latency"`
	Subscribers []Subscriber `json:"subscribers"`
	Tenants     []Tenant     `json:"tenants,omitempty"` // of a case that has several
	IntervalNs  int64        `json:"interval_ns"`       // width of an interval
	Intervals   []Interval   `json:"intervals"`
	Conns       []Conn       `json:"conns"`
	Checkpoints []Checkpoint `json:"checkpoints"`
	Wakeups     []Wakeup     `json:"wakeups"`
	Stages      []Stage      `json:"stages"`
	Traces      *Traces      `json:"traces"` // what the stages were taken from; null: nothing was traced
	Processes   []Process    `json:"processes"`
	CostNs      *int64       `json:"cost_ns"` // from the mark to the end of the drain: what processes and udp cover
	UDP         *UDP         `json:"udp"`
	Config      Config       `json:"config"`
	Clock       *Clock       `json:"clock"`
	Probe       *Probe       `json:"probe"`
	Trimmed     []string     `json:"trimmed"` // what was left out to keep the record small, and where it is
	Files       []File       `json:"files"`   // beside the records, with their digests
}

// Case is the resolved workload with its key and the sizes of this run.
type Case struct {
	Key string `json:"key"`
	workload.Case
	Total         *int64 `json:"total"`           // asked for; null = auto
	DurationNs    *int64 `json:"duration_ns"`     // asked for; null = none
	Warmup        *int64 `json:"warmup"`          // asked for; null = auto
	SendWindow    int64  `json:"send_window"`     // bytes
	MaxDeliveries int64  `json:"max_deliveries"`  // 0 = no limit
	IdleTimeoutNs int64  `json:"idle_timeout_ns"` // without a delivery
	Seed          uint64 `json:"seed"`
}

// Build is the identity of what was measured.
type Build struct {
	Commit       *string `json:"commit"`
	Dirty        *bool   `json:"dirty"`
	TreeDigest   *string `json:"tree_digest"`
	BenchDigest  *string `json:"bench_digest"`
	BinarySHA256 *string `json:"binary_sha256"`
	Source       string  `json:"source"` // ldflags | git | none
	Go           string  `json:"go"`
	QuicGo       *string `json:"quic_go"`
	Race         bool    `json:"race"`
	Optimized    bool    `json:"optimized"`
	PGO          bool    `json:"pgo"` // compiled by a CPU profile; false in records older than it
	Coverage     bool    `json:"coverage"`
}

// Host is the machine: stable facts behind a fingerprint, and its noise during the run.
type Host struct {
	Fingerprint string          `json:"fingerprint"`
	Facts       json.RawMessage `json:"facts"`
	Noise       *Noise          `json:"noise"`
}

// Noise is what else the machine did during the run, as shares of the whole machine.
type Noise struct {
	Grade     string   `json:"grade"` // quiet | noisy | contaminated
	OthersCPU *float64 `json:"others_cpu"`
	Steal     *float64 `json:"steal"`
	Load      *float64 `json:"load"` // one-minute load average at the end
}

// Lossless says whether the effective configuration promises that nothing is dropped.
type Lossless string

// The degrees: yes, almost (some checkpoint can still shed), no.
const (
	LosslessYes    Lossless = "yes"
	LosslessAlmost Lossless = "almost"
	LosslessNo     Lossless = "no"
)

// Counts is the ledger, in deliveries but for published, refused and failed, which are messages.
type Counts struct {
	Published        int64            `json:"published"`
	Refused          map[string]int64 `json:"refused"` // negative acks by cause
	Failed           map[string]int64 `json:"failed"`  // send errors by cause
	Expected         int64            `json:"expected"`
	Delivered        int64            `json:"delivered"` // once each
	Dropped          Dropped          `json:"dropped"`
	DiscardedOnClose *int64           `json:"discarded_on_close"`
	Lost             int64            `json:"lost"`
	Unaccounted      int64            `json:"unaccounted"` // negative: more was counted as dropped than is missing
	Duplicate        int64            `json:"duplicate"`
	Reordered        int64            `json:"reordered"`
	Foreign          int64            `json:"foreign"`
	Corrupt          int64            `json:"corrupt"`
	LateWarmup       int64            `json:"late_warmup"`
}

// Dropped is what named checkpoints shed, in deliveries; null where the counter could not be read, or does not
// exist in the broker measured.
type Dropped struct {
	Ingress    *int64 `json:"ingress"`
	Subscriber *int64 `json:"subscriber"`
	Writer     *int64 `json:"writer"`
	Client     *int64 `json:"client"`
}

// Flow counts messages at every station of the path: the "444 in, 128 through, 77 dropped" view.
type Flow struct {
	Offered   int64  `json:"offered"`   // handed to the client
	Written   *int64 `json:"written"`   // by the client, to QUIC
	Received  *int64 `json:"received"`  // by the broker
	Accepted  *int64 `json:"accepted"`  // by its ingress
	Published *int64 `json:"published"` // fanned out
	Queued    *int64 `json:"queued"`    // into subscriber queues, in deliveries
	Sent      *int64 `json:"sent"`      // written to event streams, in deliveries
	Delivered int64  `json:"delivered"` // to the application, in deliveries
}

// Rates are over the throughput window: first measured publish to last measured delivery. They are null when
// nothing was delivered. Bytes are payload really carried.
type Rates struct {
	WindowNs              int64    `json:"window_ns"`
	PublishedMsgsPerSec   *float64 `json:"published_msgs_per_sec"`
	PublishedBytesPerSec  *float64 `json:"published_bytes_per_sec"`
	DeliveredMsgsPerSec   *float64 `json:"delivered_msgs_per_sec"`
	DeliveredBytesPerSec  *float64 `json:"delivered_bytes_per_sec"`
	SteadyBytesPerSec     *float64 `json:"steady_bytes_per_sec"`
	LastHalfBytesPerSec   *float64 `json:"last_half_bytes_per_sec"`
	OfferedMsgsPerSec     *float64 `json:"offered_msgs_per_sec"`     // asked for by an open loop
	DrainShare            *float64 `json:"drain_share"`              // of the window, after the last publish
	PeakBacklogBytes      int64    `json:"peak_backlog_bytes"`       // published minus delivered, slowest subscriber
	RunBytes              int64    `json:"run_bytes"`                // published in the measure phase
	SendWindowBytes       int64    `json:"send_window_bytes"`        // W
	AbsorptionBytes       *int64   `json:"absorption_bytes"`         // all that the path can hold
	DelayBoundNs          *int64   `json:"delay_bound_ns,omitempty"` // absorption at the pace that --slow holds every subscriber to
	DeliveredGoodputShare *float64 `json:"delivered_share"`          // delivered / expected
	// WireBytesSent is what every end of every connection sent since the mark, in UDP payload: with two hops each message
	// is in it twice.
	WireBytesSent   *int64   `json:"wire_bytes_sent"`
	WireBytesPerSec *float64 `json:"wire_bytes_per_sec"`
}

// Latency holds merged distributions; kind says how to read them.
type Latency struct {
	Kind         workload.LatencyKind `json:"kind"`
	Inflight     int                  `json:"inflight"`
	EndToEnd     *Distribution        `json:"end_to_end"`    // received - intended
	Network      *Distribution        `json:"network"`       // received - sent
	PublishDelay *Distribution        `json:"publish_delay"` // sent - intended
	AckRTT       *Distribution        `json:"ack_rtt"`       // publish to ack
}

// Distribution is a merged histogram: a percentile is null with fewer than 10 samples beyond it.
type Distribution struct {
	N      int64   `json:"n"`
	P50Ns  *int64  `json:"p50_ns"`
	P90Ns  *int64  `json:"p90_ns"`
	P99Ns  *int64  `json:"p99_ns"`
	P999Ns *int64  `json:"p999_ns"`
	MaxNs  *int64  `json:"max_ns"`
	HDR    *string `json:"hdr"` // HdrHistogram V2, compressed, base64
}

// Subscriber is the ledger of one subscription.
type Subscriber struct {
	ID        string    `json:"id"`
	Stream    int       `json:"stream"`
	Expected  int64     `json:"expected"`
	Delivered int64     `json:"delivered"`
	Lost      int64     `json:"lost"`
	Duplicate int64     `json:"duplicate"`
	Dropped   Dropped   `json:"dropped"`
	Unacc     int64     `json:"unaccounted"`
	Missing   []Missing `json:"missing"`
	P50Ns     *int64    `json:"p50_ns"`
	P99Ns     *int64    `json:"p99_ns"`
}

// Missing is a range of messages that one subscriber never got, both ends included.
type Missing struct {
	Publisher int    `json:"publisher"`
	Stream    int    `json:"stream"`
	FirstSeq  uint64 `json:"first_seq"`
	LastSeq   uint64 `json:"last_seq"`
}

// Interval is one slice of the measure phase.
type Interval struct {
	AtNs           int64  `json:"at_ns"` // since the mark
	Published      int64  `json:"published"`
	Delivered      int64  `json:"delivered"`
	DeliveredBytes int64  `json:"delivered_bytes"`
	PublishedBytes int64  `json:"published_bytes,omitempty"`
	P50Ns          *int64 `json:"p50_ns"`
	P99Ns          *int64 `json:"p99_ns"`
}

// Conn is one end of one QUIC connection over the measure phase: counts since the mark, gauges as they ended.
type Conn struct {
	ID              string            `json:"id"`
	Process         string            `json:"process"`
	Role            string            `json:"role"`
	Local           string            `json:"local"`
	Remote          string            `json:"remote"`
	Peer            *string           `json:"peer"` // id of the other end
	MTUBytes        *int              `json:"mtu_bytes"`
	CwndBytes       int64             `json:"cwnd_bytes"`
	RTTMinNs        int64             `json:"rtt_min_ns"`
	RTTSmoothedNs   int64             `json:"rtt_smoothed_ns"`
	RTTLatestNs     int64             `json:"rtt_latest_ns"`
	PacketsSent     int64             `json:"packets_sent"`
	PacketsReceived int64             `json:"packets_received"`
	PacketsLost     int64             `json:"packets_lost"` // can go down: quic-go takes spurious losses back
	LostBy          *LostBy           `json:"lost_by"`
	BytesSent       int64             `json:"bytes_sent"`
	BytesReceived   int64             `json:"bytes_received"`
	DatagramsSent   *int64            `json:"datagrams_sent"`
	SendCalls       *int64            `json:"send_calls"`
	SendErrors      map[string]uint64 `json:"send_errors"` // errno name -> count
	SharedSocket    bool              `json:"shared_socket"`
	WriteBlockedNs  *int64            `json:"write_blocked_ns"` // time in stream writes, mostly waiting
	Busiest         bool              `json:"busiest"`
	Samples         int               `json:"samples"` // length of its time line
	CloseReason     string            `json:"close_reason,omitempty"`
}

// LostBy attributes what this end sent and lost: dropped by the receiving kernel, by the receiver's own queue
// (quic-go keeps 256 packets a connection), or on the path. Null where the other end is unknown.
type LostBy struct {
	Kernel   *int64 `json:"kernel"`
	OwnQueue *int64 `json:"own_queue"`
	Path     *int64 `json:"path"`
}

// Checkpoint is one of the broker's six, or the client's seventh, over the measure phase.
type Checkpoint struct {
	Number    int    `json:"number"`
	Name      string `json:"name"`
	Bound     string `json:"bound"`
	Policy    string `json:"policy"`
	HighWater *int64 `json:"high_water"` // items, of the fullest queue there was in the life of the process
	BlockedNs *int64 `json:"blocked_ns"`
	Dropped   *int64 `json:"dropped"` // messages at 1-4, deliveries from 5 on
	// The bounds of each queue as numbers; null = it has no such bound.
	BoundItems     *int64 `json:"bound_items,omitempty"`
	BoundBytes     *int64 `json:"bound_bytes,omitempty"`
	HighWaterBytes *int64 `json:"high_water_bytes,omitempty"`
	// At 3 each connection has a bound of its own, which may be the one that was met.
	ConnBoundBytes     *int64 `json:"conn_bound_bytes,omitempty"`
	ConnHighWaterBytes *int64 `json:"conn_high_water_bytes,omitempty"` // of the fullest one

	Rejected *int64 `json:"rejected,omitempty"` // messages answered `overloaded`
}

// Tenant is one of several tenants that share the broker, over the measure phase. Expected to lost and dropped are
// in deliveries.
type Tenant struct {
	Name                 string   `json:"name"`
	RateMsgsPerSec       float64  `json:"rate_msgs_per_sec"` // asked for
	Offered              int64    `json:"offered"`
	Published            int64    `json:"published"`
	Expected             int64    `json:"expected"`
	Delivered            int64    `json:"delivered"`
	Lost                 int64    `json:"lost"`
	Dropped              Dropped  `json:"dropped"`
	Unaccounted          int64    `json:"unaccounted"`
	PublishedMsgsPerSec  *float64 `json:"published_msgs_per_sec"`
	DeliveredMsgsPerSec  *float64 `json:"delivered_msgs_per_sec"`
	DeliveredBytesPerSec *float64 `json:"delivered_bytes_per_sec"`
	P50Ns                *int64   `json:"p50_ns"`
	P99Ns                *int64   `json:"p99_ns"`
}

// Wakeup is how often a loop woke and what it found, on average.
type Wakeup struct {
	Place          string   `json:"place"`
	Count          int64    `json:"count"`
	ItemsPerWakeup *float64 `json:"items_per_wakeup"`
	BytesPerWakeup *float64 `json:"bytes_per_wakeup"`
}

// Stage is one stretch of a message's way from intended to received, over the traced deliveries. Each begins where
// the one before it ends, so that the means sum to that of their EndToEnd.
type Stage struct {
	Name   string `json:"name"`
	N      int64  `json:"n"` // deliveries
	MeanNs *int64 `json:"mean_ns"`
	P50Ns  *int64 `json:"p50_ns"`
	P99Ns  *int64 `json:"p99_ns"`
}

// Traces says how the traced deliveries stand for all.
type Traces struct {
	Every          int64  `json:"every"`      // of so many messages of a publisher and stream one was traced
	Messages       int64  `json:"messages"`   // traced
	Deliveries     int64  `json:"deliveries"` // of them
	Whole          int64  `json:"whole"`      // deliveries that have every stage
	MeanEndToEndNs *int64 `json:"mean_end_to_end_ns"`
	MeanSumNs      *int64 `json:"mean_sum_ns"` // of their stages
	P50EndToEndNs  *int64 `json:"p50_end_to_end_ns"`
	Reconciled     bool   `json:"reconciled"` // sums and median agree with EndToEnd
}

// Process is what one process spent between the mark and the end of the drain.
type Process struct {
	Name       string `json:"name"`
	Pid        int    `json:"pid"`
	GOMAXPROCS int    `json:"gomaxprocs"`
	// CPUs are the processors that it might run on, as 0-1; null where the system does not tell.
	CPUs *string `json:"cpus"`
	// TimerSlackNs is how late the kernel may wake its threads; null where the system has none, and in older records.
	TimerSlackNs        *int64 `json:"timer_slack_ns"`
	UserNs              *int64 `json:"user_ns"`
	SystemNs            *int64 `json:"system_ns"`
	VoluntarySwitches   *int64 `json:"voluntary_switches"`
	InvoluntarySwitches *int64 `json:"involuntary_switches"`
	MaxRSSBytes         *int64 `json:"max_rss_bytes"` // over the life of the process
	GCCycles            *int64 `json:"gc_cycles"`
	GCPauseNs           *int64 `json:"gc_pause_ns"`
	Allocs              *int64 `json:"allocs"`
	AllocBytes          *int64 `json:"alloc_bytes"`
	SchedLatencyP99Ns   *int64 `json:"sched_latency_p99_ns"`
	MutexWaitNs         *int64 `json:"mutex_wait_ns"`
}

// UDP is the kernel's own count between the mark and the end, machine-wide.
type UDP struct {
	InDatagrams  int64 `json:"in_datagrams"`
	OutDatagrams int64 `json:"out_datagrams"`
	InErrors     int64 `json:"in_errors"`
	RcvbufErrors int64 `json:"rcvbuf_errors"`
	SndbufErrors int64 `json:"sndbuf_errors"`
}

// Config is every effective setting with where it came from.
type Config struct {
	Broker    map[string]Setting `json:"broker"`
	Client    map[string]Setting `json:"client"`
	Transport map[string]Setting `json:"transport"`
	Sockets   []Socket           `json:"sockets"` // buffers as granted
}

// Setting is one effective value.
type Setting struct {
	Value any    `json:"value"`
	From  string `json:"from"`
}

// Socket is what the kernel granted one role's sockets; -1 or null where it cannot be read.
type Socket struct {
	Process         string `json:"process"`
	Role            string `json:"role"`
	SendBufferBytes *int   `json:"send_buffer_bytes"`
	RecvBufferBytes *int   `json:"recv_buffer_bytes"`
	GSO             *bool  `json:"gso"`
	GRO             *bool  `json:"gro"`
	Shared          bool   `json:"shared"` // may carry several connections
	RecvGateBytes   int64  `json:"recv_gate_bytes"`
	// How often and how long the receive gate held packets back since the mark, of the first socket of the role.
	GateWaits  int64 `json:"gate_waits"`
	GateWaitNs int64 `json:"gate_wait_ns"`
}

// Clock is the error bound of the time stamps.
type Clock struct {
	Source      string `json:"source"`
	BaseErrorNs int64  `json:"base_error_ns"` // at the start of the process, worst of all processes
	DriftNs     int64  `json:"drift_ns"`      // since then, worst of all processes
}

// Probe says what a probe was, or which probe a case was held against.
type Probe struct {
	// Of a probe. RTT: end_to_end is the round trip of an echo. Unavailable tells for each field that cannot be known
	// why.
	Name        string            `json:"name,omitempty"`      // raw | relay | echo | echo-relay
	Transport   string            `json:"transport,omitempty"` // quic | tls | tcp, of either
	Hops        int               `json:"hops,omitempty"`
	RTT         bool              `json:"rtt,omitempty"`
	Unavailable map[string]string `json:"unavailable,omitempty"`

	// Of a case. Ratio is case to probe in the main figure of this pair, null if the pair was dropped: payload bytes/s,
	// p50, or with one hop wire bytes/s.
	Against string   `json:"against,omitempty"`
	Ratio   *float64 `json:"ratio"`
	Paired  *Paired  `json:"paired,omitempty"` // in the case's record of the last pair: over all of them
}

// Paired is what pairs of a case and a probe came to.
type Paired struct {
	Pairs          int            `json:"pairs"` // whose trials were both valid
	DroppedByCase  int            `json:"dropped_by_case"`
	DroppedByProbe int            `json:"dropped_by_probe"` // where the case was valid
	Metrics        []PairedMetric `json:"metrics"`
}

// PairedMetric is one figure of both, by pairs: the ratio case to probe by Hodges and Lehmann on its logarithm, with the
// exact interval of Wilcoxon's test.
type PairedMetric struct {
	Name        string   `json:"name"`
	Unit        string   `json:"unit"`
	N           int      `json:"n"` // pairs that have it
	Ratio       *float64 `json:"ratio"`
	Low         *float64 `json:"low"`
	High        *float64 `json:"high"`
	Coverage    *float64 `json:"coverage"` // of the interval: 0.95 or more, less where n is too small for it
	Case        *float64 `json:"case"`     // median
	Probe       *float64 `json:"probe"`
	CaseSpread  *float64 `json:"case_spread"` // 90th over 10th percentile
	ProbeSpread *float64 `json:"probe_spread"`
}

// File is a file beside the records.
type File struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}
