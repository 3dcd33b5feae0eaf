package settings_test

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"felix/internal/settings"
)

func TestParseSize(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "65536": 65536, "64KiB": 65536, "64 KiB": 65536, "16MiB": 16 << 20, "2GiB": 2 << 30,
		"10MB": 10_000_000, "3kB": 3000, "3KB": 3000, "1GB": 1_000_000_000, "7B": 7, "9223372036854775807": math.MaxInt64,
	} {
		if got, err := settings.ParseSize(text); got != want || err != nil {
			t.Errorf("ParseSize(%q) = %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "B", "KiB", "-1", "+1", "1.5MiB", "1Mb", "1mib", "1K", "0x10", "1_000", "010", "1  KiB", " 1", "1 ", "9223372036854775808", "9007199254740992KiB", "1KiBKiB"} {
		if got, err := settings.ParseSize(text); err == nil {
			t.Errorf("ParseSize(%q) = %d, want an error", text, got)
		}
	}
}

func TestNearest(t *testing.T) {
	words := []string{"log_capacity", "ring_max_bytes", "streams", "caches"}
	for word, want := range map[string]string{
		"log_capcity": "log_capacity", "LOG-CAPACITY": "log_capacity", "steams": "streams", "straems": "streams",
		"cashes": "caches", "something_else": "", "": "", "x": "",
	} {
		if got := settings.Nearest(word, words); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", word, got, want)
		}
	}
}

func TestLayersFor(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "b.yaml")
	if err := os.WriteFile(file, []byte("log_capacity: 5\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	missing := filepath.Join(dir, "none.yaml")
	for _, tt := range []struct {
		name, flag string
		environ    []string
		want       string // file that is read
		err        string
	}{
		{name: "neither"},
		{name: "flag", flag: file, want: file},
		{name: "environment", environ: []string{"FELIX_BROKER_CONFIG=" + file}, want: file},
		{name: "flag over environment", flag: file, environ: []string{"FELIX_BROKER_CONFIG=" + missing}, want: file},
		{name: "missing file of the flag", flag: missing, err: "none.yaml"},
		{name: "missing file of the environment", environ: []string{"FELIX_BROKER_CONFIG=" + missing}, err: "FELIX_BROKER_CONFIG"},
	} {
		l, err := settings.LayersFor(tt.flag, tt.environ, nil)
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%s: error %v, want one that says %q", tt.name, err, tt.err)
			}
			continue
		}
		if err != nil || l.YAMLName != tt.want {
			t.Errorf("%s: read %q, error %v, want %q", tt.name, l.YAMLName, err, tt.want)
		}
	}
}

func FuzzParseSize(f *testing.F) {
	for _, s := range []string{"65536", "64KiB", "10MB", "9 GiB", "-1", "1e3"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := settings.ParseSize(s)
		if err != nil {
			return
		}
		if n < 0 {
			t.Fatalf("ParseSize(%q) = %d", s, n)
		}
		if again, err := settings.ParseSize(settings.FormatSize(n)); again != n || err != nil {
			t.Fatalf("%q is %d, written %q, read %d, %v", s, n, settings.FormatSize(n), again, err)
		}
	})
}

func FuzzParseSet(f *testing.F) {
	for _, s := range []string{"a=b", "a=", "=b", "a=b=c", "a b=c", "log_capacity=5"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		set, err := settings.ParseSet(s)
		if err == nil && set.Key+"="+set.Value != s {
			t.Fatalf("%q became key %q, value %q", s, set.Key, set.Value)
		}
		var b settings.Broker
		if r, err := settings.LoadAll(settings.Layers{Sets: []string{s}}, &b); err == nil {
			roundTrip(t, r, b)
		}
	})
}

func FuzzYAML(f *testing.F) {
	for _, s := range []string{"log_capacity: 5", "streams: [t1/d/a]", "auth_jwks: {t1: f}", "a: &x [*x]", "? [a]\n: b", "--- !!binary x", "ring_max_bytes: 64KiB\n# c\nquic_bind: a:1", "tls_cert: a\ntls_key: b"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var b settings.Broker
		if r, err := settings.LoadAll(settings.Layers{YAML: data}, &b); err == nil {
			roundTrip(t, r, b)
		}
	})
}

func FuzzEnvironment(f *testing.F) {
	for _, s := range []string{"FELIX_STREAMS=t1/d/a,t1/d/b", "FELIX_AUTH_JWKS=t1:f", "FELIX_=", "FELIX_FANOUT_BATCH=1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var b settings.Broker
		if r, err := settings.LoadAll(settings.Layers{Environ: []string{s}}, &b); err == nil {
			roundTrip(t, r, b)
		}
	})
}
