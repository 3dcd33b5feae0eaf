package settings_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"felix/internal/settings"
)

// all is one of each target, for tests that go over the whole table.
type all struct {
	b settings.Broker
	c settings.Client
	t settings.Transport
}

func (a *all) load(l settings.Layers) (*settings.Resolved, error) {
	return settings.LoadAll(l, &a.b, &a.c, &a.t)
}

// field returns the struct field of a key, found by its tag.
func (a *all) field(t *testing.T, k settings.Key) any {
	t.Helper()
	v := map[string]reflect.Value{"broker": reflect.ValueOf(a.b), "client": reflect.ValueOf(a.c), "transport": reflect.ValueOf(a.t)}[k.Section]
	for i := range v.NumField() {
		if v.Type().Field(i).Tag.Get("key") == k.Name {
			return v.Field(i).Interface()
		}
	}
	t.Fatalf("no field of section %s has key %s", k.Section, k.Name)
	return nil
}

// sample is a value other than the default: as text (environment, flag), as YAML, and as
// the field holds it.
func sample(t *testing.T, k settings.Key, now any) (text, yaml string, want any) {
	t.Helper()
	switch v := now.(type) {
	case []string:
		return "t1/default/a,t2/x/b", "[t1/default/a, t2/x/b]", []string{"t1/default/a", "t2/x/b"}
	case map[string]string:
		return "t1:a.json,t2:b.json", "{t1: a.json, t2: b.json}", map[string]string{"t1": "a.json", "t2": "b.json"}
	case bool:
		s := fmt.Sprint(!v)
		return s, s, !v
	case int:
		n, s := int64(v), ""
		n, s = other(k, n)
		return s, s, int(n)
	case int64:
		n, s := other(k, v)
		return s, s, n
	case string:
		if len(k.Choices) > 0 {
			for _, c := range k.Choices {
				if c != v {
					return c, c, c
				}
			}
		}
		if strings.HasSuffix(k.Name, "_bind") {
			return "127.0.0.1:7", `"127.0.0.1:7"`, "127.0.0.1:7"
		}
		return "some-text", "some-text", "some-text"
	}
	t.Fatalf("%s has type %T: teach the test about it", k.Name, now)
	return "", "", nil
}

func other(k settings.Key, n int64) (int64, string) {
	if k.Name == "packet_size" {
		return 1300, "1300"
	}
	if k.Name == "event_batch_max_events" { // above fanout_batch_size it is refused
		return n - 1, fmt.Sprint(n - 1)
	}
	if k.Unit == "bytes" {
		return n + 1024, settings.FormatSize(n + 1024)
	}
	return n + 1, fmt.Sprint(n + 1)
}

// A key whose table row and field do not agree is a knob that does nothing. Every key is
// changed by every layer and has to arrive in its field, with its origin, and come
// through a child's document unchanged.
func TestEveryKeyArrivesByEveryLayer(t *testing.T) {
	var defaults all
	if _, err := defaults.load(settings.Layers{}); err != nil {
		t.Fatal(err)
	}
	for _, k := range settings.Keys() {
		text, yaml, want := sample(t, k, defaults.field(t, k))
		extra := []string{}
		switch k.Name { // the pair is given together or not at all
		case "tls_cert":
			extra = []string{"tls_key=k.pem"}
		case "tls_key":
			extra = []string{"tls_cert=c.pem"}
		}
		layers := []struct {
			name, from string
			l          settings.Layers
		}{
			{"under", "profile p", settings.Layers{Under: []settings.Layer{{Name: "profile p", YAML: []byte(k.Name + ": " + yaml)}}}},
			{"yaml", "yaml f.yaml:2", settings.Layers{YAMLName: "f.yaml", YAML: []byte("# first\n" + k.Name + ": " + yaml + "\n")}},
			{"environment", "env " + k.Env, settings.Layers{Environ: []string{"PATH=/bin", k.Env + "=" + text}}},
			{"flag", "flag", settings.Layers{Sets: []string{k.Name + "=" + text}}},
			{"section", "--x-set", settings.Layers{More: []settings.Set{{Section: k.Section, Key: k.Name, Value: text, From: "--x-set"}}}},
		}
		for _, layer := range layers {
			t.Run(k.Section+"/"+k.Name+"/"+layer.name, func(t *testing.T) {
				layer.l.Sets = append(layer.l.Sets, extra...)
				var a all
				r, err := a.load(layer.l)
				if err != nil {
					t.Fatal(err)
				}
				if got := a.field(t, k); !cmp.Equal(got, want) {
					t.Errorf("field holds %v, want %v", got, want)
				}
				if got := r.Sections[k.Section][k.Name].From; got != layer.from {
					t.Errorf("origin %q, want %q", got, layer.from)
				}
				data, err := r.Marshal()
				if err != nil {
					t.Fatal(err)
				}
				var child all
				again, err := settings.Unmarshal(data, &child.b, &child.c, &child.t)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(a, child, cmp.AllowUnexported(all{})); diff != "" {
					t.Errorf("child's settings differ (-parent +child):\n%s", diff)
				}
				if diff := cmp.Diff(r.Sections, again.Sections); diff != "" {
					t.Errorf("child's origins differ (-parent +child):\n%s", diff)
				}
			})
		}
	}
}

func TestTableIsWhole(t *testing.T) {
	seen := map[string]settings.Key{}
	for _, k := range settings.Keys() {
		if k.Name == "" || !strings.HasPrefix(k.Env, "FELIX_") || k.Help == "" {
			t.Errorf("row %+v: key, FELIX_ variable or help is missing", k)
		}
		if twin, twice := seen[k.Name]; twice && (twin.Env != k.Env || twin.Default != k.Default || twin.Unit != k.Unit) {
			t.Errorf("%s means two things: %+v and %+v", k.Name, twin, k)
		}
		seen[k.Name] = k
	}
	var a all
	if _, err := a.load(settings.Layers{}); err != nil {
		t.Fatal(err)
	}
	if a.b.QUICBind != "127.0.0.1:5000" || a.b.RingMaxBytes != 64<<20 || a.c.PublishConnPool != 4 || !a.t.MTUDiscovery {
		t.Errorf("defaults are not those of the table: %+v", a)
	}
}

func TestPrecedence(t *testing.T) {
	l := settings.Layers{
		Under:   []settings.Layer{{Name: "low", YAML: []byte("log_capacity: 1")}, {Name: "high", YAML: []byte("log_capacity: 2")}},
		YAML:    []byte("log_capacity: 3"),
		Environ: []string{"FELIX_LOG_CAPACITY=4", "FELIX_LOG_CAPACITY=5"},
		Sets:    []string{"log_capacity=6", "log_capacity=7"},
		More:    []settings.Set{{Key: "log_capacity", Value: "8", From: "trial"}},
	}
	drop := []func(){
		func() { l.More = nil }, func() { l.Sets = nil }, func() { l.Environ = nil },
		func() { l.YAML = nil }, func() { l.Under = nil },
	}
	for i, want := range []struct {
		n    int
		from string
	}{{8, "trial"}, {7, "flag"}, {5, "env FELIX_LOG_CAPACITY"}, {3, "yaml yaml:1"}, {2, "high"}, {1024, "default"}} {
		var b settings.Broker
		r, err := settings.LoadAll(l, &b)
		if err != nil {
			t.Fatal(err)
		}
		if o := r.Origins["log_capacity"]; b.LogCapacity != want.n || o.From != want.from || o.Value != int64(want.n) {
			t.Errorf("with %d layers taken away: %d from %q, want %d from %q", i, b.LogCapacity, o.From, want.n, want.from)
		}
		if i < len(drop) {
			drop[i]()
		}
	}
}

func TestRefusals(t *testing.T) {
	yaml := func(s string) settings.Layers {
		return settings.Layers{YAMLName: "b.yaml", YAML: []byte(s)}
	}
	env := func(s ...string) settings.Layers { return settings.Layers{Environ: s} }
	set := func(s ...string) settings.Layers { return settings.Layers{Sets: s} }
	for _, tt := range []struct {
		name string
		l    settings.Layers
		want []string // parts of the error and its hint
	}{
		{"typo in YAML names the line and the nearest key", yaml("quic_bind: a:1\nsubscribr_queue_capacity: 5\n"), []string{"b.yaml:2", `"subscribr_queue_capacity"`, "subscriber_queue_capacity"}},
		{"typo in a flag", set("log_capcity=5"), []string{"nearest: log_capacity", "did you mean"}},
		{"typo in the environment", env("FELIX_LOG_CAPACTY=5"), []string{"environment", "nearest: FELIX_LOG_CAPACITY"}},
		{"word that is near nothing", set("zzzzzzzz=5"), []string{`unknown setting "zzzzzzzz"`}},
		{"key of no version", set("retain_on_commit=true"), []string{"unknown setting"}},
		{"client key for a broker", set("publish_conn_pool=5"), []string{"client setting", "broker or transport"}},
		{"Felix variable that cannot exist", env("FELIX_INITIAL_MTU=9000"), []string{"FELIX_INITIAL_MTU cannot exist on quic-go", "packet_size and mtu_discovery"}},
		{"Felix thread count", env("FELIX_WORKER_THREADS=4"), []string{"use --procs / --cpus"}},
		{"Felix key that cannot exist, in YAML", yaml("initial_cwnd: 5"), []string{"b.yaml:1", "not settable"}},
		{"key twice", yaml("log_capacity: 5\n\nlog_capacity: 6"), []string{"b.yaml:3", "set twice, first on line 1"}},
		{"text for a number", yaml("log_capacity: many"), []string{"b.yaml:1", "log_capacity", "whole number"}},
		{"quoted number", yaml(`log_capacity: "5"`), []string{"whole number"}},
		{"octal", yaml("log_capacity: 010"), []string{`"010"`}},
		{"underscores", yaml("log_capacity: 1_000"), []string{`"1_000"`}},
		{"yes for a bool", yaml("mtu_discovery: yes"), []string{"true or false"}},
		{"1 for a bool", env("FELIX_MTU_DISCOVERY=1"), []string{"env FELIX_MTU_DISCOVERY", "true or false"}},
		{"no value", yaml("log_capacity:"), []string{"no value"}},
		{"list for a number", yaml("log_capacity: [1]"), []string{"want one value"}},
		{"word for a list", yaml("streams: t1/default/a"), []string{"want a list"}},
		{"two-part scope", yaml("streams:\n  - t1/default/a\n  - t1/b\n"), []string{"b.yaml", `"t1/b"`, "tenant/namespace/name"}},
		{"scope twice", set("streams=t1/d/a,t1/d/a"), []string{"given twice"}},
		{"tenant without file", env("FELIX_AUTH_JWKS=t1"), []string{"tenant:file"}},
		{"tenant twice", yaml("auth_jwks: {t1: a, t1: b}"), []string{"given twice"}},
		{"number for text", yaml("tls_cert: 5\ntls_key: k"), []string{"quotes"}},
		{"unknown policy", set("subscriber_queue_policy=drop-new"), []string{"block, drop_new, drop_old", "nearest: drop_new"}},
		{"below the bound", set("subscriber_queue_capacity=0"), []string{"0 batches: want at least 1 batches"}},
		{"above the bound", set("max_frame_bytes=2GiB"), []string{"2GiB: want at most 1GiB"}},
		{"packet too small", set("packet_size=1000"), []string{"want 0 or at least 1200"}},
		{"idle timeout that a peer takes for 5 s", env("FELIX_IDLE_TIMEOUT_MS=4999"), []string{"env FELIX_IDLE_TIMEOUT_MS", "4999 ms: want 0 or at least 5000 ms"}},
		{"nothing like it", set("speed=5"), []string{`unknown setting "speed"`, "latencydemo --dry-run lists every key"}},
		{"variable like no other", env("FELIX_XYZZY_QUUX=5"), []string{`unknown variable "FELIX_XYZZY_QUUX"`, "latencydemo --dry-run lists every key with its FELIX_* variable"}},
		{"size in bits", set("ring_max_bytes=10Mb"), []string{"no size"}},
		{"size below zero", set("ring_max_bytes=-1"), []string{"no size"}},
		{"empty number", env("FELIX_LOG_CAPACITY="), []string{"no whole number of payloads"}},
		{"address without port", set("quic_bind=localhost"), []string{"host:port"}},
		{"port too large", set("quic_bind=localhost:70000"), []string{"65535"}},
		{"admin on every interface", set("metrics_bind=:8080"), []string{"loopback"}},
		{"admin by name", set("metrics_bind=example.org:8080"), []string{"loopback"}},
		{"certificate without key", set("tls_cert=c.pem"), []string{"tls_cert without tls_key", "development certificate"}},
		{"bound that is never reached", set("event_batch_max_events=100"), []string{"fanout_batch_size is 64 (default)"}},
		{"window below its streams'", set("conn_recv_window=1MiB"), []string{"conn_recv_window of 1MiB is below stream_recv_window of 16MiB (default)", "set both"}},
		{"flag without value", set("log_capacity"), []string{"key=value"}},
		{"flag with a space", set("log_capacity =5"), []string{"key=value"}},
		{"not YAML", yaml("a: b\n\tc: d\n"), []string{"b.yaml:", "not YAML"}},
		{"two documents", yaml("log_capacity: 5\n---\nlog_capacity: 6\n"), []string{"second YAML document"}},
		{"a list at the top", yaml("- a\n"), []string{"want a mapping"}},
		{"merge key", yaml("<<: {log_capacity: 5}"), []string{"unknown setting"}},
		{"profile with a typo", settings.Layers{Under: []settings.Layer{{Name: "profile p", YAML: []byte("lgo_capacity: 5")}}}, []string{"profile p:1", "log_capacity"}},
		{"set of a section that lacks the key", settings.Layers{More: []settings.Set{{Section: "transport", Key: "log_capacity", Value: "5"}}}, []string{"broker setting", "not one of transport"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := settings.Broker{LogCapacity: -7}
			var tr settings.Transport
			_, err := settings.LoadAll(tt.l, &b, &tr)
			var se *settings.Error
			if !errors.As(err, &se) {
				t.Fatalf("got %v, want a *settings.Error", err)
			}
			text := se.Error() + "\n" + se.Hint
			if se.Hint == "" || strings.Contains(se.Error(), "\n") {
				t.Errorf("want one line and a hint, got %q and %q", se.Error(), se.Hint)
			}
			for _, part := range tt.want {
				if !strings.Contains(text, part) {
					t.Errorf("%q does not say %q", text, part)
				}
			}
			if b.LogCapacity != -7 {
				t.Error("the target was changed by a refused load")
			}
		})
	}
}

// One environment serves a broker, a client and the bench: what is another section's is
// left alone, what is nobody's is an error (TestRefusals).
func TestEnvironmentIsShared(t *testing.T) {
	var b settings.Broker
	r, err := settings.LoadAll(settings.Layers{Environ: []string{
		"FELIX_PUB_CONN_POOL=9", "FELIX_BROKER_CONFIG=x.yaml", "FELIX_MAX_FRAME_BYTES=1MiB", "FELIXIR=1", "BAD"}}, &b)
	if err != nil {
		t.Fatal(err)
	}
	if _, has := r.Origins["publish_conn_pool"]; has || b.MaxFrameBytes != 1<<20 {
		t.Errorf("origins %v, max_frame_bytes %d", r.Origins, b.MaxFrameBytes)
	}
}

// 0 turns off what has a bound above it.
func TestZeroBelowTheBound(t *testing.T) {
	for _, text := range []string{"0", "5000"} {
		var tr settings.Transport
		if err := settings.Load(&tr, settings.Layers{Sets: []string{"idle_timeout_ms=" + text}}); err != nil || fmt.Sprint(tr.IdleTimeout) != text {
			t.Errorf("idle_timeout_ms=%s: %d, %v", text, tr.IdleTimeout, err)
		}
	}
}

// A key of two sections can be set for one of them.
func TestSectionsAreKeptApart(t *testing.T) {
	var a all
	r, err := a.load(settings.Layers{More: []settings.Set{{Section: "broker", Key: "max_frame_bytes", Value: "1MiB", From: "--broker-set"}}})
	if err != nil {
		t.Fatal(err)
	}
	if a.b.MaxFrameBytes != 1<<20 || a.c.MaxFrameBytes != 16<<20 {
		t.Errorf("broker %d, client %d: want 1 MiB and 16 MiB", a.b.MaxFrameBytes, a.c.MaxFrameBytes)
	}
	if got := r.Sections["client"]["max_frame_bytes"].From; got != "default" {
		t.Errorf("client's origin %q, want default", got)
	}
}

// A token must reach a child process and must not reach a record.
func TestSecretsStayOutOfTheRecord(t *testing.T) {
	const token = "eyJhbGciOi.secret"
	var c settings.Client
	r, err := settings.LoadAll(settings.Layers{Environ: []string{"FELIX_AUTH_TOKEN=" + token}}, &c)
	if err != nil {
		t.Fatal(err)
	}
	record, err := json.Marshal([]any{r.Sections, r.Origins})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(record), token) || r.Sections["client"]["auth_token"].Value != "(set)" {
		t.Errorf("the record shows the token: %s", record)
	}
	child, err := r.Marshal("client")
	if err != nil {
		t.Fatal(err)
	}
	var got settings.Client
	if _, err := settings.Unmarshal(child, &got); err != nil || got.AuthToken != token {
		t.Errorf("child has token %q, error %v", got.AuthToken, err)
	}
}

func TestDocumentIsStrict(t *testing.T) {
	var b settings.Broker
	r, err := settings.Defaults(&b)
	if err != nil {
		t.Fatal(err)
	}
	good, err := r.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string][2]string{
		"wrong type":      {`"value":1024`, `"value":"1024"`},
		"out of bounds":   {`"value":1024`, `"value":0`},
		"fraction":        {`"value":1024`, `"value":1024.5`},
		"missing key":     {`"log_capacity":{"value":1024,"from":"default"},`, ``},
		"unknown key":     {`"log_capacity"`, `"log_kapacity"`},
		"unknown section": {`{"broker"`, `{"broket"`},
		"unknown field":   {`"from":"default"`, `"form":"default"`},
		"two values":      {`}}}`, `}}} {}`},
		"list of numbers": {`"streams":{"value":[]`, `"streams":{"value":[1]`},
		"null":            {`"streams":{"value":[]`, `"streams":{"value":null`},
		"list for a map":  {`"auth_jwks":{"value":{}`, `"auth_jwks":{"value":[]`},
	} {
		t.Run(name, func(t *testing.T) {
			bad := strings.Replace(string(good), change[0], change[1], 1)
			if bad == string(good) {
				t.Fatalf("%s does not occur in %s", change[0], good)
			}
			var into settings.Broker
			if _, err := settings.Unmarshal([]byte(bad), &into); err == nil {
				t.Error("taken")
			}
		})
	}
	if _, err := r.Marshal("transport"); err == nil {
		t.Error("a section that was not loaded was marshalled")
	}
}

func TestTargets(t *testing.T) {
	var b settings.Broker
	for name, targets := range map[string][]any{
		"none": {}, "not a pointer": {b}, "nil": {(*settings.Broker)(nil)}, "another struct": {&struct{}{}}, "twice": {&b, &b},
	} {
		if _, err := settings.LoadAll(settings.Layers{}, targets...); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

// roundTrip checks that what a load accepted comes through a child's document the same.
func roundTrip(t *testing.T, r *settings.Resolved, want settings.Broker) {
	t.Helper()
	data, err := r.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	var got settings.Broker
	if _, err := settings.Unmarshal(data, &got); err != nil {
		t.Fatalf("%v in %s", err, data)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("round trip changed (-want +got):\n%s", diff)
	}
}
