package main

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"felix/internal/runrecord"
	"felix/internal/workload"
)

func flood(t *testing.T, payload int) workload.Case {
	t.Helper()
	c, err := workload.Case{Payload: payload, Batch: 64}.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func rateTrial(c workload.Case, mbPerSec float64) *runrecord.Record {
	bytes := mbPerSec * 1e6
	msgs := bytes / float64(c.MessageBytes())
	r := &runrecord.Record{Valid: true, SizeGrade: "sized", Case: runrecord.Case{Case: c}}
	r.Rates.DeliveredBytesPerSec, r.Rates.DeliveredMsgsPerSec = &bytes, &msgs
	return r
}

func latencyTrial(c workload.Case, p50, p99 int64) *runrecord.Record {
	r := &runrecord.Record{Valid: true, SizeGrade: "n/a", Case: runrecord.Case{Case: c}}
	r.Latency.Kind = c.LatencyKind()
	d := &runrecord.Distribution{N: 1000, P50Ns: &p50}
	if p99 > 0 {
		d.P99Ns = &p99
	}
	r.Latency.EndToEnd = d
	return r
}

func TestPrintSequence(t *testing.T) {
	big := flood(t, 4096)
	stamps := flood(t, 0)
	single, err := workload.Case{Payload: 256}.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	rates := func(c workload.Case, mb ...float64) (out []*runrecord.Record) {
		for _, v := range mb {
			out = append(out, rateTrial(c, v))
		}
		return out
	}
	bad := rateTrial(big, 9000)
	bad.Valid = false
	warned := func(text string) *runrecord.Record {
		r := rateTrial(big, 100)
		r.Warnings = []string{text}
		return r
	}
	for _, tt := range []struct {
		name   string
		c      workload.Case
		trials []*runrecord.Record
		want   []string // regular expressions, each of a line
		not    string
	}{
		{
			"steady rates", big, rates(big, 103, 99, 101, 98, 102, 100, 104),
			[]string{
				`^valid       7 of 7 trials$`,
				`^delivered   median 101.0 MB/s  \[98.0, 104.0\] n=7 \(interval: holds the true median in 98.4 % of such sequences\)   slowest 98.0$`,
				`^spread      p90/p10 = 1.05  n=7$`,
				`^slow modes  0 of 7 trials: 0 %  \[0, 41\] at 95 %`,
				`^position    does not explain the rate \(Spearman's rho \+0.21, p=0.6\d\d, n=7\)$`,
			}, "EXPLAINS",
		},
		{
			"rates that fall", big, rates(big, 110, 108, 104, 103, 99, 95),
			[]string{`^position    EXPLAINS the rate: the later the slower \(Spearman's rho -1.00, p=0.003, n=6\)$`}, "",
		},
		{
			"rates that rise", big, rates(big, 95, 99, 103, 104, 108, 110),
			[]string{`^position    EXPLAINS the rate: the later the faster`}, "",
		},
		{
			"a slow mode that the median hides", big, rates(big, 100, 101, 30, 102, 100),
			[]string{`^delivered   median 100.0 MB/s .* slowest 30.0$`, `^slow modes  1 of 5 trials: 20 %  \[1, 72\]`}, "",
		},
		{
			"failed and invalid trials are left out", big, append(rates(big, 100, 100), nil, bad),
			[]string{`^valid       2 of 4 trials; 2 left out of what follows$`, `^delivered   median 100.0 MB/s  \[100.0, 100.0\] n=2 \(range`, `^position    cannot be told: fewer than two different`}, "9000",
		},
		{
			"stamps alone are counted in messages", stamps, rates(stamps, 32, 32),
			[]string{`^delivered   median 1000.0k msg/s`}, "MB/s",
		},
		{
			"latencies that rise", single, []*runrecord.Record{
				latencyTrial(single, 100_000, 900_000), latencyTrial(single, 110_000, 0), latencyTrial(single, 120_000, 1_000_000),
				latencyTrial(single, 130_000, 0), latencyTrial(single, 400_000, 0)},
			[]string{
				`^p50         median 120 us  \[100 us, 400 us\] n=5 .* slowest 400 us$`, `^p99         median 950 us .* n=2`,
				`^slow modes  1 of 5 trials: 20 % .* the speeds' 90th percentile\)$`, `^position    EXPLAINS the p50: the later the slower`,
			}, "",
		},
		{
			"warnings that differ in figures are one", big, []*runrecord.Record{warned("late by 1.5 s"), warned("late by 12 s"), warned("odd")},
			[]string{`^warning     late by 1.5 s \(2 of 3 trials\)$`, `^warning     odd \(1 of 3 trials\)$`}, "12 s",
		},
		{"nothing", big, nil, []string{`^valid       0 of 0 trials$`, `^delivered   n/a`}, "median"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var b strings.Builder
			printSequence(&b, tt.c, tt.trials)
			for _, want := range tt.want {
				if !regexp.MustCompile("(?m)" + want).MatchString(b.String()) {
					t.Errorf("no line matches %q:\n%s", want, b.String())
				}
			}
			if tt.not != "" && strings.Contains(b.String(), tt.not) {
				t.Errorf("says %q:\n%s", tt.not, b.String())
			}
			if strings.Contains(b.String(), "NaN") {
				t.Errorf("NaN is no figure:\n%s", b.String())
			}
		})
	}
}

func TestPrintTrial(t *testing.T) {
	c := flood(t, 4096)
	others, steal := 0.12, 0.01
	noisy := rateTrial(c, 483.2)
	noisy.Host.Noise = &runrecord.Noise{Grade: "noisy", OthersCPU: &others, Steal: &steal}
	noisy.Perturbed = []string{"pprof"}
	lost := rateTrial(c, 10)
	lost.Valid, lost.Reasons, lost.SizeGrade = false, []string{"lost 3 messages"}, "undersized"
	empty := &runrecord.Record{Case: runrecord.Case{Case: c}, Interrupted: true, Reasons: []string{"interrupted"}, SizeGrade: "n/a"}
	for _, tt := range []struct {
		name string
		r    *runrecord.Record
		want string
	}{
		{"noisy and perturbed", noisy, "trial 3     delivered   118.0k msg/s    483.2 MB/s   valid   size sized   noisy (others 12 %, steal 1 %)   perturbed by pprof\n"},
		{"invalid", lost, "trial 3     delivered     2441 msg/s     10.0 MB/s   INVALID   size undersized   noise unknown\n            INVALID RUN lost 3 messages\n"},
		{"interrupted before a delivery", empty, "trial 3     delivered n/a   INTERRUPTED   size n/a   noise unknown\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var b strings.Builder
			printTrial(&b, 3, tt.r)
			if b.String() != tt.want {
				t.Errorf("got  %q\nwant %q", b.String(), tt.want)
			}
		})
	}
}

func TestPrefixWriter(t *testing.T) {
	var b strings.Builder
	n, err := fmt.Fprint(&prefixWriter{&b}, "one\ntwo\n")
	if n != 8 || err != nil || b.String() != "latencydemo: one\nlatencydemo: two\n" {
		t.Errorf("%d, %v, %q", n, err, b.String())
	}
}
