package main

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"felix/internal/trial"
	"felix/internal/workload"
)

// given is what the flags say, in the types of whoever obeys them.
type given struct {
	Case     workload.Case
	Sizes    trial.Sizes
	External *trial.External
	YAML     string
	JSONOut, OutDir, Session,
	Admin string
	DryRun, Version, SameProcess, NoWait bool
	Repeat, Pairs                        int
	Against                              workload.Probe
	Pprof                                trial.Profiles
}

func (o *options) given() given {
	g := given{
		Case: o.c, Sizes: o.sizes, YAML: string(o.layers.YAML),
		JSONOut: o.jsonOut, OutDir: o.outDir, Session: o.session, DryRun: o.dryRun, Version: o.version,
		SameProcess: o.sameProcess, NoWait: o.noWait, Repeat: o.repeat, Pairs: o.pairs, Against: o.against, Pprof: o.pprof,
	}
	if o.external != nil {
		x := *o.external
		if x.Admin != nil {
			g.Admin = x.Admin.String()
			x.Admin = nil
		}
		g.External = &x
	}
	return g
}

// flagRows say for every flag what a value of it must change, and nothing else. A row of the case table is a factor.
type flagRow struct {
	name   string
	value  string
	with   []string // other flags that it needs
	factor bool
	change func(*given)
}

func flagRows(t *testing.T) []flagRow {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	config, token, ca := file("s.yml", "log_capacity: 7\n"), file("token", "secret\n"), file("cert.pem", "PEM")
	pairs := []string{"--against", "raw", "--pairs", "2"}
	external := []string{"--topology", "external", "--broker", "127.0.0.1:1", "--token", token}
	return []flagRow{
		{"transport", "tls", nil, true, func(g *given) { g.Case.Transport = workload.TransportTLS }},
		{"payload", "4096", nil, true, func(g *given) { g.Case.Payload = 4096 }},
		{"batch", "64", nil, true, func(g *given) { g.Case.Batch = 64 }},
		{"fanout", "10", nil, true, func(g *given) { g.Case.Fanout = 10 }},
		{"load", "flood", nil, true, func(g *given) { g.Case.Load = workload.LoadFlood }},
		{"rate", "2500.5", nil, true, func(g *given) { g.Case.Rate = 2500.5 }},
		{"arrival", "poisson", nil, true, func(g *given) { g.Case.Arrival = workload.ArrivalPoisson }},
		{"acks", "per_batch", nil, true, func(g *given) { g.Case.Acks = workload.AcksPerBatch }},
		{"inflight", "8", nil, true, func(g *given) { g.Case.Inflight = 8 }},
		{"publishers", "4", nil, true, func(g *given) { g.Case.Publishers = 4 }},
		{"streams", "3", nil, true, func(g *given) { g.Case.Streams = 3 }},
		{"pub-conns", "2", nil, true, func(g *given) { g.Case.PubConns = 2 }},
		{"pub-streams-per-conn", "5", nil, true, func(g *given) { g.Case.PubStreamsPerConn = 5 }},
		{"sharding", "rr", nil, true, func(g *given) { g.Case.Sharding = workload.ShardingRR }},
		{"sub-conns", "1", nil, true, func(g *given) { g.Case.SubConns = 1 }},
		{"encoding", "json", nil, true, func(g *given) { g.Case.Encoding = workload.EncodingJSON }},
		{"policy", "production", nil, true, func(g *given) { g.Case.Policy = workload.PolicyProduction }},
		{"topology", "split", nil, true, func(g *given) { g.Case.Topology = workload.TopologySplit }},
		{"procs", "2", nil, true, func(g *given) { g.Case.Procs = 2 }},
		{"cpus", "broker=0,sub=0-1", nil, true, func(g *given) { g.Case.CPUs = "broker=0,sub=0-1" }},
		{"timer-slack", "1ms", nil, true, func(g *given) { g.Case.TimerSlack = workload.TimerSlack(time.Millisecond) }},
		{"profile", "high_memory", nil, true, func(g *given) { g.Case.Profile = "high_memory" }},
		{"burst", "400", nil, true, func(g *given) { g.Case.Burst = 400 }},
		{"payload-mix", "100:95%,1MiB:5%", nil, true, func(g *given) {
			g.Case.PayloadMix = workload.PayloadMix{{Bytes: 100, Percent: 95}, {Bytes: 1 << 20, Percent: 5}}
		}},
		{"tenants", "a:20000,b:2000", nil, true, func(g *given) { g.Case.Tenants = workload.Tenants{{Name: "a", Rate: 20000}, {Name: "b", Rate: 2000}} }},
		{"stall", "0.3:1s:5s", nil, true, func(g *given) {
			g.Case.Stall = workload.Stalls{{Which: workload.Which{Index: 3}, At: time.Second, For: 5 * time.Second}}
		}},
		{"slow", "*:20MB", nil, true, func(g *given) {
			g.Case.Slow = workload.Slows{{Which: workload.Which{Stream: workload.Every, Index: workload.Every}, BytesPerSec: 20e6}}
		}},
		{"overload", "true", nil, true, func(g *given) { g.Case.Overload = true }},
		{"broker-set", "log_capacity=9", nil, true, func(g *given) { g.Case.BrokerSet = map[string]string{"log_capacity": "9"} }},
		{"client-set", "ack_timeout_ms=9", nil, true, func(g *given) { g.Case.ClientSet = map[string]string{"ack_timeout_ms": "9"} }},
		{"transport-set", "packet_size=1300", nil, true, func(g *given) { g.Case.TransportSet = map[string]string{"packet_size": "1300"} }},

		{"total", "777", nil, false, func(g *given) { g.Sizes.Total = 777 }},
		{"duration", "1m30s", nil, false, func(g *given) { g.Sizes.Duration = 90 * time.Second }},
		{"warmup", "0", nil, false, func(g *given) { g.Sizes.Warmup = 0 }},
		{"send-window", "16MiB", nil, false, func(g *given) { g.Sizes.SendWindow = 16 << 20 }},
		{"max-deliveries", "5000", nil, false, func(g *given) { g.Sizes.MaxDeliveries = 5000 }},
		{"allow-undersized", "true", nil, false, func(g *given) { g.Sizes.AllowUndersized = true }},
		{"idle-timeout", "2s", nil, false, func(g *given) { g.Sizes.IdleTimeout = 2 * time.Second }},
		{"seed", "18446744073709551615", nil, false, func(g *given) { g.Sizes.Seed = 1<<64 - 1 }},
		{"conn-stats", "0s", nil, false, func(g *given) { g.Sizes.ConnStats = -1 }},
		{"trace-every", "0", nil, false, func(g *given) { g.Sizes.TraceEvery = -1 }},
		{"pprof", "heap,cpu", []string{"--out", "o"}, false, func(g *given) { g.Pprof = trial.Profiles{trial.ProfileCPU, trial.ProfileHeap} }},
		{"canary-delay", "30µs", nil, false, func(g *given) { g.Sizes.Canary.Delay = 30 * time.Microsecond }},
		{"canary-rate", "1000.5", nil, false, func(g *given) { g.Sizes.Canary.Rate = 1000.5 }},
		{"config", config, nil, false, func(g *given) { g.YAML = "log_capacity: 7\n" }},
		{"json", "-", nil, false, func(g *given) { g.JSONOut = "-" }},
		{"out", "dir with space", nil, false, func(g *given) { g.OutDir = "dir with space" }},
		{"session", "s", nil, false, func(g *given) { g.Session = "s" }},
		{"repeat", "5", nil, false, func(g *given) { g.Repeat = 5 }},
		{"against", "relay", pairs, false, func(g *given) { g.Against = workload.ProbeRelay }},
		{"pairs", "3", pairs, false, func(g *given) { g.Pairs = 3 }},
		{"same-process", "true", []string{"--repeat", "2"}, false, func(g *given) { g.SameProcess = true }},
		{"no-wait", "true", nil, false, func(g *given) { g.NoWait = true }},
		{"dry-run", "true", nil, false, func(g *given) { g.DryRun = true }},
		{"version", "true", nil, false, func(g *given) { g.Version = true }},

		{"broker", "127.0.0.1:9", external, false, func(g *given) { g.External.Addr = "127.0.0.1:9" }},
		{"tenant", "t9", external, false, func(g *given) { g.External.Tenant = "t9" }},
		{"namespace", "n9", external, false, func(g *given) { g.External.Namespace = "n9" }},
		{"stream", "s9", external, false, func(g *given) { g.External.Stream = "s9" }},
		{"token", ca, external, false, func(g *given) { g.External.Token = "PEM" }},
		{"tls-ca", ca, external, false, func(g *given) { g.External.CAPEM = []byte("PEM") }},
		{"tls-pin", "ab12", external, false, func(g *given) { g.External.PinSHA256 = "ab12" }},
		{"server-name", "felix.test", external, false, func(g *given) { g.External.ServerName = "felix.test" }},
		{"broker-admin", "http://127.0.0.1:80", external, false, func(g *given) { g.Admin = "http://127.0.0.1:80" }},
	}
}

func parsed(t *testing.T, args []string) *options {
	t.Helper()
	o, err := parseFlags(args, nil)
	if err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	return o
}

// Every flag is read, changes what it says and nothing else, and comes back when what was parsed is written down and
// parsed again.
func TestEveryFlagRoundTrips(t *testing.T) {
	rows := flagRows(t)
	newFlags(&options{}).VisitAll(func(f *pflag.Flag) {
		if !slices.ContainsFunc(rows, func(r flagRow) bool { return r.name == f.Name }) {
			t.Errorf("--%s has no row", f.Name)
		}
		if f.Shorthand != "" {
			t.Errorf("-%s: flags have no short forms; runners rely on it", f.Shorthand)
		}
	})
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			want := parsed(t, r.with).given()
			args := append(slices.Clone(r.with), "--"+r.name+"="+r.value)
			before := want
			if want.External != nil {
				x := *want.External
				want.External = &x
			}
			r.change(&want)
			if reflect.DeepEqual(before, want) {
				t.Fatal("the row changes nothing: choose a value that is not the default")
			}
			o := parsed(t, args)
			if d := cmp.Diff(want, o.given()); d != "" {
				t.Errorf("%q (-want +got):\n%s", args, d)
			}
			if d := cmp.Diff(want, parsed(t, written(o.flags)).given()); d != "" {
				t.Errorf("written down as %q (-want +got):\n%s", written(o.flags), d)
			}
		})
	}
}

// written lists the flags that were given, each by its own text.
func written(f *pflag.FlagSet) []string {
	var args []string
	f.Visit(func(fl *pflag.Flag) {
		if kv, ok := fl.Value.(*keyValues); ok {
			for k, v := range *kv {
				args = append(args, "--"+fl.Name, k+"="+v)
			}
			return
		}
		args = append(args, "--"+fl.Name+"="+fl.Value.String())
	})
	return args
}

// The case table is the contract: each of its rows is a factor of Case and a flag of that name, and Case has no
// factor that no flag sets.
func TestEveryFactorIsAFlag(t *testing.T) {
	table := strings.Fields(`transport payload batch fanout load rate arrival acks inflight publishers streams pub-conns
		pub-streams-per-conn sharding sub-conns encoding policy topology procs cpus timer-slack profile burst payload-mix tenants stall slow overload
		broker-set client-set transport-set`)
	var factors, flags []string
	c := reflect.TypeFor[workload.Case]()
	for i := range c.NumField() {
		name, _, _ := strings.Cut(c.Field(i).Tag.Get("json"), ",")
		if name == workload.ProbeWord {
			continue // two words in place of a flag
		}
		factors = append(factors, strings.ReplaceAll(name, "_", "-"))
	}
	for _, r := range flagRows(t) {
		if r.factor {
			flags = append(flags, r.name)
		}
	}
	if d := cmp.Diff(table, factors); d != "" {
		t.Errorf("factors of Case (-table +Case):\n%s", d)
	}
	if d := cmp.Diff(table, flags); d != "" {
		t.Errorf("flags (-table +flags):\n%s", d)
	}
}

// Defaults are those of the case table.
func TestDefaultCase(t *testing.T) {
	c, err := parsed(t, nil).c.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	want := workload.Case{
		Payload: 256, Batch: 1, Fanout: 1, Load: workload.LoadClosed, Acks: workload.AcksPerMessage, Inflight: 1, Publishers: 1, Streams: 1,
		PubConns: 1, PubStreamsPerConn: 1, SubConns: 1, Profile: "balanced",
	}
	if d := cmp.Diff(want, c); d != "" {
		t.Errorf("default case (-want +got):\n%s", d)
	}
}

// A grid runs latencydemo with the flags of a resolved case: they must mean that case again.
func TestCaseFlagsMeanTheCase(t *testing.T) {
	for _, args := range [][]string{
		nil,
		{"--payload", "0"},
		{"--payload", "4096", "--batch", "64", "--fanout", "10", "--publishers", "8", "--streams", "8", "--pub-conns", "4", "--pub-streams-per-conn", "2", "--sharding", "rr"},
		{"--batch", "64", "--acks", "per_batch", "--inflight", "4"},
		{"--acks", "none"},
		{"--load", "flood", "--acks", "per_message"},
		{"--rate", "12345.678", "--arrival", "poisson", "--batch", "4"},
		{"--encoding", "json", "--policy", "production", "--topology", "split", "--profile", "high_memory", "--sub-conns", "1", "--fanout", "3"},
		{"--broker-set", "log_capacity=9", "--broker-set", "event_batch_max_events=3", "--client-set", "ack_timeout_ms=5", "--transport-set", "packet_size=1300"},
	} {
		want, err := parsed(t, args).c.Resolve()
		if err != nil {
			t.Fatal(err)
		}
		got, err := parsed(t, want.Flags()).c.Resolve()
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%q became %q (-want +got):\n%s", args, want.Flags(), d)
		}
	}
}

// The last value of a key wins, as with every other flag.
func TestRepeatedSettings(t *testing.T) {
	o := parsed(t, []string{"--broker-set", "log_capacity=1", "--broker-set=event_batch_max_events=3", "--broker-set", "log_capacity=2"})
	want := map[string]string{"log_capacity": "2", "event_batch_max_events": "3"}
	if d := cmp.Diff(want, o.c.BrokerSet); d != "" {
		t.Error(d)
	}
}

func TestWithout(t *testing.T) {
	for _, tt := range []struct {
		name string
		args string
		want string
	}{
		{"nothing to leave out", "--payload 64 --batch=2", "--payload 64 --batch=2"},
		{"values after a space and after =", "--repeat 5 --payload 64 --json=- --session s", "--payload 64"},
		{"switches have no value", "--same-process --repeat=2 --allow-undersized --no-wait --batch 2", "--allow-undersized --batch 2"},
		{"a switch with one", "--same-process=true --repeat 2 --batch 2", "--batch 2"},
		{"a value that looks like a flag", "--out --json --batch 2", "--batch 2"},
		{"the end of flags", "--repeat 2 --batch 2 --", "--batch 2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			args := strings.Fields(tt.args)
			o := parsed(t, args)
			if got := strings.Join(without(o.flags, args, sequenceFlags...), " "); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
