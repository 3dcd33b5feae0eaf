package trial

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"runtime/trace"
	"slices"
	"strings"
	"sync"

	"felix/internal/workload"
)

// Profile is what the Go runtime can tell of a process, at a price: a trial that takes one is perturbed.
type Profile string

// The profiles. CPU and trace are taken from the mark to the end of the drain, and so are block and mutex, whose rates are
// 0 at any other time. Heap is of the whole life of the process: what was allocated, and what is in use at the end.
const (
	ProfileCPU   Profile = "cpu"
	ProfileHeap  Profile = "heap"
	ProfileBlock Profile = "block"
	ProfileMutex Profile = "mutex"
	ProfileTrace Profile = "trace"
)

var allProfiles = Profiles{ProfileCPU, ProfileHeap, ProfileBlock, ProfileMutex, ProfileTrace}

// Rates of the sampled profiles.
const (
	heapRate      = 16 << 10 // one sample per so many bytes allocated; a 32nd of the runtime's own, to see what is rare
	blockRateNs   = 10_000   // one sample per so many nanoseconds blocked
	mutexFraction = 10       // one of so many contended unlocks
)

// Accumulates reports whether the runtime counts the profile from the start of the process, so that a second trial in the
// same process would have the first one's too.
func (p Profile) Accumulates() bool { return p != ProfileCPU && p != ProfileTrace }

// file is the name that the profile of a process has beside the record.
func (p Profile) file(process string) string {
	if p == ProfileTrace {
		return process + ".trace" // for go tool trace, and no pprof
	}
	return process + "." + string(p) + ".pprof"
}

// Profiles is a set of profiles, in the order of the constants. It is a flag: a list with commas.
type Profiles []Profile

func (p *Profiles) String() string {
	var names []string
	for _, one := range *p {
		names = append(names, string(one))
	}
	return strings.Join(names, ",")
}

// Set takes a list such as cpu,heap in any order.
func (p *Profiles) Set(s string) error {
	var set Profiles
	for name := range strings.SplitSeq(s, ",") {
		one := Profile(strings.TrimSpace(name))
		if !slices.Contains(allProfiles, one) {
			return fmt.Errorf("profile %q: want some of %s", name, allProfiles.String())
		}
		set = append(set, one)
	}
	*p = nil
	for _, one := range allProfiles {
		if slices.Contains(set, one) {
			*p = append(*p, one)
		}
	}
	return nil
}

// Type names the value in the help.
func (p *Profiles) Type() string { return allProfiles.String() }

// perturb is what the profiles are called in the record's perturbed.
func (p Profiles) perturb() []string {
	var marks []string
	for _, one := range p {
		marks = append(marks, "pprof "+string(one))
	}
	return marks
}

// profileDoc tells a role what to profile, and where to leave the files.
type profileDoc struct {
	Profiles Profiles `json:"profiles"`
	Dir      string   `json:"dir"`
}

// profiler takes the profiles of this process. A nil one takes none. Its methods are called one after another.
type profiler struct {
	process string
	doc     profileDoc
	marked  bool
	cpu     *os.File // while it is taken
	trace   *os.File
	errs    []error
}

// newProfiler begins what must begin with the process. A nil doc is a nil profiler.
func newProfiler(process string, doc *profileDoc) *profiler {
	if doc == nil {
		return nil
	}
	p := &profiler{process: process, doc: *doc}
	if p.wants(ProfileHeap) && runtime.MemProfileRate == 0 {
		runtime.MemProfileRate = heapRate
	}
	return p
}

func (p *profiler) wants(one Profile) bool { return slices.Contains(p.doc.Profiles, one) }

// fail keeps an error for the record's warnings: a trial is not lost for a profile.
func (p *profiler) fail(one Profile, err error) {
	if err != nil {
		p.errs = append(p.errs, fmt.Errorf("%s profile of %s: %w", one, p.process, err))
	}
}

// mark begins the profiles of the measure phase.
func (p *profiler) mark() {
	if p == nil {
		return
	}
	p.marked = true
	if p.wants(ProfileBlock) {
		runtime.SetBlockProfileRate(blockRateNs)
	}
	if p.wants(ProfileMutex) {
		runtime.SetMutexProfileFraction(mutexFraction)
	}
	if p.wants(ProfileTrace) {
		p.trace = p.begin(ProfileTrace, trace.Start)
	}
	if p.wants(ProfileCPU) { // last, so that it does not see the others begin
		p.cpu = p.begin(ProfileCPU, pprof.StartCPUProfile)
	}
}

// begin starts a profile that is written while it is taken.
func (p *profiler) begin(one Profile, start func(io.Writer) error) *os.File {
	f, err := os.Create(p.partial(one))
	if err == nil {
		if err = start(f); err == nil {
			return f
		}
		err = errors.Join(err, f.Close())
	}
	p.fail(one, err)
	return nil
}

// partial is the name of a file that is not whole yet.
func (p *profiler) partial(one Profile) string {
	return filepath.Join(p.doc.Dir, one.file(p.process)+".part")
}

// keep closes a whole file and gives it its name.
func (p *profiler) keep(one Profile, f *os.File) error {
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(p.partial(one), filepath.Join(p.doc.Dir, one.file(p.process)))
}

// end writes what was begun at the mark. A second call does nothing, and so does one without a mark.
func (p *profiler) end() {
	if p == nil || !p.marked {
		return
	}
	p.marked = false
	if p.cpu != nil {
		pprof.StopCPUProfile()
		p.fail(ProfileCPU, p.keep(ProfileCPU, p.cpu))
	}
	if p.trace != nil {
		trace.Stop()
		p.fail(ProfileTrace, p.keep(ProfileTrace, p.trace))
	}
	if p.wants(ProfileBlock) {
		runtime.SetBlockProfileRate(0)
		p.fail(ProfileBlock, p.snapshot(ProfileBlock))
	}
	if p.wants(ProfileMutex) {
		runtime.SetMutexProfileFraction(0)
		p.fail(ProfileMutex, p.snapshot(ProfileMutex))
	}
	if p.wants(ProfileHeap) {
		runtime.GC() // a heap profile is as of the last collection
		p.fail(ProfileHeap, p.snapshot(ProfileHeap))
	}
}

// snapshot writes a profile that the runtime has collected.
func (p *profiler) snapshot(one Profile) error {
	f, err := os.Create(p.partial(one))
	if err != nil {
		return err
	}
	if err := pprof.Lookup(string(one)).WriteTo(f, 0); err != nil {
		return errors.Join(err, f.Close())
	}
	return p.keep(one, f)
}

// warnings are what went wrong.
func (p *profiler) warnings() []string {
	if p == nil {
		return nil
	}
	var texts []string
	for _, err := range p.errs {
		texts = append(texts, err.Error())
	}
	return texts
}

// startProfiles makes the directory that the processes leave their profiles in, and begins those of this one. The runner
// of a split trial carries no load: it is not profiled.
func (t *trial) startProfiles() error {
	if len(t.Pprof) == 0 {
		return nil
	}
	dir, err := os.MkdirTemp("", "latencydemo-pprof-")
	if err != nil {
		return fmt.Errorf("directory for profiles: %w", err)
	}
	plan := *t.Plan // several trials may share a plan
	plan.profiling = &profileDoc{Profiles: t.Pprof, Dir: dir}
	t.Plan = &plan
	if t.Case.Topology != workload.TopologySplit {
		t.proc.profiler = newProfiler(t.proc.name, t.profiling)
	}
	if t.External != nil {
		t.warn("--pprof: the broker that was running is not profiled, only the clients are")
	}
	return nil
}

// dropProfiles removes the directory.
func (t *trial) dropProfiles() {
	if t.profiling != nil {
		_ = os.RemoveAll(t.profiling.Dir) // a temporary directory: what stays is the system's to clean
	}
}

// endProfiles ends the profiles of all processes at the end of the drain, before anything is closed.
func (t *trial) endProfiles() {
	if t.profiling == nil || t.markAt == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	var wg sync.WaitGroup
	for _, s := range []any{t.broker, t.subs, t.pubs} {
		if c, ok := s.(interface{ endProfiles(context.Context) error }); ok {
			wg.Go(func() {
				_ = c.endProfiles(ctx) // whoever cannot answer leaves no file, and its end is told elsewhere
			})
		}
	}
	t.proc.freeze()
	wg.Wait()
}

// endProfiles asks a role to end its account and its profiles, and waits until they are written.
func (c *child) endProfiles(ctx context.Context) error {
	_, err := c.ask(ctx, wordFreeze)
	return err
}

// profileFiles are the profiles that all processes left, by name.
func (t *trial) profileFiles() (map[string][]byte, error) {
	files := map[string][]byte{}
	if t.profiling == nil {
		return files, nil
	}
	entries, err := fs.Glob(os.DirFS(t.profiling.Dir), "*")
	if err != nil {
		return nil, fmt.Errorf("profiles: %w", err)
	}
	for _, name := range entries {
		if filepath.Ext(name) == ".part" {
			continue // of a process that did not live to end it
		}
		if files[name], err = os.ReadFile(filepath.Join(t.profiling.Dir, name)); err != nil {
			return nil, fmt.Errorf("profiles: %w", err)
		}
	}
	return files, nil
}
