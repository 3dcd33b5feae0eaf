package transport

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMonitorBothEnds(t *testing.T) {
	server, client := NewMonitor(10*time.Millisecond), NewMonitor(-1)
	dialled, accepted := pair(t, Config{Monitor: server, Role: "broker"}, Config{Monitor: client, Role: "publisher"})
	bulk(t, dialled, accepted, 4<<20)
	server.Mark()
	client.Mark()
	bulk(t, dialled, accepted, 4<<20)
	if err := dialled.Close(CodeDone, "finished"); err != nil {
		t.Fatal(err)
	}
	<-accepted.done

	for _, tt := range []struct {
		name    string
		monitor *Monitor
		role    string
		reason  string
	}{
		{"broker", server, "broker", "finished"},
		{"publisher", client, "publisher", "finished"},
	} {
		lines := tt.monitor.Timelines()
		if len(lines) != 1 {
			t.Fatalf("%s: %d timelines, want 1", tt.name, len(lines))
		}
		line := lines[0]
		f := line.Final
		if !f.Closed || !strings.Contains(f.CloseReason, tt.reason) || f.Role != tt.role {
			t.Errorf("%s: final %+v", tt.name, f)
		}
		if f.BytesSent+f.BytesReceived < 8<<20 || f.MTUBytes == nil || f.CwndBytes == 0 || f.RTTMin == 0 {
			t.Errorf("%s: final %+v", tt.name, f)
		}
		if m := line.Marked; m == nil || m.Closed || m.BytesSent+m.BytesReceived < 4<<20 || m.BytesSent+m.BytesReceived >= f.BytesSent+f.BytesReceived {
			t.Errorf("%s: marked %+v", tt.name, m)
		}
		if line.Socket.SendBufferGranted == 0 {
			t.Errorf("%s: socket %+v", tt.name, line.Socket)
		}
		totals := tt.monitor.Totals()[tt.role]
		if totals.Conns != 1 || totals.Open != 0 || totals.BytesSent != f.BytesSent || totals.DatagramsSent != *f.DatagramsSent {
			t.Errorf("%s: totals %+v, final %+v", tt.name, totals, f)
		}
	}
	if n := len(client.Timelines()[0].Samples); n != 0 {
		t.Errorf("%d samples with an interval below 0, want none", n)
	}
	// The two ends join by their addresses.
	a, b := server.Finals()[0].Final, client.Finals()[0].Final
	if a.Local != b.Remote || a.Remote != b.Local {
		t.Errorf("ends %s-%s and %s-%s do not join", a.Local, a.Remote, b.Local, b.Remote)
	}
}

func TestMonitorSamplesAtInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMonitor(0)
		net := newSimNetwork(t, 10*time.Millisecond)
		dialled, _ := net.pair(t, Config{}, Config{Monitor: m})
		pass(10*250*time.Millisecond + time.Millisecond)
		line := m.Timelines()[0]
		if len(line.Samples) != 10 || line.Interval != 250*time.Millisecond {
			t.Fatalf("%d samples at %v, want 10 at 250 ms", len(line.Samples), line.Interval)
		}
		for i, s := range line.Samples {
			if got := s.At.Sub(line.Samples[0].At); got != time.Duration(i)*250*time.Millisecond {
				t.Errorf("sample %d is %v after the first", i, got)
			}
			if s.ID != dialled.ID() || s.Remote == "" || s.RTTSmoothed < 20*time.Millisecond {
				t.Errorf("sample %d = %+v", i, s)
			}
		}
		if line.Final.Closed || line.Final.At.Before(line.Samples[9].At) {
			t.Errorf("final of an open connection = %+v", line.Final)
		}
	})
}

func TestTimelineIsBounded(t *testing.T) {
	// Hours of samples in a bubble: never more than 2,048 are kept, and the interval says how far
	// apart those are.
	began := time.Now()
	tl := &timeline{interval: time.Second, began: began}
	at := began
	for range 10 * maxSamples {
		at = at.Add(tl.interval)
		tl.add(ConnStats{At: at})
		if len(tl.samples) > maxSamples {
			t.Fatalf("%d samples", len(tl.samples))
		}
	}
	if tl.interval < 4*time.Second {
		t.Errorf("interval %v after %d samples", tl.interval, 10*maxSamples)
	}
	last := tl.samples[len(tl.samples)-1]
	if began.Add(last.after) != at {
		t.Errorf("newest sample after %v, want %v", last.after, at.Sub(began))
	}
	for i := 1; i < len(tl.samples); i++ {
		if gap := tl.samples[i].after - tl.samples[i-1].after; gap != tl.interval {
			t.Fatalf("samples %d and %d are %v apart, want %v", i-1, i, gap, tl.interval)
		}
	}
}

func TestMonitorForgetsTheOldest(t *testing.T) {
	m := NewMonitor(-1)
	const extra = 10
	for i := range maxClosedTimelines + extra {
		tl := &timeline{seq: uint64(i + 1), began: time.Now()}
		for range 100 {
			tl.add(ConnStats{At: tl.began})
		}
		m.close(tl, ConnStats{ID: "c", Role: "publisher", Closed: true, PacketsSent: 1}, SocketInfo{})
	}
	lines := m.Timelines()
	if len(lines) != maxClosedTimelines || m.Forgotten() != extra {
		t.Errorf("%d timelines, %d forgotten, want %d and %d", len(lines), m.Forgotten(), maxClosedTimelines, extra)
	}
	samples := 0
	for _, line := range lines {
		samples += len(line.Samples)
	}
	if samples > maxClosedSamples || len(lines[0].Samples) != 0 || len(lines[len(lines)-1].Samples) != 100 {
		t.Errorf("%d samples in all, %d of the oldest, %d of the newest", samples, len(lines[0].Samples), len(lines[len(lines)-1].Samples))
	}
	if got := m.Totals()["publisher"]; got.Conns != maxClosedTimelines+extra || got.PacketsSent != maxClosedTimelines+extra {
		t.Errorf("totals %+v, want all %d connections", got, maxClosedTimelines+extra)
	}
}

func TestCompactSampleKeepsEveryField(t *testing.T) {
	// A field added to ConnStats must survive the way through a sample.
	began := time.Now()
	s := ConnStats{At: began.Add(time.Second), Closed: true, CloseReason: "only in final statistics"}
	fill(reflect.ValueOf(&s).Elem())
	tl := &timeline{began: began}
	got := tl.expand(tl.compact(s), s)
	got.Closed, got.CloseReason, got.NoProgress = s.Closed, s.CloseReason, s.NoProgress
	if !reflect.DeepEqual(got, s) {
		t.Errorf("through a sample: %+v, want %+v", got, s)
	}
	if _, err := json.Marshal(got); err != nil {
		t.Error(err)
	}
}

// fill sets every field that is zero to something else.
func fill(v reflect.Value) {
	for i := range v.NumField() {
		f := v.Field(i)
		if !f.IsZero() {
			continue
		}
		switch f.Kind() {
		case reflect.String:
			f.SetString(v.Type().Field(i).Name)
		case reflect.Bool:
			f.SetBool(true)
		case reflect.Int64:
			f.SetInt(int64(i + 1))
		case reflect.Uint64:
			f.SetUint(uint64(i + 1))
		case reflect.Pointer:
			f.Set(reflect.New(f.Type().Elem()))
			switch e := f.Elem(); e.Kind() {
			case reflect.Int:
				e.SetInt(int64(i + 1))
			case reflect.Uint64:
				e.SetUint(uint64(i + 1))
			}
		case reflect.Map:
			f.Set(reflect.MakeMap(f.Type()))
		}
	}
}

func TestGoroutinesEndWithTheConnection(t *testing.T) {
	// The loop once accepted in the background and closed at once. quic-go never hands out a
	// connection whose client left before the server saw the handshake's end (about one in six
	// under -race), so it hung: here each connection is accepted before it is closed.
	id := newIdentity(t)
	l := listen(t, id, Config{Monitor: NewMonitor(time.Millisecond)})
	before := goleak.IgnoreCurrent()
	for range 5 {
		dialled, accepted := pairOn(t, l, id, Config{Monitor: NewMonitor(time.Millisecond)})
		closeConn(t, dialled)
		select {
		case <-accepted.done:
		case <-time.After(10 * time.Second):
			t.Fatal("the accepted connection's goroutine did not end")
		}
	}
	goleak.VerifyNone(t, before)
}
