package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"felix/internal/host"
	"felix/internal/runrecord"
	"felix/internal/workload"
)

// The names of what matrix alone keeps in a session's directory, besides grid.json.
const (
	binaryFile   = "latencydemo"
	lockFile     = "matrix.lock"
	inFlightName = "in-flight" // below runs/: what the running trial writes, until its record has a name
)

// sitting is one call of matrix run on a session.
type sitting struct {
	*runrecord.Session
	grid   *workload.Grid
	ledger *ledger
	known  []knownCell // by cell
	trials int
	order  string
	seed   uint64
	// resumed: records of an earlier call are in it.
	resumed bool
	again   string // the command that goes on with it; "" is matrix run
}

func (s *sitting) binary() string { return filepath.Join(s.Dir, binaryFile) }

// executable is the session's binary by a path that means it from everywhere.
func (s *sitting) executable() string {
	if abs, err := filepath.Abs(s.binary()); err == nil {
		return abs
	}
	return s.binary()
}

// resumeHint is the command that goes on with the session.
func (s *sitting) resumeHint() string {
	if s.again != "" {
		return "resume with: " + s.again
	}
	return "resume with: matrix run --resume --session-dir " + s.Dir
}

// newSitting prepares a new session: nothing is written yet.
func newSitting(o *runOptions, g *workload.Grid) *sitting {
	now := time.Now().UTC()
	id := runrecord.NewSessionID()
	s := &sitting{grid: g, trials: g.Trials, order: o.order, seed: o.seed}
	if o.trials > 0 {
		s.trials = o.trials
	}
	dir := o.sessionDir
	if dir == "" {
		dir = filepath.Join(o.results, runrecord.SessionDirName(now, g.Name, id))
	}
	cells := make([]runrecord.SessionCell, len(g.Cells))
	for i := range g.Cells {
		cells[i] = runrecord.SessionCell{Name: g.Cells[i].Name, Key: g.Cells[i].Case.Key()}
	}
	s.Session = &runrecord.Session{
		SessionID: id, Kind: runrecord.SessionKindGrid, StartedAt: now,
		Grid:   &runrecord.SessionGrid{Name: g.Name, Digest: g.Digest, Why: g.Why, Cells: cells},
		Trials: &s.trials, Order: &s.order, Command: append([]string{"matrix", "run"}, o.args...), Dir: dir,
	}
	if s.order == orderRandom {
		s.Seed = &s.seed
	}
	s.ledger = newLedger(g, o.retries)
	return s
}

// vacant refuses a directory that belongs to something else. WriteSession refuses it again, for certain; this one is
// asked before anybody waits for a lock or a build.
func vacant(dir string) error {
	s, err := runrecord.ReadSession(dir)
	if err == nil {
		return usagef("--resume goes on with it; or leave --session-dir out for a new one", "--session-dir %s: it holds session %s", dir, s.SessionID)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return usagef("give another directory, or leave --session-dir out", "--session-dir: %w", err)
	}
	if st, err := os.Stat(filepath.Join(dir, runrecord.RecordsFile)); err == nil && st.Size() > 0 {
		return usagef("give another directory, or leave --session-dir out", "--session-dir %s: it holds records without a session", dir)
	}
	return nil
}

// findSitting finds the session to resume and checks that it is the one that was asked for. g is nil if no grid was
// named.
func findSitting(o *runOptions, g *workload.Grid) (*sitting, error) {
	rs, err := findSession(o, g)
	if err != nil {
		return nil, err
	}
	if rs.Kind != runrecord.SessionKindGrid || rs.Trials == nil || rs.Order == nil {
		return nil, usagef("matrix sessions list shows the sessions", "session %s is no session of matrix run: kind %s", rs.Dir, rs.Kind)
	}
	if g == nil {
		if g, err = sessionGrid(rs.Dir, rs.Grid.Digest); err != nil {
			return nil, err
		}
	} else if g.Digest != rs.Grid.Digest {
		return nil, usagef("leave --grid, --set and --only out: the session knows its grid; or start a new session",
			"session %s measures another grid: %s (%s), not %s (%s)", rs.Dir, rs.Grid.Name, shortDigest(rs.Grid.Digest), g.Name, shortDigest(g.Digest))
	} else if own, err := sessionGrid(rs.Dir, rs.Grid.Digest); err == nil {
		g = own // the same cells, in the order that the seed was drawn for
	}
	s := &sitting{Session: rs, grid: g, trials: *rs.Trials, order: *rs.Order, resumed: true, ledger: newLedger(g, o.retries)}
	if rs.Seed != nil {
		s.seed = *rs.Seed
	}
	if o.flags.Changed("order") && o.order != s.order {
		return nil, usagef("leave --order out", "session %s runs in order %s", rs.Dir, s.order)
	}
	if o.flags.Changed("seed") && o.seed != s.seed {
		return nil, usagef("leave --seed out", "session %s has seed %d", rs.Dir, s.seed)
	}
	if o.trials > 0 && o.trials != s.trials {
		s.Notes = append(s.Notes, fmt.Sprintf("trials of every cell: %d in place of %d, from a resume at %s on", o.trials, s.trials, time.Now().UTC().Format(time.RFC3339)))
		s.trials = o.trials
		s.Trials = &s.trials
	}
	return s, nil
}

func findSession(o *runOptions, g *workload.Grid) (*runrecord.Session, error) {
	hint := "matrix sessions list shows the sessions; without --resume a new one begins"
	if o.sessionDir != "" {
		s, err := runrecord.ReadSession(o.sessionDir)
		if err != nil {
			return nil, usagef(hint, "--resume: %w", err)
		}
		return s, nil
	}
	if g == nil {
		s, _, err := runrecord.FindSession(o.results, runrecord.Latest)
		if err != nil {
			return nil, usagef(hint, "--resume: %w", err)
		}
		return s, nil
	}
	all, _, err := runrecord.Sessions(o.results)
	if err != nil {
		return nil, usagef(hint, "--resume: %w", err)
	}
	for _, s := range all {
		if s.Kind == runrecord.SessionKindGrid && s.Grid.Digest == g.Digest {
			return s, nil
		}
	}
	return nil, usagef(hint, "--resume: no session of grid %s (%s) in %s", g.Name, shortDigest(g.Digest), o.results)
}

// heldFor is how long a directory may stay locked by what a killed matrix was about to start: between its fork and its
// exec a child still has the parent's files.
const heldFor = 2 * time.Second

// hold takes the session's directory for this process: two matrices in one directory would mix their records.
func (s *sitting) hold(ctx context.Context) (release func(), err error) {
	if err := os.MkdirAll(s.Dir, 0o755); err != nil {
		return nil, usagef("give a directory that can be written", "session directory: %w", err)
	}
	var held bool
	for until := time.Now().Add(heldFor); ; pause(ctx, 20*time.Millisecond) {
		release, held, err = holdDir(filepath.Join(s.Dir, lockFile))
		if err != nil {
			return nil, fmt.Errorf("lock the session directory: %w", err)
		}
		if held || ctx.Err() != nil || time.Now().After(until) {
			break
		}
	}
	if !held {
		return nil, usagef("wait for it, or give another --session-dir", "session directory %s: another matrix is at work in it", s.Dir)
	}
	return release, nil
}

// begin makes the session's files: binary, grid, and at last session.json, with which it exists.
func (s *sitting) begin(b *built) error {
	if err := saveGrid(s.Dir, s.grid); err != nil {
		return err
	}
	facts, err := hostFacts()
	if err != nil {
		return err
	}
	s.Host, s.Build, s.BinarySHA256 = facts, b.build, &b.sha256
	if err := runrecord.WriteSession(s.Dir, s.Session); err != nil {
		if errors.Is(err, runrecord.ErrOtherSession) {
			return usagef("--resume goes on with it; or leave --session-dir out for a new one", "--session-dir: %w", err)
		}
		return err
	}
	return nil
}

// take reads what an earlier sitting left, and refuses to go on where the figures would not belong together: another
// binary, another machine, other settings in the environment.
func (s *sitting) take(say func(string)) error {
	if s.BinarySHA256 == nil {
		return usagef("start a new session", "session %s does not say which binary it measures with", s.Dir)
	}
	sum, err := fileSHA256(s.binary())
	if err != nil {
		return usagef("start a new session", "the session's binary: %w", err)
	}
	if sum != *s.BinarySHA256 {
		return usagef("start a new session", "%s was changed: its SHA-256 is %s, and the session began with %s", s.binary(), sum, *s.BinarySHA256)
	}
	if fp := host.Facts().Fingerprint; fp != s.Host.Fingerprint {
		return usagef("start a new session here", "session %s was begun on another machine (%s, this is %s)", s.Dir, s.Host.Fingerprint, fp)
	}
	if err := s.ledger.read(s.Session, func(err error) { say(err.Error()) }); err != nil {
		return err
	}
	for _, old := range s.ledger.sample {
		if diff := environmentDiff(old.Env, measuredEnv(os.Environ())); diff != "" {
			return usagef("set the environment as it was, or start a new session", "the environment differs from that of the session's records: %s", diff)
		}
	}
	return nil
}

// note adds a decision to session.json.
func (s *sitting) note(text string) error {
	s.Notes = append(s.Notes, text)
	return runrecord.WriteSession(s.Dir, s.Session)
}

// end writes when the session was left, complete or not.
func (s *sitting) end() error {
	now := time.Now().UTC()
	s.EndedAt = &now
	return runrecord.WriteSession(s.Dir, s.Session)
}

// measuredEnv are the variables that can change what is measured, as records keep them.
func measuredEnv(environ []string) map[string]string {
	env := map[string]string{}
	for _, kv := range environ {
		k, v, _ := strings.Cut(kv, "=")
		switch {
		case strings.Contains(k, "TOKEN"), k == "QUIC_GO_DISABLE_RECEIVE_BUFFER_WARNING": // a secret; set by latencydemo
		case strings.HasPrefix(k, "FELIX_"), strings.HasPrefix(k, "QUIC_GO_"), k == "GOGC", k == "GOMAXPROCS", k == "GOMEMLIMIT", k == "GODEBUG":
			env[k] = v
		}
	}
	return env
}

// environmentDiff names the first variable, in alphabetical order, that differs.
func environmentDiff(old, now map[string]string) string {
	names := map[string]bool{}
	for k := range old {
		names[k] = true
	}
	for k := range now {
		names[k] = true
	}
	for _, k := range slices.Sorted(maps.Keys(names)) {
		a, wasSet := old[k]
		b, isSet := now[k]
		switch {
		case wasSet && !isSet:
			return fmt.Sprintf("%s was %q and is not set", k, a)
		case !wasSet && isSet:
			return fmt.Sprintf("%s is %q and was not set", k, b)
		case a != b:
			return fmt.Sprintf("%s is %q and was %q", k, b, a)
		}
	}
	return ""
}
