package chart

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"strings"
	"time"

	"felix/internal/runrecord"
)

// Files beside a record.
const (
	intervalsFile = "intervals.json"
	connsFile     = "connections.jsonl"
)

// FromRecord makes the time line and the ledger of one run. Name is its cell's. Beside is the directory of what lies
// beside the record (os.DirFS of Session.RunDir); nil, or a missing file, leaves what the record alone cannot tell:
// backlog, and the busiest connection over time. The error tells of a file that cannot be read; the run is returned
// without it.
func FromRecord(session, name string, r *runrecord.Record, beside fs.FS) (Run, error) {
	source, shape := SourceOf(session, &r.Build, r.Host.Fingerprint), ShapeOf(&r.Case.Case)
	trial := trialText(r)
	run := Run{Name: name, RunID: r.RunID}
	run.Timeline = Timeline{Title: "A run over time", Caption: name, Source: source, Shape: shape, Trial: trial, Unit: BytesPerSec}
	if r.Case.Payload == 0 {
		run.Timeline.Unit = MsgsPerSec
	}
	run.Ledger = ledgerOf(r)
	run.Ledger.Title, run.Ledger.Caption = "Where a run's messages went", name
	run.Ledger.Source, run.Ledger.Shape, run.Ledger.Trial = source, shape, trial

	intervals := intervalsOf(r)
	var errs []error
	if beside != nil {
		whole, err := readIntervals(beside)
		switch {
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			errs = append(errs, fmt.Errorf("run %s: %w", r.RunID, err))
		case len(whole) > 0:
			intervals = whole
		}
		if err := run.Timeline.readConn(r, beside); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("run %s: %w", r.RunID, err))
		}
	}
	run.Timeline.addIntervals(r, intervals)
	return run, errors.Join(errs...)
}

func trialText(r *runrecord.Record) string {
	var parts []string
	if r.Trial != nil {
		parts = append(parts, fmt.Sprintf("trial %d", *r.Trial))
	}
	parts = append(parts, "run "+r.RunID[max(0, len(r.RunID)-8):])
	switch {
	case r.Interrupted:
		parts = append(parts, "INTERRUPTED")
	case r.Error != nil:
		parts = append(parts, "FAILED")
	case !r.Valid:
		parts = append(parts, "INVALID: "+strings.Join(r.Reasons, "; "))
	default:
		parts = append(parts, "valid")
	}
	return strings.Join(parts, ", ")
}

// interval is one of intervals.json, or of the record, which has no backlog.
type interval struct {
	AtNs           int64  `json:"at_ns"`
	Published      int64  `json:"published"`
	PublishedBytes int64  `json:"published_bytes"` // 0 in records of before it was counted
	Delivered      int64  `json:"delivered"`
	DeliveredBytes int64  `json:"delivered_bytes"`
	P50Ns          *int64 `json:"p50_ns"`
	P99Ns          *int64 `json:"p99_ns"`
	BacklogBytes   *int64 `json:"backlog_bytes"`
}

func intervalsOf(r *runrecord.Record) []interval {
	var out []interval
	for _, i := range r.Intervals {
		out = append(out, interval{i.AtNs, i.Published, i.PublishedBytes, i.Delivered, i.DeliveredBytes, i.P50Ns, i.P99Ns, nil})
	}
	return out
}

func readIntervals(beside fs.FS) ([]interval, error) {
	b, err := fs.ReadFile(beside, intervalsFile)
	if err != nil {
		return nil, err
	}
	var out []interval
	if err := json.Unmarshal(b, &out); err != nil {
		return nil, fmt.Errorf("%s: %w", intervalsFile, err)
	}
	return joined(out), nil
}

// mostSlices is how many intervals a picture of this width can show.
const mostSlices = 600

// joined puts neighbours together until they are few enough. Percentiles cannot be merged without their histograms:
// the larger of the two stands for both, so that no peak is lost; the backlog is the later one's.
func joined(list []interval) []interval {
	for len(list) > mostSlices {
		var out []interval
		for i := 0; i < len(list); i += 2 {
			a := list[i]
			if i+1 < len(list) {
				b := list[i+1]
				a = interval{
					b.AtNs, a.Published + b.Published, a.PublishedBytes + b.PublishedBytes, a.Delivered + b.Delivered, a.DeliveredBytes + b.DeliveredBytes,
					larger(a.P50Ns, b.P50Ns), larger(a.P99Ns, b.P99Ns), larger(a.BacklogBytes, b.BacklogBytes),
				}
			}
			out = append(out, a)
		}
		list = out
	}
	return list
}

func larger(a, b *int64) *int64 {
	if a == nil || b != nil && *b > *a {
		return b
	}
	return a
}

func (f *Timeline) addIntervals(r *runrecord.Record, list []interval) {
	var at int64
	message := float64(r.Case.MessageBytes())
	for _, i := range list {
		s := Slice{
			AtSeconds: float64(i.AtNs) / 1e9, Seconds: float64(i.AtNs-at) / 1e9, P50Ns: orNaN(i.P50Ns), P99Ns: orNaN(i.P99Ns),
			BacklogBytes: orNaN(i.BacklogBytes), Published: math.NaN(), Delivered: math.NaN(),
		}
		if at = i.AtNs; s.Seconds > 0 {
			published := float64(i.PublishedBytes)
			if published == 0 {
				published = float64(i.Published) * message
			}
			s.Published, s.Delivered = published/s.Seconds, float64(i.DeliveredBytes)/s.Seconds
			if f.Unit == MsgsPerSec {
				s.Published, s.Delivered = float64(i.Published)/s.Seconds, float64(i.Delivered)/s.Seconds
			}
		}
		f.Slices = append(f.Slices, s)
	}
	if list != nil && r.Rates.PeakBacklogBytes > 0 {
		f.Notes = append(f.Notes, fmt.Sprintf("Peak backlog of the slowest subscriber: %s.", Bytes.text(float64(r.Rates.PeakBacklogBytes))))
	}
}

func orNaN(v *int64) float64 {
	if v == nil {
		return math.NaN()
	}
	return float64(*v)
}

// connLine is one line of connections.jsonl, as far as it is drawn.
type connLine struct {
	ID      string     `json:"id"`
	Samples []connStat `json:"samples"`
	Marked  *connStat  `json:"marked"`
	Final   connStat   `json:"final"`
}

type connStat struct {
	At            time.Time `json:"at"`
	MTUBytes      *int64    `json:"mtu_bytes"`
	CwndBytes     int64     `json:"cwnd_bytes"`
	RTTMinNs      int64     `json:"rtt_min_ns"`
	RTTSmoothedNs int64     `json:"rtt_smoothed_ns"`
	PacketsLost   int64     `json:"packets_lost"`
}

// mostLine bounds one line: 2,048 samples of 700 bytes.
const mostLine = 8 << 20

// readConn takes the time line of the busiest connection, from the mark on.
func (f *Timeline) readConn(r *runrecord.Record, beside fs.FS) error {
	busiest := ""
	for _, c := range r.Conns {
		if c.Busiest {
			busiest = c.ID
			f.Conn = fmt.Sprintf("%s (%s to %s)", c.ID, c.Role, c.Remote)
		}
	}
	if busiest == "" {
		return nil
	}
	file, err := beside.Open(connsFile)
	if err != nil {
		f.Conn = ""
		return err
	}
	defer file.Close()
	line, err := findConn(file, busiest)
	if err != nil || line == nil || line.Marked == nil {
		f.Conn = ""
		return err
	}
	mark := *line.Marked
	for _, s := range append(append([]connStat{mark}, line.Samples...), line.Final) {
		if s.At.Before(mark.At) || len(f.Samples) > 0 && s.At.Sub(mark.At).Seconds() <= f.Samples[len(f.Samples)-1].AtSeconds {
			continue
		}
		sample := ConnSample{
			AtSeconds: s.At.Sub(mark.At).Seconds(), CwndBytes: float64(s.CwndBytes), MTUBytes: orNaN(s.MTUBytes),
			RTTSmoothedNs: float64(s.RTTSmoothedNs), RTTMinNs: float64(s.RTTMinNs), PacketsLost: float64(s.PacketsLost - mark.PacketsLost),
		}
		f.Samples = append(f.Samples, sample)
	}
	return nil
}

func findConn(file io.Reader, id string) (*connLine, error) {
	lines := bufio.NewScanner(file)
	lines.Buffer(make([]byte, 64<<10), mostLine)
	for n := 1; lines.Scan(); n++ {
		var head struct {
			ID string `json:"id"`
		}
		// The id comes first: lines of other connections are not decoded as a whole.
		prefix := fmt.Sprintf("{\"id\":%q", id)
		if !strings.HasPrefix(lines.Text(), prefix) {
			if err := json.Unmarshal(lines.Bytes(), &head); err != nil {
				return nil, fmt.Errorf("%s:%d: %w", connsFile, n, err)
			}
			if head.ID != id {
				continue
			}
		}
		var line connLine
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", connsFile, n, err)
		}
		return &line, nil
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", connsFile, err)
	}
	return nil, nil
}

// ledgerOf lists the stations of the path and what left it between them.
func ledgerOf(r *runrecord.Record) Ledger {
	fl, c := &r.Flow, &r.Counts
	offered, expected := fl.Offered, c.Expected
	var l Ledger
	for _, s := range []struct {
		name       string
		count      *int64
		deliveries bool
	}{
		{"offered", &fl.Offered, false}, {"written", fl.Written, false}, {"received", fl.Received, false}, {"accepted", fl.Accepted, false},
		{"published", fl.Published, false}, {"queued", fl.Queued, true}, {"sent", fl.Sent, true}, {"delivered", &fl.Delivered, true},
	} {
		st := Station{Name: s.name, Count: s.count, Whole: offered, Unit: "messages"}
		if s.deliveries {
			st.Whole, st.Unit = expected, "deliveries"
		}
		l.Stations = append(l.Stations, st)
	}
	const atOffered, atReceived, atPublished, atQueued, atSent = 0, 2, 4, 5, 6
	failed, refused := total(c.Failed), total(c.Refused)
	l.Losses = []Loss{
		{Name: "failed to send", After: atOffered, Count: &failed, Whole: offered, Bad: true},
		{Name: "refused", After: atReceived, Count: &refused, Whole: offered},
		{Name: "dropped at ingress", After: atReceived, Count: c.Dropped.Ingress, Whole: expected},
		{Name: "dropped by subscriber queues", After: atPublished, Count: c.Dropped.Subscriber, Whole: expected},
		{Name: "dropped by writers", After: atQueued, Count: c.Dropped.Writer, Whole: expected},
		{Name: "discarded on close", After: atQueued, Count: c.DiscardedOnClose, Whole: expected},
		{Name: "dropped by the client", After: atSent, Count: c.Dropped.Client, Whole: expected},
		{Name: "UNACCOUNTED", After: atSent, Count: &c.Unaccounted, Whole: expected, Bad: true},
	}
	l.Notes = []string{"Losses are counted in deliveries; refused and failed ones in messages."}
	return l
}

func total(byCause map[string]int64) int64 {
	var n int64
	for _, v := range byCause {
		n += v
	}
	return n
}
