package cputime_test

import (
	"bytes"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"felix/analysis/internal/cputime"
)

var update = flag.Bool("update", false, "write the golden files anew")

// stacks say of a stack, innermost frame first, where it belongs; ";" parts frames, and "," those of one inlined location.
var stacks = []struct {
	stack string
	want  cputime.Group
	why   string
}{
	{"crypto/internal/fips140/aes/gcm.gcmAesEnc;crypto/cipher.gcmAesGCM.Seal;github.com/quic-go/quic-go/internal/handshake.(*sealer).Seal", cputime.Crypto, "cipher called by quic-go"},
	{"internal/runtime/syscall/linux.Syscall6;syscall.RawSyscall6;golang.org/x/sys/unix.Sendmsg;felix/internal/transport.(*conn).WriteMsgUDP", cputime.Sockets, "sendmsg"},
	{"runtime.casgstatus;runtime.reentersyscall;runtime.entersyscall;syscall.Syscall;internal/poll.(*FD).ReadMsg", cputime.Sockets, "the runtime's way into a system call is part of it"},
	{"github.com/quic-go/quic-go.(*Conn).run", cputime.QUIC, "plain"},
	{"internal/sync.(*Mutex).Lock,sync.(*Mutex).Lock;github.com/quic-go/quic-go.(*SendStream).Write;felix/client.(*worker).run", cputime.QUIC, "a lock belongs to whoever takes it"},
	{"slices.SortFunc[go.shape.[]felix/internal/wire.Message];felix/broker.(*stream).publish", cputime.Broker, "type arguments are no package"},
	{"runtime.mapaccess1_fast64;felix/broker/service.(*Service).lookup", cputime.Broker, "a map belongs to whoever asks it"},
	{"felix/client.(*Publisher).Publish;felix/internal/trial.(*publishers).run", cputime.Client, "innermost first"},
	{"felix/internal/transport.(*gate).wait", cputime.Transport, "plain"},
	{"felix/internal/wire.(*Batch).Append;felix/client.(*worker).run", cputime.Wire, "plain"},
	{"felix/internal/measure.(*Receiver).Add", cputime.Bench, "plain"},
	{"main.main", cputime.Other, "of no known module"},
	{"runtime.memmove;bytes.(*Buffer).Write;felix/broker.(*writer).write", cputime.Copies, "copying is a group of its own"},
	{"runtime.memclrNoHeapPointers;runtime.mallocgc;runtime.makeslice;felix/broker.(*conn).read", cputime.Memory, "clearing what is allocated"},
	{"runtime.scanobject;runtime.gcDrain;runtime.gcBgMarkWorker.func2;runtime.systemstack;runtime.gcBgMarkWorker", cputime.Memory, "the collector"},
	{"runtime.futex;runtime.futexsleep;runtime.notesleep;runtime.mPark;runtime.stopm;runtime.findRunnable;runtime.schedule;runtime.park_m;runtime.mcall", cputime.Scheduling, "going to sleep"},
	{"internal/runtime/syscall/linux.Syscall6;internal/runtime/syscall/linux.EpollWait;runtime.netpoll;runtime.findRunnable;runtime.schedule", cputime.Scheduling, "polling is no socket call"},
	{"runtime.ready;runtime.goready;runtime.send;runtime.chansend;runtime.chansend1;felix/broker.(*queue).offer", cputime.Scheduling, "waking another"},
	{"runtime._ExternalCode", cputime.Other, "nobody's"},
}

func TestGroupOf(t *testing.T) {
	for _, tt := range stacks {
		if got := cputime.GroupOf(locations(tt.stack)); got != tt.want {
			t.Errorf("%s: GroupOf(%s) = %q, want %q", tt.why, tt.stack, got, tt.want)
		}
	}
	if got := cputime.GroupOf(nil); got != cputime.Other {
		t.Errorf("GroupOf(nil) = %q, want %q", got, cputime.Other)
	}
	seen := map[cputime.Group]bool{}
	for _, tt := range stacks {
		seen[tt.want] = true
	}
	for _, g := range cputime.Groups {
		if !seen[g] {
			t.Errorf("no stack of group %q", g)
		}
	}
}

// locations makes the stack of a sample.
func locations(stack string) []*profile.Location {
	var out []*profile.Location
	for location := range strings.SplitSeq(stack, ";") {
		l := &profile.Location{}
		for name := range strings.SplitSeq(location, ",") {
			l.Line = append(l.Line, profile.Line{Function: &profile.Function{Name: name}})
		}
		out = append(out, l)
	}
	return out
}

// made is a CPU profile with a sample of each stack, the i-th of i+1 times 10 ms, from the first on.
func made(t *testing.T, first int) io.Reader {
	t.Helper()
	const tick = int64(10 * time.Millisecond)
	p := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}},
		PeriodType: &profile.ValueType{Type: "cpu", Unit: "nanoseconds"}, Period: tick,
	}
	for i, tt := range stacks[first:] {
		s := &profile.Sample{Value: []int64{int64(i + 1), int64(i+1) * tick}, Location: locations(tt.stack)}
		for _, l := range s.Location {
			l.ID = uint64(len(p.Location) + 1)
			p.Location = append(p.Location, l)
			for _, line := range l.Line {
				line.Function.ID = uint64(len(p.Function) + 1)
				p.Function = append(p.Function, line.Function)
			}
		}
		p.Sample = append(p.Sample, s)
	}
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	return &b
}

func report(t *testing.T, runBytes int64) *cputime.Report {
	t.Helper()
	r := &cputime.Report{Runs: 2, RunBytes: runBytes}
	if err := r.Add("broker", made(t, 0)); err != nil {
		t.Fatal(err)
	}
	for range 2 { // two runs of one process are one column
		if err := r.Add("publisher", made(t, len(stacks)-3)); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// The report in every format, with seconds and with seconds for each GB.
func TestReport(t *testing.T) {
	plain, perGB := report(t, 0), report(t, 500_000_000)
	for name, write := range map[string]func(io.Writer) error{
		"cpu.txt": plain.WriteText, "cpu.md": plain.WriteMarkdown, "cpu.csv": plain.WriteCSV, "cpu.json": plain.WriteJSON,
		"per-gb.txt": perGB.WriteText, "per-gb.csv": perGB.WriteCSV, "per-gb.json": perGB.WriteJSON,
	} {
		var got bytes.Buffer
		if err := write(&got); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(path, got.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got.String() != string(want) {
			t.Errorf("%s:\n%s\nwant\n%s", name, got.Bytes(), want)
		}
	}
}

// What is no CPU profile is refused, and leaves no column.
func TestAddRefuses(t *testing.T) {
	heap := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "alloc_space", Unit: "bytes"}},
		PeriodType: &profile.ValueType{Type: "space", Unit: "bytes"}, Period: 1,
	}
	var b bytes.Buffer
	if err := heap.Write(&b); err != nil {
		t.Fatal(err)
	}
	for name, in := range map[string]io.Reader{"heap": &b, "text": strings.NewReader("no profile"), "empty": strings.NewReader("")} {
		r := &cputime.Report{}
		if err := r.Add("broker", in); err == nil || len(r.Processes) > 0 {
			t.Errorf("%s: error %v and %d processes, want an error and none", name, err, len(r.Processes))
		}
	}
}
