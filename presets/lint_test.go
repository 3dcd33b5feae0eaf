package presets_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"felix/internal/workload"
	"felix/presets"
)

// latencydemo is built once: what a cell really runs is what the command that runs it says.
var latencydemo = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "presets")
	if err != nil {
		return "", err
	}
	bin := filepath.Join(dir, "latencydemo")
	if out, err := exec.Command("go", "build", "-o", bin, "felix/latencydemo").CombinedOutput(); err != nil {
		return dir, fmt.Errorf("go build: %w\n%s", err, out)
	}
	return dir, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if dir, _ := latencydemo(); dir != "" {
		os.RemoveAll(dir)
	}
	os.Exit(code)
}

// dryRun is what latencydemo would run for these flags.
func dryRun(t *testing.T, flags []string) (string, error) {
	t.Helper()
	dir, err := latencydemo()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(dir, "latencydemo"), append(slices.Clone(flags), "--dry-run")...)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "FELIX_") })
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("latencydemo %s: %w: %s", strings.Join(flags, " "), err, stderr.String())
	}
	return string(out), nil
}

var (
	settingLine = regexp.MustCompile(`(?m)^(broker|client|transport) +(\S+) = (.*)  \(.*\)$`)
	caseLine    = regexp.MustCompile(`(?m)^case +(.*)$`)
	requested   = regexp.MustCompile(` (profile|broker\.\w+|client\.\w+|transport\.\w+)=\S*`)
)

// effective is what is really run, without what was asked for: the case's factors, and every setting without where it
// came from.
func effective(text string) string {
	var b strings.Builder
	if m := caseLine.FindStringSubmatch(text); m != nil {
		fmt.Fprintln(&b, requested.ReplaceAllString(m[1], ""))
	}
	for _, m := range settingLine.FindAllStringSubmatch(text, -1) {
		fmt.Fprintln(&b, m[1], m[2], m[3])
	}
	return b.String()
}

// lint runs Grid.Lint over latencydemo's own words, and checks that it understands each cell as the grid does.
func lint(t *testing.T, g *workload.Grid) error {
	t.Helper()
	return g.Lint(func(c *workload.Cell) (string, error) {
		text, err := dryRun(t, c.Flags())
		if err != nil {
			return "", err
		}
		m := caseLine.FindStringSubmatch(text)
		if m == nil || m[1] != c.Case.Key() {
			return "", fmt.Errorf("the flags %q mean the case %q, not %q", c.Flags(), m, c.Case.Key())
		}
		return effective(text), nil
	})
}

func TestLintGrids(t *testing.T) {
	for _, name := range presets.GridNames() {
		if err := lint(t, grid(t, name)); err != nil {
			t.Error(err)
		}
	}
}

// TestLintSees plants what the lint is for.
func TestLintSees(t *testing.T) {
	for _, tt := range []struct {
		why, block, want string // want "" is no error
	}{
		{"two settings that differ", "factors: {broker.log_capacity: [8, 9]}", ""},
		{"a profile and its settings", "factors: {profile: [balanced, high_memory]}", ""},
		{"a profile whose every key is set over it", "factors: {profile: [balanced, high_memory]}\n    base: {broker.pub_conn_inflight_bytes: 9MiB, broker.pub_inflight_bytes: 9MiB, broker.subscriber_queue_capacity: 9, broker.subscriber_queue_max_bytes: 9MiB, broker.subscriber_queue_max_bytes_total: 9MiB, broker.subscriber_egress_max_bytes: 9MiB, transport.conn_recv_window: 9MiB, transport.stream_recv_window: 9MiB}", "profile has no effect: balanced and high_memory"},
		{"a setting that the trial decides", "factors: {client.publish_conn_pool: [1, 2]}", "--pub-conns"},
		{"stalls that differ", "factors: {stall: ['0:1s:5s', '0.0:1s:6s']}", ""},
		{"a frame that cannot be", "factors: {broker.event_batch_max_events: [128, 256]}", "never reached"},
	} {
		g, err := presets.ParseGrid("g.yml", []byte("why: w\nblocks:\n  - "+tt.block))
		if err != nil {
			t.Errorf("%s: %v", tt.why, err)
			continue
		}
		switch err := lint(t, g); {
		case tt.want == "" && err != nil:
			t.Errorf("%s: %v", tt.why, err)
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "g.yml:3")):
			t.Errorf("%s: Lint = %v, want line 3 and %q", tt.why, err, tt.want)
		}
	}
}

// Every key of every profile is read and changes what is run, and every profile says what it can show.
func TestLintProfiles(t *testing.T) {
	plain, err := dryRun(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	value := func(text, section, key string) string {
		for _, m := range settingLine.FindAllStringSubmatch(text, -1) {
			if m[1] == section && m[2] == key {
				return m[3]
			}
		}
		return ""
	}
	for _, name := range presets.ProfileNames() {
		p, err := presets.LookupProfile(name)
		if err != nil {
			t.Fatal(err)
		}
		if p.Why == "" {
			t.Errorf("profile %s does not say why", name)
		}
		text, err := dryRun(t, []string{"--profile", name})
		if err != nil {
			t.Errorf("profile %s: %v", name, err)
			continue
		}
		if (name == workload.DefaultProfile) != (effective(text) == effective(plain)) {
			t.Errorf("profile %s: same as no profile is %v", name, effective(text) == effective(plain))
		}
		for section, settings := range map[string]map[string]string{"broker": p.Broker, "client": p.Client, "transport": p.Transport} {
			for _, key := range slices.Sorted(maps.Keys(settings)) {
				if was, is := value(plain, section, key), value(text, section, key); is == "" || is == was {
					t.Errorf("profile %s: %s.%s is %q, without the profile %q", name, section, key, is, was)
				}
			}
		}
	}
}
