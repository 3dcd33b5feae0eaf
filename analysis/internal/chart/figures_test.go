package chart_test

import (
	"fmt"
	"math"

	"felix/analysis/internal/chart"
)

var (
	nan    = math.NaN()
	source = chart.Source{Session: "20260301T101500Z-latency-1f2e3d4c", Commit: "0941600abcdef0123456789", Host: "3fa8c1d2e4b59607aa"}
	dirty  = chart.Source{Session: "20260301T101500Z-fast-5e6f7a8b", Commit: "f71a96e", Dirty: true, Host: "3fa8c1d2e4b59607aa"}
	single = chart.Shape{Load: "closed loop, acked, 1 in flight"}
	flood  = chart.Shape{Queueing: true, Load: "flood, batch 64"}
)

func of(median, by float64, n int) chart.Value {
	return chart.Value{Median: median, Low: median * (1 - by), High: median * (1 + by), N: n, Doubtful: n < 5}
}

func absent(median float64, n, invalid int) chart.Value {
	return chart.Value{Median: median, Low: nan, High: nan, N: n, Invalid: invalid}
}

func line(name string, xs []float64, f func(x float64) chart.Value) chart.Series {
	s := chart.Series{Name: name}
	for _, x := range xs {
		s.Points = append(s.Points, chart.Point{X: x, Value: f(x)})
	}
	return s
}

var payloads = []float64{0, 256, 1024, 4096, 16384, 65536, 1 << 20}

// figures are pictures of every kind and every oddity, by the name of their golden file.
func figures() map[string]chart.Figure {
	latency := func(source chart.Source, shape chart.Shape, series ...chart.Series) *chart.Levels {
		return &chart.Levels{
			Title: "Latency percentiles against payload", Caption: "batch=1 fanout=10 preset=P1_hash", Source: source, Shape: shape,
			Unit: chart.Nanoseconds, Factor: "payload", XUnit: chart.Bytes, Series: series,
		}
	}
	rates := func(unit chart.Unit, series ...chart.Series) *chart.Levels {
		return &chart.Levels{
			Title: "Messages delivered against payload", Caption: "fanout=1 preset=P1_hash", Source: dirty, Shape: flood,
			Measure: "delivered, all subscribers", Unit: unit, Factor: "payload", XUnit: chart.Bytes, Series: series,
		}
	}
	grow := func(base float64) func(float64) chart.Value {
		return func(x float64) chart.Value { return of(base*(1+x/20000), 0.09, 5) }
	}
	decades := func(x float64) chart.Value { return of(20*math.Pow(10, 5*math.Log10(max(x, 32)/32)/4.5), 0.2, 5) }
	figs := map[string]chart.Figure{
		"latency": latency(source, single, line("p50 (median of trials)", payloads, grow(45e3)), line("p90 (all messages)", payloads, grow(70e3)),
			line("p99 (median of trials)", payloads, grow(160e3)), line("p99.9 (all messages)", payloads, grow(700e3))),
		"latency-queueing-absent": latency(dirty, flood, line("p50", payloads, func(x float64) chart.Value {
			switch x {
			case 0:
				return absent(0, 5, 0)
			case 1024:
				return absent(nan, 5, 0)
			case 4096:
				return absent(nan, 0, 5)
			case 65536:
				return absent(nan, 0, 0)
			}
			return of(3e6, 0.1, 5)
		}), line("p99", payloads[2:], func(x float64) chart.Value {
			if x == 1024 {
				return absent(nan, 3, 2)
			}
			return of(9e6+x*20, 0.3, 3)
		})),
		"latency-one-point": latency(source, single, line("p50", []float64{256}, grow(50e3)), line("p99", []float64{256}, grow(160e3))),
		"latency-only-0B":   latency(source, single, line("p50", []float64{0}, grow(50e3))),
		"latency-decades":   latency(source, single, line("p50", payloads, decades)),
		"latency-clipped": latency(source, single, line("p50", payloads[1:], func(x float64) chart.Value {
			switch x {
			case 256:
				return of(3e-4, 0.1, 5) // thirteen decades below the rest
			case 1024:
				return chart.Value{Median: 1e5, Low: 0, High: 2e5, N: 5}
			case 4096:
				return chart.Value{Median: math.Inf(1), Low: 1e5, High: math.Inf(1), N: 5}
			}
			return of(1e9, 0.2, 5)
		})),
		"rate":       rates(chart.MsgsPerSec, many(8, payloads)...),
		"throughput": throughput(),
		"distribution": &chart.Distribution{
			Title: "Whole latency distribution", Caption: "payload=256 batch=1 fanout=1", Source: source, Shape: single,
			Curves: []chart.Curve{curve("preset=P1_hash", 5, 1_000_000, 40e3), curve("preset=P4_rr", 5, 50_000, 90e3), curve("preset=P8_rr", 3, 800, 55e3), {Name: "preset=P16"}},
		},
		"distribution-one-point": &chart.Distribution{
			Title: "Whole latency distribution", Caption: "payload=256 batch=1 fanout=1", Source: dirty, Shape: flood,
			Curves: []chart.Curve{{Name: "preset=P1_hash", Trials: 1, N: 1, MaxNs: 52e3, Steps: []chart.Step{{Quantile: 1, Ns: 52e3}}}},
		},
		"distribution-decades": &chart.Distribution{
			Title: "Whole latency distribution", Caption: "payload=256 batch=1 fanout=1", Source: dirty, Shape: flood,
			Curves: []chart.Curve{{Name: "zero first", Trials: 2, N: 100_000_000, MaxNs: 8e12, Steps: []chart.Step{
				{Quantile: 0.1, Ns: 0}, {Quantile: 0.3, Ns: 100}, {Quantile: 0.5, Ns: 1e4}, {Quantile: 0.9, Ns: 1e6}, {Quantile: 0.999, Ns: 3e9}, {Quantile: 1, Ns: 8e12}}}},
		},
		"trials":         trialRows(),
		"trials-one":     &chart.Trials{Title: "Every trial", Source: source, Shape: single, Measure: "p50 end-to-end", Unit: chart.Nanoseconds, HigherIs: "worse", Rows: []chart.TrialRow{{Name: "payload=256", Value: chart.Value{Median: 51e3, Low: 51e3, High: 51e3, N: 1, Doubtful: true}, Dots: []chart.Dot{{Value: 51e3}}, Marks: "n<5"}}},
		"trials-invalid": &chart.Trials{Title: "Every trial", Source: source, Shape: flood, Measure: "delivered", Unit: chart.BytesPerSec, HigherIs: "better", Rows: []chart.TrialRow{{Name: "payload=256", Value: absent(nan, 0, 3), Dots: []chart.Dot{{Value: 51e6, Kind: chart.DotInvalid}, {Value: 49e6, Kind: chart.DotInvalid}, {Value: nan, Kind: chart.DotFailed}}, Marks: "invalid"}}},
		"timeline":       timeline(),
		"timeline-poor": &chart.Timeline{
			Title: "A run over time", Caption: "payload=0 batch=1", Source: source, Shape: single, Trial: "trial 0, INVALID: nothing was delivered", Unit: chart.MsgsPerSec,
			Slices: []chart.Slice{{0.1, 0.1, 1000, 0, nan, nan, nan}, {0.2, 0.1, 0, 0, nan, nan, nan}},
		},
		"overload":       plateau(false, 5),
		"load":           plateau(true, 5),
		"load-two-rates": plateau(true, 2),
		"ledger":         ledger([]int64{444_000, 444_000, 444_000, 444_000, 444_000, 888_000, 888_000, 888_000}, nil),
		"ledger-dropped": ledger([]int64{444, 444, 440, 420, 420, 763, 760, 690}, []int64{40, 77, 3, 50, 0, 20}),
		"ledger-unknown": ledger([]int64{1_234_567, -1, -1, -1, -1, -1, -1, 2_469_133}, []int64{-1, -1, -1, 0, -1, 1}),
		"forest":         forest(),
		"forest-decades": &chart.Forest{
			Title: "Comparison", Caption: "unpaired: sessions share no drift control", Source: dirty, BaseSource: source, Base: "base", Head: "head", Shape: flood,
			Rows: []chart.ForestRow{
				{Cell: "payload=256", Metric: "delivered bytes/s", HigherIsBetter: true, Ratio: 0.002, Low: 0.001, High: 0.01, N: 5},
				{Cell: "payload=1024", Metric: "delivered bytes/s", HigherIsBetter: true, Ratio: 1.4, Low: 0.7, High: 120, N: 5},
				{Cell: "payload=4096", Metric: "p99", Ratio: nan, Low: nan, High: nan, N: 0, Note: "missing in head"},
				{Cell: "payload=16384", Metric: "p99", Ratio: 0, Low: nan, High: nan, N: 5, Note: "head is 0"},
				{Cell: "payload=65536", Metric: "p99", Ratio: 1, Low: nan, High: nan, N: 1},
			},
		},
	}
	trend := func(points []chart.TrendPoint, changes ...chart.TrendChange) *chart.Trend {
		return &chart.Trend{
			Title: "p99 through 24 sessions", Caption: "payload=256 batch=1 fanout=1", Source: dirty, Shape: single, Measure: "p99", Unit: chart.Nanoseconds,
			HigherIs: "worse", Points: points, Changes: changes, Notes: []string{"Sessions share no drift control: a change can be the machine's own; matrix ab decides."},
		}
	}
	var nights, odd []chart.TrendPoint
	for i := range 24 {
		level := 180e3
		switch {
		case i >= 17:
			level = 165e3
		case i >= 9:
			level = 210e3
		}
		nights = append(nights, chart.TrendPoint{Label: fmt.Sprintf("03-%02d %07x", i+1, 0x941600+i), Value: of(level*(1+0.01*math.Sin(float64(i*7))), 0.03, 5)})
	}
	for i, v := range []chart.Value{of(40, 0.1, 5), of(6e6, 0.2, 3), absent(0, 5, 0), absent(nan, 5, 0), absent(nan, 0, 5), {Median: nan}, of(1e-6, 0.1, 5)} {
		odd = append(odd, chart.TrendPoint{Label: fmt.Sprintf("03-%02d", i+1), Value: v})
	}
	figs["trend"] = trend(nights, chart.TrendChange{At: 9, Before: 180e3, After: 210e3, Text: "x1.167", Worse: true}, chart.TrendChange{At: 17, Before: 210e3, After: 165e3, Text: "x0.786"})
	figs["trend-odd"] = trend(odd)
	figs["trend-one-point"] = trend(nights[:1])
	return figs
}

// plateau is a system that carries 20,000 messages/s, at so many rates: beyond, it drops and stays as late as its queues
// are long.
func plateau(curve bool, rates int) *chart.Load {
	f := &chart.Load{
		Title: "Overload plateau", Caption: "payload=1024 batch=16 slow=*:20MB", Source: dirty, Shape: chart.Shape{Load: "open loops"}, Curve: curve,
	}
	for i := range rates {
		offered := 2000 * math.Pow(2.6, float64(i))
		delivered := min(offered, 20e3)
		late := 300e3 * (1 + 1/math.Max(0.02, 1-offered/21e3))
		if offered > 20e3 {
			late = 1.2e9
		}
		p := chart.LoadPoint{Offered: offered, Subscribers: 2, Delivered: of(2*delivered, 0.03, 5), P50: of(late/2, 0.1, 5), P99: of(late, 0.2, 5)}
		dropped := 100 * (1 - delivered/offered)
		for j, share := range []float64{0, 0.8, 0.2, 0} {
			p.Dropped[j] = of(dropped*share, 0.05, 5)
		}
		p.Dropped[3] = absent(nan, 5, 0)
		p.Delivered.Doubtful = i == 1
		f.Points = append(f.Points, p)
	}
	return f
}

func many(n int, xs []float64) []chart.Series {
	var out []chart.Series
	for i := range n {
		out = append(out, line(fmt.Sprintf("batch=%d", 1<<i), xs, func(x float64) chart.Value {
			if i == 3 && x == 4096 {
				return absent(nan, 0, 5)
			}
			if i == 7 && x > 20000 {
				return absent(nan, 0, 0)
			}
			return of(40e3*math.Pow(1.7, float64(i))/(1+max(x, 32)/3000), 0.06, 5)
		}))
	}
	return out
}

func throughput() *chart.Levels {
	series := many(3, payloads[1:])
	for i := range series {
		for j := range series[i].Points {
			p := &series[i].Points[j]
			p.Median, p.Low, p.High = p.Median*p.X, p.Low*p.X, p.High*p.X
		}
	}
	return &chart.Levels{
		Title: "Delivered MB/s against payload", Caption: "fanout=1 preset=P1_hash", Source: dirty, Shape: flood, Measure: "delivered, all subscribers",
		Unit: chart.BytesPerSec, Factor: "payload", XUnit: chart.Bytes, Series: series, Notes: []string{"payload=0 has no bytes but the bench's own stamp and is left out."},
	}
}

// curve is a made-up distribution with a heavy tail.
func curve(name string, trials int, n int64, scale float64) chart.Curve {
	c := chart.Curve{Name: name, Trials: trials, N: n}
	for i := 0.0; i <= math.Log10(float64(n)); i += 0.05 {
		q := 1 - math.Pow(10, -i)
		c.Steps = append(c.Steps, chart.Step{Quantile: q, Ns: scale * (0.5 + 0.4*i + 0.05*math.Exp(1.3*i))})
	}
	c.MaxNs = c.Steps[len(c.Steps)-1].Ns * 1.8
	return c
}

func trialRows() *chart.Trials {
	f := &chart.Trials{
		Title: "Every trial: delivered MB/s", Caption: "payload=4096 fanout=10", Source: dirty, Shape: flood,
		Measure: "delivered, all subscribers", Unit: chart.BytesPerSec, HigherIs: "better",
	}
	for i := range 9 {
		base := 80e6 * float64(i+2)
		r := chart.TrialRow{Name: fmt.Sprintf("batch=%d preset=P%d_hash", 1<<i, i+1), Value: of(base, 0.04, 5)}
		for j := range 5 {
			r.Dots = append(r.Dots, chart.Dot{Value: base * (1 + 0.02*float64((j*7+i)%5-2))})
		}
		switch i {
		case 2:
			r.Dots[1] = chart.Dot{Value: base / 5.5, Kind: chart.DotSlow}
			r.Low, r.Slow, r.Marks = base/5.5, "slow 1/5 [1 %, 72 %]", "spread"
		case 3:
			r.Dots[4].Kind = chart.DotNoisy
			r.Dots = append(r.Dots, chart.Dot{Value: base * 0.8, Kind: chart.DotSuperseded})
			r.Marks = "noisy"
		case 4:
			r.Dots = append(r.Dots[:3], chart.Dot{Value: base * 0.4, Kind: chart.DotInvalid}, chart.Dot{Value: nan, Kind: chart.DotFailed})
			r.N, r.Invalid, r.Marks = 3, 2, "n<5, invalid, failed"
		case 5:
			r.Name = "batch=32 preset=P6_hash broker.subscriber_queue_policy=drop_old transport.packet_size=1452"
		case 6:
			r.Value, r.Dots, r.Marks = absent(nan, 0, 0), nil, ""
		case 7:
			r.Value = absent(0, 5, 0)
			for j := range r.Dots {
				r.Dots[j].Value = 0
			}
		}
		f.Rows = append(f.Rows, r)
	}
	return f
}

func timeline() *chart.Timeline {
	f := &chart.Timeline{
		Title: "A run over time", Caption: "payload=4096 batch=64 fanout=10 preset=P1_hash", Source: dirty, Shape: flood,
		Trial: "trial 3, valid", Unit: chart.BytesPerSec, Conn: "broker/7 → 127.0.0.1:40123",
	}
	for i := range 82 {
		t := float64(i+1) / 10
		s := chart.Slice{AtSeconds: t, Seconds: 0.1, Published: 120e6 + 10e6*math.Sin(t*3), Delivered: 118e6 + 14e6*math.Sin(t*2.3), P50Ns: 4e6 + 2e6*math.Sin(t), P99Ns: 2e7 + 1.5e7*math.Sin(t*1.4), BacklogBytes: 6e6 + 5e6*math.Sin(t)}
		switch {
		case i > 40 && i < 46:
			s.Delivered, s.P50Ns, s.P99Ns = 0, nan, nan
		case i > 76:
			s.Published, s.BacklogBytes = 0, 1e5
		}
		f.Slices = append(f.Slices, s)
	}
	for i := range 33 {
		t := float64(i) / 4
		c := chart.ConnSample{AtSeconds: t, CwndBytes: 40e3 + 30e3*float64(i%9), MTUBytes: 1452, RTTSmoothedNs: 3e5 + 2e5*math.Sin(t), RTTMinNs: 9e4, PacketsLost: float64(i / 5 * 12)}
		if i < 3 {
			c.MTUBytes = 1280
		}
		f.Samples = append(f.Samples, c)
	}
	return f
}

// ledger makes one of the eight stations' counts (-1: not counted) and of what was lost at ingress, subscriber queue,
// writer, client, on close, and without account.
func ledger(counts, losses []int64) *chart.Ledger {
	known := func(n int64) *int64 {
		if n < 0 {
			return nil
		}
		return &n
	}
	f := &chart.Ledger{Title: "Where the messages went", Caption: "payload=4096 batch=64 fanout=2", Source: source, Shape: flood, Trial: "trial 0, valid"}
	for i, name := range []string{"offered", "written", "received", "accepted", "published", "queued", "sent", "delivered"} {
		s := chart.Station{Name: name, Count: known(counts[i]), Whole: counts[0], Unit: "messages"}
		if i > 4 {
			s.Whole, s.Unit = 2*counts[0], "deliveries"
		}
		f.Stations = append(f.Stations, s)
	}
	for i, l := range []chart.Loss{{Name: "dropped at ingress", After: 2}, {Name: "dropped by subscriber queues", After: 4}, {Name: "dropped by writers", After: 5}, {Name: "dropped by the client", After: 6}, {Name: "discarded on close", After: 6}, {Name: "UNACCOUNTED", After: 6, Bad: true}} {
		l.Whole = 2 * counts[0]
		if losses != nil {
			l.Count = known(losses[i])
		} else {
			l.Count = new(int64)
		}
		f.Losses = append(f.Losses, l)
	}
	return f
}

func forest() *chart.Forest {
	f := &chart.Forest{
		Title: "f71a96e against 0941600", Caption: "paired, order balanced, 20 pairs", Source: dirty, BaseSource: source, Base: "base", Head: "head",
		Shape: single, FailMargin: 0.05, PassMargin: 0.10,
	}
	for i := range 4 {
		cell := fmt.Sprintf("payload=%d batch=1 fanout=%d", 256<<(2*i), i+1)
		f.Rows = append(f.Rows,
			chart.ForestRow{Cell: cell, Metric: "p50 EndToEnd", Ratio: 1.01 + 0.05*float64(i), Low: 0.98 + 0.05*float64(i), High: 1.05 + 0.05*float64(i), N: 20, Judgement: []chart.Judgement{chart.Pass, chart.Inconclusive, chart.Fail, chart.Fail}[i]},
			chart.ForestRow{Cell: cell, Metric: "delivered bytes/s", HigherIsBetter: true, Ratio: 1.04 - 0.06*float64(i), Low: 0.99 - 0.06*float64(i), High: 1.08 - 0.06*float64(i), N: 20, Judgement: []chart.Judgement{chart.Pass, chart.Pass, chart.Inconclusive, chart.Fail}[i]},
		)
	}
	f.Rows[7].Note = "new slow mode"
	return f
}
