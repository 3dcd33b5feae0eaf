package trial

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"felix/internal/settings"
)

// orphanPatience is how long a role whose runner is gone takes to close in good order.
const orphanPatience = 2 * time.Second

// progressEvery is how often a role says how far it is.
const progressEvery = 25 * time.Millisecond

// Role is the hidden entry of a binary that runs trials: with arguments "role NAME" it plays that role on stdin and
// stdout and reports true with its exit code.
func Role(args []string, stdin io.Reader, stdout, stderr io.Writer) (code int, isRole bool) {
	if len(args) == 0 || args[0] != roleArg {
		return 0, false
	}
	if len(args) != 2 {
		fmt.Fprintln(stderr, "role: want one name: broker, relay, publisher or subscriber")
		return 2, true
	}
	// A terminal sends Ctrl-C to the whole group; the runner alone decides what it means.
	signal.Ignore(syscall.SIGINT)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	r := &role{name: args[1], out: json.NewEncoder(stdout)}
	if err := r.play(ctx, stdin); err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", r.name, err)
		return 1, true
	}
	return 0, true
}

type role struct {
	name string
	doc  roleDoc
	plan *Plan
	proc *process

	mu  sync.Mutex
	out *json.Encoder
}

func (r *role) print(l line) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = r.out.Encode(l) // a runner that is gone has closed stdin too
}

// part is what a role plays.
type part interface {
	// answer handles a word. It may take long: end comes while measure is under way.
	answer(ctx context.Context, word string, at int64) doneLine
	progress() *sideProgress // nil: never any
	stop(ctx context.Context) (*sideResult, error)
}

func (r *role) play(ctx context.Context, stdin io.Reader) error {
	in := bufio.NewReaderSize(stdin, 64<<10)
	text, err := in.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("read the document: %w", err)
	}
	if err := json.Unmarshal(text, &r.doc); err != nil {
		return fmt.Errorf("read the document: %w", err)
	}
	r.plan = &Plan{Spec: Spec{Case: r.doc.Case, Sizes: r.doc.Sizes, Stderr: os.Stderr}}
	r.plan.Settings, err = settings.Unmarshal(r.doc.Settings, &r.plan.Broker, &r.plan.Client, &r.plan.Transport)
	if err != nil {
		return err
	}
	// Before anything of the role runs: threads are started where their parent runs.
	if _, err := place(&r.doc.Case, r.name); err != nil {
		r.print(line{Error: &errorLine{Text: err.Error(), Hint: hintFor(err)}})
		return err
	}
	r.proc = newProcess(r.name)
	r.proc.profiler = newProfiler(r.name, r.doc.Profile)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	words := make(chan string)
	go func() {
		defer close(words)
		for {
			w, err := in.ReadString('\n')
			if err != nil {
				cancel() // the runner is gone: nobody wants what is under way
				return
			}
			select {
			case words <- strings.TrimSpace(w):
			case <-ctx.Done():
				return
			}
		}
	}()

	p, ready, err := r.open(ctx)
	if err != nil {
		r.print(line{Error: &errorLine{Text: err.Error(), Hint: hintFor(err)}})
		return err
	}
	ready.Pid = os.Getpid()
	r.print(line{Ready: ready})
	return r.serve(ctx, p, words)
}

func (r *role) open(ctx context.Context) (part, *readyLine, error) {
	switch r.name {
	case "broker":
		b, err := openBroker(ctx, r.plan, *r.doc.Broker, r.doc.Tag, r.proc.clock, true)
		if err != nil {
			return nil, nil, err
		}
		return brokerPart{b, r.proc}, &readyLine{Addr: b.addr(), Admin: b.admin()}, nil
	case "relay":
		relay, err := openRelay(r.plan, *r.doc.Broker)
		if err != nil {
			return nil, nil, err
		}
		return relayPart{relay, r.proc}, &readyLine{Addr: relay.relay.Addr()}, nil
	case "publisher":
		s, err := openPublishers(ctx, r.plan, r.doc.Access, r.doc.Tag, r.proc.clock)
		if err != nil {
			return nil, nil, err
		}
		return publisherPart{s, r.proc}, &readyLine{}, nil
	case "subscriber":
		s, err := openSubscribers(ctx, r.plan, r.doc.Access, r.doc.Tag, r.proc.clock)
		if err != nil {
			return nil, nil, err
		}
		return subscriberPart{s, r.proc}, &readyLine{Addr: s.system.addr()}, nil
	}
	return nil, nil, fmt.Errorf("role %q: want broker, relay, publisher or subscriber", r.name)
}

// serve answers words until stop, SIGTERM or the end of stdin, then closes the part and prints its result.
func (r *role) serve(ctx context.Context, p part, words <-chan string) error {
	// What is under way when the end comes is cut short first: its goroutines write what the result reads.
	work, cut := context.WithCancel(ctx)
	var wg sync.WaitGroup
	finish := func(patience time.Duration) error {
		cut()
		wg.Wait()
		return r.finish(ctx, p, patience)
	}
	defer wg.Wait()
	defer cut()
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	for {
		select {
		case word, ok := <-words:
			if !ok {
				return finish(orphanPatience)
			}
			name, at, err := splitWord(word)
			if err != nil {
				return err
			}
			if name == wordStop {
				return finish(time.Duration(at) * time.Millisecond)
			}
			if name == wordFreeze {
				wg.Go(func() {
					r.proc.freeze()
					r.print(line{Done: &doneLine{Word: name}})
				})
				continue
			}
			wg.Go(func() {
				if d := p.answer(work, name, at); d.Word != "" {
					r.print(line{Done: &d})
				}
			})
		case <-tick.C:
			if now := p.progress(); now != nil {
				r.print(line{Progress: now})
			}
		case <-ctx.Done():
			return finish(orphanPatience)
		}
	}
}

func (r *role) finish(ctx context.Context, p part, patience time.Duration) error {
	usage := r.proc.result()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	res, err := p.stop(ctx)
	if res != nil {
		res.Process = usage
		r.print(line{Result: res})
	}
	return err
}

func splitWord(s string) (word string, at int64, err error) {
	word, number, ok := strings.Cut(s, " ")
	if ok {
		if at, err = strconv.ParseInt(number, 10, 64); err != nil {
			return "", 0, fmt.Errorf("word %q: %w", s, err)
		}
	}
	return word, at, nil
}

func doneOf(word string, p *published, err error) doneLine {
	d := doneLine{Word: word, Published: p}
	if err != nil {
		d.Error = err.Error()
	}
	return d
}

var errUnknownWord = errors.New("unknown word")

type publisherPart struct {
	*publishers
	proc *process
}

func (p publisherPart) answer(ctx context.Context, word string, at int64) doneLine {
	switch word {
	case wordWarmup:
		n, err := p.warmup(ctx)
		return doneOf(word, n, err)
	case wordMark:
		p.proc.mark()
		return doneOf(word, nil, p.mark(ctx, at))
	case wordMeasure:
		n, err := p.publishers.measure(ctx)
		return doneOf(word, n, err)
	case wordEnd:
		p.end()
		return doneLine{} // measure answers
	}
	return doneOf(word, nil, errUnknownWord)
}

func (p publisherPart) progress() *sideProgress {
	now := p.publishers.progress()
	return &now
}

type subscriberPart struct {
	*subscribers
	proc *process
}

func (p subscriberPart) answer(ctx context.Context, word string, at int64) doneLine {
	if word != wordMark {
		return doneOf(word, nil, errUnknownWord)
	}
	p.proc.mark()
	return doneOf(word, nil, p.mark(ctx, at))
}

func (p subscriberPart) progress() *sideProgress {
	now := p.subscribers.progress()
	return &now
}

type brokerPart struct {
	*localBroker
	proc *process
}

func (p brokerPart) answer(ctx context.Context, word string, at int64) doneLine {
	switch word {
	case wordMark:
		p.proc.mark()
		return doneOf(word, nil, p.mark(ctx, at))
	case wordCounters:
		stats, err := p.counters(ctx)
		d := doneOf(word, nil, err)
		d.Counters = stats
		return d
	}
	return doneOf(word, nil, errUnknownWord)
}

func (p brokerPart) progress() *sideProgress { return nil }

type relayPart struct {
	*localRelay
	proc *process
}

func (p relayPart) answer(ctx context.Context, word string, at int64) doneLine {
	switch word {
	case wordMark:
		p.proc.mark()
		return doneOf(word, nil, p.mark(ctx, at))
	case wordCounters:
		return doneOf(word, nil, nil)
	}
	return doneOf(word, nil, errUnknownWord)
}

func (p relayPart) progress() *sideProgress { return nil }
