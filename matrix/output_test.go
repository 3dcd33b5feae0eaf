package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"felix/internal/runrecord"
)

func TestTailKeepsTheEnd(t *testing.T) {
	for _, size := range []int{0, 1, keptOutput - 1, keptOutput, keptOutput + 1, 2 * keptOutput, 2*keptOutput + 1, 5 * keptOutput} {
		for _, step := range []int{1 << 20, 4096, 777} {
			all := make([]byte, size)
			for i := range all {
				all[i] = byte(i * 7)
			}
			var kept tail
			for rest := all; len(rest) > 0; {
				n := min(step, len(rest))
				_, _ = kept.Write(rest[:n])
				rest = rest[n:]
			}
			if want := all[max(0, size-keptOutput):]; !bytes.Equal(kept.Bytes(), want) {
				t.Errorf("%d bytes in steps of %d: kept %d, want the last %d", size, step, len(kept.Bytes()), len(want))
			}
		}
	}
}

func TestLastLine(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"", ""},
		{"\n\n", ""},
		{"a\nb\n", "b"},
		{"a\nb", "b"},
		{"a\nb\r\n\n  \n", "b"},
		{strings.Repeat("x", maxRecordLine+1) + "\nb\n", "b"},
		{"b\n" + strings.Repeat("x", maxRecordLine+1), "b"},
	} {
		var l lastLine
		_, _ = l.Write([]byte(tt.text))
		if got := string(l.Line()); got != tt.want {
			t.Errorf("last line of %.20q: %.20q, want %q", tt.text, got, tt.want)
		}
	}
}

// However the output is cut into writes, the last line is the same.
func FuzzLastLine(f *testing.F) {
	f.Add("a\nb\n", 1)
	f.Add("{}\r\n\nx", 3)
	f.Fuzz(func(t *testing.T, text string, step int) {
		var whole, cut lastLine
		_, _ = whole.Write([]byte(text))
		for rest := []byte(text); len(rest) > 0; {
			n := min(max(1, step), len(rest))
			_, _ = cut.Write(rest[:n])
			rest = rest[n:]
		}
		if a, b := whole.Line(), cut.Line(); !bytes.Equal(a, b) {
			t.Errorf("%q in one piece, %q in steps of %d", a, b, step)
		}
	})
}

func FuzzParseDryRun(f *testing.F) {
	f.Add("case       payload=1\nlossless   yes\nbroker     log_capacity = 9  (flag --broker-set)\nbroker     auth_jwks = map[]  (default)\n")
	f.Fuzz(func(t *testing.T, text string) {
		k := parseDryRun(text)
		settings := len(k.config.Broker) + len(k.config.Client) + len(k.config.Transport)
		if lines := strings.Count(text, "\n") + 1; settings > lines {
			t.Errorf("%d settings in %d lines", settings, lines)
		}
	})
}

func TestParseDryRun(t *testing.T) {
	k := parseDryRun("case       x\nlossless   almost\nbroker     log_capacity = 9  (flag --broker-set)\nbroker     streams = []  (default)\ntransport  conn_recv_window = 5  (default)\n")
	if k.lossless != "almost" || k.config.Broker["log_capacity"].Value != "9" || k.config.Broker["log_capacity"].From != "flag --broker-set" || k.config.Transport["conn_recv_window"].Value != "5" {
		t.Errorf("%+v", k)
	}
	if v, ok := k.config.Broker["streams"].Value.([]any); !ok || len(v) != 0 {
		t.Errorf("streams = %v", k.config.Broker["streams"].Value)
	}
}

// A session of single runs has no end; one of a grid without an end was left without one.
func TestShowSaysWhetherItEnded(t *testing.T) {
	for _, tt := range []struct {
		kind runrecord.SessionKind
		want string
	}{
		{runrecord.SessionKindSingle, "ended      never: latencydemo --session may add to it at any time\n"},
		{runrecord.SessionKindGrid, "ended      not: under way, or killed\n"},
	} {
		dir := filepath.Join(t.TempDir(), "s")
		s := &runrecord.Session{SessionID: runrecord.NewSessionID(), Kind: tt.kind, StartedAt: time.Now().UTC()}
		if tt.kind == runrecord.SessionKindGrid {
			s.Grid = &runrecord.SessionGrid{Name: "g"}
		}
		if err := runrecord.WriteSession(dir, s); err != nil {
			t.Fatal(err)
		}
		var stdout, stderr strings.Builder
		code := Main([]string{"sessions", "show", dir}, strings.NewReader(""), &stdout, &stderr)
		if code != exitValid || !strings.Contains(stdout.String(), tt.want) {
			t.Errorf("%s: exit code %d, want %q:\n%s%s", tt.kind, code, tt.want, &stdout, &stderr)
		}
	}
}
