package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"felix/internal/host"
	"felix/internal/settings"
	"felix/internal/trial"
	"felix/internal/workload"
)

// options are the flags as given.
type options struct {
	c     workload.Case
	sizes trial.Sizes

	total     countOrAuto
	warmup    countOrAuto
	trace     countOrAuto
	pprof     trial.Profiles
	window    byteSize
	connStats time.Duration
	brokerSet keyValues
	clientSet keyValues
	transpSet keyValues

	broker, tenant, namespace, stream string
	tokenFile, tlsCA, tlsPin          string
	serverName, admin                 string
	config                            string
	jsonOut, outDir, session          string
	dryRun, version                   bool

	against          workload.Probe
	againstTransport workload.Transport
	pairs            int

	repeat      int
	sameProcess bool
	noWait      bool
	lockHeld    string // host.LockHeldEnv, as a parent has set it
	args        []string

	flags    *pflag.FlagSet
	layers   settings.Layers
	external *trial.External
}

// newFlags declares every flag; parse errors are the caller's to print.
func newFlags(o *options) *pflag.FlagSet {
	f := pflag.NewFlagSet("latencydemo", pflag.ContinueOnError)
	f.SortFlags = false
	f.Usage = func() {}
	f.SetOutput(io.Discard)

	c := &o.c
	f.Var(&c.Transport, "transport", "of a probe (latencydemo probe NAME, or --against NAME); the broker is reached over QUIC")
	f.IntVar(&c.Payload, "payload", 256, "bytes of a whole message; 0 = the stamp alone (32 bytes); 1-31 are refused")
	f.IntVar(&c.Batch, "batch", 1, "messages per publish frame")
	f.IntVar(&c.Fanout, "fanout", 1, "subscribers per stream, each measured")
	f.Var(&c.Load, "load", "closed loop, open loop or flood; auto: open with --rate, else closed if acked, else flood")
	f.Float64Var(&c.Rate, "rate", 0, "messages/s over all publishers, on an absolute schedule; a batch is one slot")
	f.Var(&c.Arrival, "arrival", "spacing of the slots of --rate")
	f.Var(&c.Acks, "acks", "auto: per_message at batch 1, none otherwise")
	f.IntVar(&c.Inflight, "inflight", 1, "batches outstanding per publisher (closed loop)")
	f.IntVar(&c.Publishers, "publishers", 1, "publishers; publisher p writes to stream p mod streams")
	f.IntVar(&c.Streams, "streams", 1, "logical streams")
	f.IntVar(&c.PubConns, "pub-conns", 1, "publish connections, shared by all publishers")
	f.IntVar(&c.PubStreamsPerConn, "pub-streams-per-conn", 1, "QUIC streams on each of them")
	f.Var(&c.Sharding, "sharding", "hash_stream keeps the order of a logical stream; rr promises none")
	f.IntVar(&c.SubConns, "sub-conns", 0, "connections that subscriptions are spread over; 0 = fanout x streams")
	f.Var(&c.Encoding, "encoding", "of publishes and their acks; delivery is always shared binary")
	f.Var(&c.Policy, "policy", "lossless blocks when a queue is full; production drops and counts")
	f.Var(&c.Topology, "topology", "processes: broker in a child; split: publishers and subscribers too; external: --broker")
	f.Var(&c.Procs, "procs", "GOMAXPROCS of every process of the trial; auto: the processors of --cpus, else its share of the machine's")
	f.Var(&c.TimerSlack, "timer-slack", "how late the kernel may wake a thread of any process of the trial (Linux); auto: 2ms, but the kernel's own 50us for a closed loop of single messages")
	f.Var(&c.CPUs, "cpus", "processors that roles may run on, as broker=0,pub=1,sub=0-1 (Linux)")
	f.StringVar(&c.Profile, "profile", workload.DefaultProfile, "named set of settings")
	f.Var(&o.brokerSet, "broker-set", "setting of the broker, key=value; repeatable")
	f.Var(&o.clientSet, "client-set", "setting of the clients, key=value; repeatable")
	f.Var(&o.transpSet, "transport-set", "setting of the transport at both ends, key=value; repeatable")

	overloadFlags(f, c)

	z := &o.sizes
	f.Var(&o.total, "total", "messages to measure over all publishers; auto: what the size rule needs")
	f.DurationVar(&z.Duration, "duration", 0, "end the measure phase by time (10s, 1m); the first of --total and --duration to come wins")
	f.Var(&o.warmup, "warmup", "messages before the measure phase; auto: until MTU and cwnd have had time to settle")
	f.Var(&o.window, "send-window", "window of the broker's connections, 64MiB by default; its streams get a quarter. With --broker: what to assume")
	f.Int64Var(&z.MaxDeliveries, "max-deliveries", workload.DefaultMaxDeliveries, "deliveries at which --total auto ends")
	f.BoolVar(&z.AllowUndersized, "allow-undersized", false, "warn instead of failing when a throughput run is too small")
	f.DurationVar(&z.IdleTimeout, "idle-timeout", trial.DefaultIdleTimeout, "how long the barrier and the drain wait without a delivery")
	f.Uint64Var(&z.Seed, "seed", 1, "of payload bytes and Poisson arrivals")
	f.DurationVar(&o.connStats, "conn-stats", 250*time.Millisecond, "sampling interval of connection statistics; 0 = only at the end")
	f.Var(&o.trace, "trace-every", "follow one of so many messages through its stages; 0 = none; auto: so few that it costs nothing to speak of, and an odd number, which is not in step with the acks of QUIC. More of them are marked as perturbing")
	f.Var(&o.pprof, "pprof", "profiles that every process takes over the measure phase; they go beside the record, and the run is marked as perturbed")
	// What matrix ab --canary says to it; nobody else has a use for them.
	f.DurationVar(&z.Canary.Delay, "canary-delay", 0, "wait after the stamp of every publish (latency cases)")
	f.Float64Var(&z.Canary.Rate, "canary-rate", 0, "most messages/s of all publishers (throughput cases)")
	for _, name := range []string{"canary-delay", "canary-rate"} {
		f.Lookup(name).Hidden = true
	}
	f.StringVar(&o.config, "config", "", "YAML file of settings")
	f.StringVar(&o.jsonOut, "json", "", "write the record, one JSON line, to a file (appended) or - for stdout")
	f.StringVar(&o.outDir, "out", "", "directory for files beside the record")
	f.StringVar(&o.session, "session", "", "session directory: appends to its records.jsonl, files go to runs/<run_id>/")
	f.IntVar(&o.repeat, "repeat", 1, "trials of the case, one after another, each with a fresh runner; --out then gets a directory for each")
	f.BoolVar(&o.sameProcess, "same-process", false, "all trials of --repeat in this runner, so that what one leaves behind meets the next")
	f.Var(&o.against, "against", "hold the case against this probe: pairs of both, in balanced random order, and their ratios")
	f.IntVar(&o.pairs, "pairs", 0, "how many pairs of --against; one more comes first and is thrown away")
	f.BoolVar(&o.noWait, "no-wait", false, "refuse when another measurement runs on this machine, instead of waiting for its end")
	f.BoolVar(&o.dryRun, "dry-run", false, "print the resolved case and settings, run nothing")
	f.BoolVar(&o.version, "version", false, "print the identity of this build")

	f.StringVar(&o.broker, "broker", "", "address of a running broker (topology external)")
	f.StringVar(&o.tenant, "tenant", "t1", "tenant on that broker")
	f.StringVar(&o.namespace, "namespace", "default", "namespace")
	f.StringVar(&o.stream, "stream", "latency", "stream; further ones of --streams are STREAM-1, STREAM-2 …")
	f.StringVar(&o.tokenFile, "token", "", "file that holds the tenant's token")
	f.StringVar(&o.tlsCA, "tls-ca", "", "file with the certificate to trust (PEM)")
	f.StringVar(&o.tlsPin, "tls-pin", "", "SHA-256 of the broker's certificate, in hex, in place of --tls-ca")
	f.StringVar(&o.serverName, "server-name", "", "name that the certificate must be for (default localhost)")
	f.StringVar(&o.admin, "broker-admin", "", "URL of the broker's admin HTTP; without it what it dropped stays unaccounted")
	o.flags = f
	return f
}

// external flags mean nothing without --topology external.
var externalFlags = []string{"broker", "tenant", "namespace", "stream", "token", "tls-ca", "tls-pin", "server-name", "broker-admin"}

func usageError(hint, format string, args ...any) error {
	return &trial.UsageError{Err: fmt.Errorf(format, args...), Hint: hint}
}

// parseFlags reads the command line strictly: every word must be understood.
func parseFlags(args, environ []string) (*options, error) {
	o := &options{args: args}
	f := newFlags(o)
	if err := f.Parse(args); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			return nil, err
		}
		return nil, usageError(flagHint(f, args), "%w", err)
	}
	if err := o.readWords(f.Args()); err != nil {
		return nil, err
	}
	if f.Changed("json") && o.jsonOut == "" {
		return nil, usageError("give a file, or - for stdout", "--json is empty")
	}
	if o.dryRun && f.Changed("json") {
		return nil, usageError("a dry run has no record: leave --json out", "--dry-run with --json %s", o.jsonOut)
	}
	// 0 stands for "not given" further down, so a zero that was typed is refused here.
	for _, name := range []string{"batch", "fanout", "inflight", "publishers", "streams", "pub-conns", "pub-streams-per-conn"} {
		if f.Changed(name) && f.Lookup(name).Value.String() == "0" {
			return nil, usageError("leave it out for the default of 1", "--%s 0: want at least 1", name)
		}
	}
	if err := o.readRepeat(environ); err != nil {
		return nil, err
	}
	if err := o.checkOverload(); err != nil {
		return nil, err
	}
	if err := o.readAgainst(); err != nil {
		return nil, err
	}
	if f.Changed("rate") && o.c.Rate <= 0 {
		return nil, usageError("leave it out for a closed loop or a flood", "--rate %v: want messages per second, more than 0", o.c.Rate)
	}
	if f.Changed("canary-rate") && o.sizes.Canary.Rate <= 0 {
		return nil, usageError("leave it out for no limit", "--canary-rate %v: want messages per second, more than 0", o.sizes.Canary.Rate)
	}
	for name, d := range map[string]time.Duration{"duration": o.sizes.Duration, "idle-timeout": o.sizes.IdleTimeout, "canary-delay": o.sizes.Canary.Delay} {
		if f.Changed(name) && d <= 0 {
			return nil, usageError("durations look like 500ms, 10s, 2m", "--%s %v: want more than 0", name, d)
		}
	}
	if o.sizes.MaxDeliveries < 1 {
		return nil, usageError("leave it out for 3,000,000", "--max-deliveries %d: want at least 1", o.sizes.MaxDeliveries)
	}
	switch o.sizes.ConnStats = o.connStats; {
	case o.connStats < 0:
		return nil, usageError("0 samples only at the end", "--conn-stats %v: want 0 or more", o.connStats)
	case o.connStats == 0:
		o.sizes.ConnStats = -1
	}
	if f.Changed("total") && !o.total.auto && o.total.n < 1 {
		return nil, usageError("--total auto sizes the run by itself", "--total %d: want auto or at least 1", o.total.n)
	}
	o.sizes.Total, o.sizes.Warmup, o.sizes.SendWindow = 0, -1, int64(o.window)
	if f.Changed("total") && !o.total.auto {
		o.sizes.Total = o.total.n
	}
	if f.Changed("warmup") && !o.warmup.auto {
		o.sizes.Warmup = o.warmup.n
	}
	if f.Changed("trace-every") && !o.trace.auto {
		if o.sizes.TraceEvery = o.trace.n; o.trace.n == 0 {
			o.sizes.TraceEvery = -1
		}
	}
	if f.Changed("send-window") {
		if o.window < 1<<20 {
			return nil, usageError("64MiB is the default", "--send-window %d: want at least 1MiB", o.window)
		}
	}
	if err := o.checkPprof(); err != nil {
		return nil, err
	}
	o.c.BrokerSet, o.c.ClientSet, o.c.TransportSet = o.brokerSet, o.clientSet, o.transpSet
	if err := o.readExternal(environ); err != nil {
		return nil, err
	}
	layers, err := settings.LayersFor(o.config, environ, nil)
	if err != nil {
		return nil, usageError("give a YAML file of settings with --config", "%w", err)
	}
	o.layers = layers
	return o, nil
}

// readWords takes the two words of a probe.
func (o *options) readWords(words []string) error {
	switch {
	case len(words) == 0:
		return nil
	case words[0] != workload.ProbeWord:
		return usageError("every option starts with --; latencydemo --help lists them", "stray word %q", words[0])
	case len(words) == 1:
		return usageError("as in: latencydemo probe relay --payload 4096 --batch 64", "probe: which one? raw, relay, echo or echo-relay")
	case len(words) > 2:
		return usageError("every option starts with --; latencydemo --help lists them", "stray word %q", words[2])
	}
	if err := o.c.Probe.Set(words[1]); err != nil || o.c.Probe == workload.ProbeNone {
		return usageError("as in: latencydemo probe relay --payload 4096 --batch 64", "probe %q: want raw, relay, echo or echo-relay", words[1])
	}
	return nil
}

// readRepeat checks what concerns several trials and several commands.
func (o *options) readRepeat(environ []string) error {
	switch {
	case o.repeat < 1:
		return usageError("leave it out for one trial", "--repeat %d: want at least 1", o.repeat)
	case o.sameProcess && o.repeat == 1:
		return usageError("add --repeat N, or leave the flag out", "--same-process says how trials are repeated: it needs --repeat 2 or more")
	}
	for _, kv := range environ {
		if v, ok := strings.CutPrefix(kv, host.LockHeldEnv+"="); ok {
			o.lockHeld = v
		}
	}
	switch o.lockHeld {
	case "", host.LockHeld, host.LockHeldStdin:
		return nil
	}
	return usageError("only a command that holds the machine's lock sets it for its children", "%s=%q: want %q or %q", host.LockHeldEnv, o.lockHeld, host.LockHeld, host.LockHeldStdin)
}

// checkPprof refuses profiles that nobody could look at, or that would be compared.
func (o *options) checkPprof() error {
	switch {
	case len(o.pprof) == 0:
		return nil
	case o.against != workload.ProbeNone:
		return usageError("profile each of them alone", "--pprof %s with --against %s: what profilers cost would be in the ratio", &o.pprof, o.against)
	case o.sameProcess && slices.ContainsFunc(o.pprof, trial.Profile.Accumulates):
		return usageError("leave --same-process out, or keep to cpu and trace", "--pprof %s with --same-process: heap, block and mutex would count the trials before", &o.pprof)
	case o.outDir == "" && o.session == "":
		return usageError("add --session DIR, or --out DIR", "--pprof %s: there is no place for its files", &o.pprof)
	}
	return nil
}

// readExternal reads what names a running broker.
func (o *options) readExternal(environ []string) error {
	if o.c.Topology != workload.TopologyExternal {
		for _, name := range externalFlags {
			if o.flags.Changed(name) {
				return usageError("add --topology external, or leave the flag out", "--%s needs --topology external", name)
			}
		}
		return nil
	}
	x := &trial.External{Addr: o.broker, Tenant: o.tenant, Namespace: o.namespace, Stream: o.stream, PinSHA256: o.tlsPin, ServerName: o.serverName}
	if x.Addr == "" {
		return usageError("start one with: go run ./broker/brokerd --dev DIR", "--topology external needs --broker HOST:PORT")
	}
	switch {
	case o.tlsCA != "" && o.tlsPin != "":
		return usageError("keep one of them", "--tls-ca and --tls-pin both say what to trust")
	case o.tlsCA != "":
		pem, err := os.ReadFile(o.tlsCA)
		if err != nil {
			return usageError("brokerd --dev DIR writes DIR/cert.pem", "--tls-ca: %w", err)
		}
		x.CAPEM = pem
	}
	for _, kv := range environ {
		if v, ok := strings.CutPrefix(kv, "FELIX_AUTH_TOKEN="); ok {
			x.Token = v
		}
		if v, ok := strings.CutPrefix(kv, "FELIX_AUTH_TENANT="); ok && !o.flags.Changed("tenant") {
			x.Tenant = v
		}
	}
	if o.tokenFile != "" {
		b, err := os.ReadFile(o.tokenFile)
		if err != nil {
			return usageError("brokerd --dev DIR writes DIR/token", "--token: %w", err)
		}
		x.Token = strings.TrimSpace(string(b))
	}
	if x.Token == "" {
		return usageError("brokerd --dev DIR writes DIR/token", "--topology external needs --token FILE")
	}
	if o.admin != "" {
		u, err := url.Parse(o.admin)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return usageError("brokerd prints it when it starts", "--broker-admin %q: want a URL such as http://127.0.0.1:8080", o.admin)
		}
		x.Admin = u
	}
	o.external = x
	return nil
}

func (o *options) spec(args []string, stderr io.Writer) trial.Spec {
	return trial.Spec{
		Case: o.c, Sizes: o.sizes, External: o.external, YAML: o.layers.YAML, YAMLName: o.layers.YAMLName,
		Environ: o.layers.Environ, Args: args, Stderr: stderr, Pprof: o.pprof,
	}
}

// flagHint names the nearest flag for an unknown one.
func flagHint(f *pflag.FlagSet, args []string) string {
	var names []string
	f.VisitAll(func(fl *pflag.Flag) { names = append(names, fl.Name) })
	for _, a := range args {
		name, ok := strings.CutPrefix(a, "--")
		name, _, _ = strings.Cut(name, "=")
		if ok && name != "" && f.Lookup(name) == nil {
			if near := settings.Nearest(name, names); near != "" {
				return fmt.Sprintf("did you mean --%s?", near)
			}
		}
	}
	return "latencydemo --help lists every flag with its levels"
}

// countOrAuto is a number of messages, or auto.
type countOrAuto struct {
	n     int64
	auto  bool
	given bool
}

func (c *countOrAuto) String() string {
	if c.auto || !c.given {
		return "auto"
	}
	return strconv.FormatInt(c.n, 10)
}

func (c *countOrAuto) Set(s string) error {
	c.given = true
	if c.auto = s == "auto"; c.auto {
		return nil
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 {
		return fmt.Errorf("%q: want auto or a number of messages", s)
	}
	c.n = n
	return nil
}

func (c *countOrAuto) Type() string { return "N|auto" }

// byteSize is bytes, with a unit if wanted.
type byteSize int64

func (b *byteSize) String() string {
	if *b == 0 {
		return ""
	}
	return settings.FormatSize(int64(*b))
}

func (b *byteSize) Set(s string) error {
	n, err := settings.ParseSize(s)
	if err != nil {
		return err
	}
	*b = byteSize(n)
	return nil
}

func (b *byteSize) Type() string { return "bytes" }

// keyValues are repeated key=value pairs; the last one of a key wins.
type keyValues map[string]string

func (k *keyValues) String() string {
	var pairs []string
	for _, key := range slices.Sorted(maps.Keys(*k)) {
		pairs = append(pairs, key+"="+(*k)[key])
	}
	return strings.Join(pairs, " ")
}

func (k *keyValues) Set(s string) error {
	kv, err := settings.ParseSet(s)
	if err != nil {
		return err
	}
	if *k == nil {
		*k = keyValues{}
	}
	(*k)[kv.Key] = kv.Value
	return nil
}

func (k *keyValues) Type() string { return "key=value" }
