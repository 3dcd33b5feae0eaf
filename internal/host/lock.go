package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// ErrLocked is wrapped when another measurement holds the machine and the caller does not wait.
var ErrLocked = errors.New("another measurement is running")

// LockHeldEnv is the variable by which a process that holds the lock tells its child so; the child then takes none.
// It is LockHeld, or LockHeldStdin if the parent also keeps the child's stdin open for as long as it lives.
const LockHeldEnv = "LATENCYDEMO_LOCK_HELD"

// The values of LockHeldEnv.
const (
	LockHeld = "1"
	// LockHeldStdin: the child leaves Ctrl-C to its parent. A line "interrupt" on stdin ends its run in good order,
	// and the end of stdin, which a killed parent causes too, ends the child at once.
	LockHeldStdin = "stdin"
)

const (
	lockName = "felix-bench.lock" // in os.TempDir()
	lockPoll = 100 * time.Millisecond
	// lockShy is how many polls a holder may take to write its name, before it is called unknown.
	lockShy = 3
)

// holder is what the lock file says of the process that holds it.
type holder struct {
	PID       int       `json:"pid"`
	Command   string    `json:"command"`
	StartedAt time.Time `json:"started_at"`
}

func (h holder) String() string {
	if h.PID == 0 {
		return "a process that has not said who it is"
	}
	return fmt.Sprintf("pid %d, since %s: %s", h.PID, h.StartedAt.Local().Format("15:04:05"), h.Command)
}

// Lock takes the machine for one measuring command, since two at once measure each other. If another command
// holds it, Lock says who (once for each holder it meets) and blocks until the lock is free or ctx is done; without
// wait it returns ErrLocked at once. The lock is the kernel's, on a file in os.TempDir() that stays there: it ends
// with its process, however that ends, and what a dead one left in the file does no harm. release may be called
// more than once. Where the system has no such locks, Lock says so and succeeds.
func Lock(ctx context.Context, wait bool, say func(string)) (release func(), err error) {
	if !canLock {
		say("this system has no file locks: nothing keeps another measurement from running at the same time")
		return func() {}, nil
	}
	path := filepath.Join(os.TempDir(), lockName)
	f, err := acquire(ctx, path, wait, say)
	if err != nil {
		return nil, err
	}
	name(f)
	var once sync.Once
	return func() {
		once.Do(func() {
			_ = f.Truncate(0) // nobody holds it any more; a file of another user is not ours to write
			_ = f.Close()     // and with it the lock
		})
	}, nil
}

// acquire returns the locked file.
func acquire(ctx context.Context, path string, wait bool, say func(string)) (*os.File, error) {
	tick := time.NewTicker(lockPoll)
	defer tick.Stop()
	said := ""
	for polls := 0; ; polls++ {
		f, held, err := tryAcquire(path)
		if err != nil {
			return nil, fmt.Errorf("machine lock: %w", err)
		}
		if f != nil {
			return f, nil
		}
		if text := held.String(); text != said && (held.PID != 0 || polls >= lockShy) {
			if !wait {
				return nil, fmt.Errorf("%w (%s)", ErrLocked, text)
			}
			say("waiting for another measurement to end (" + text + ")")
			said = text
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for the machine lock: %w", ctx.Err())
		case <-tick.C:
		}
	}
}

// tryAcquire returns the locked file, or nil and who holds it. The file is opened anew each time: should somebody
// have removed it meanwhile, the old one locks nothing.
func tryAcquire(path string) (*os.File, holder, error) {
	f, err := openLock(path)
	if err != nil {
		return nil, holder{}, err
	}
	got, err := tryFlock(f)
	if err == nil && got && sameFile(f, path) {
		return f, holder{}, nil
	}
	var held holder
	if err == nil && !got {
		held = readHolder(f)
	}
	_ = f.Close()
	return nil, held, err
}

func sameFile(f *os.File, path string) bool {
	a, err := f.Stat()
	if err != nil {
		return false
	}
	b, err := os.Lstat(path)
	return err == nil && os.SameFile(a, b)
}

// openLock opens the lock file, creating it for every user of the machine. It does not follow a link, which
// anybody could have put there.
func openLock(path string) (*os.File, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|openFlags, 0)
		if errors.Is(err, os.ErrPermission) {
			f, err = os.OpenFile(path, os.O_RDONLY|openFlags, 0) // another user's: it can be locked, not written
		}
		if !errors.Is(err, os.ErrNotExist) {
			return regular(f, err)
		}
		f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL|openFlags, 0o666)
		if errors.Is(err, os.ErrExist) {
			continue // created by another process just now
		}
		if err == nil {
			_ = f.Chmod(0o666) // whatever the umask; if not, the other users open it for reading
		}
		return f, err
	}
}

// regular refuses what is no file, so that no device is locked or written.
func regular(f *os.File, err error) (*os.File, error) {
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", f.Name())
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// name writes who holds the lock. It is for those who wait: the lock holds without it.
func name(f *os.File) {
	h := holder{PID: os.Getpid(), Command: command(os.Args), StartedAt: time.Now().UTC().Truncate(time.Second)}
	b, err := json.Marshal(h)
	if err != nil {
		return
	}
	if f.Truncate(0) == nil {
		_, _ = f.WriteAt(append(b, '\n'), 0)
	}
}

// command is the command line as it was typed, more or less.
func command(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return oneLine(strings.Join(append([]string{filepath.Base(args[0])}, args[1:]...), " "))
}

// oneLine makes text fit for a terminal: short, without line ends and escape sequences.
func oneLine(text string) string {
	const most = 200
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, text)
	if r := []rune(text); len(r) > most {
		text = string(r[:most]) + " …"
	}
	return text
}

func readHolder(f *os.File) holder {
	b, err := io.ReadAll(io.LimitReader(f, 4<<10))
	if err != nil {
		return holder{}
	}
	return parseHolder(b)
}

// parseHolder reads the lock file; the zero holder is one that has not written yet, or not legibly.
func parseHolder(b []byte) holder {
	var h holder
	if json.Unmarshal(b, &h) != nil || h.PID <= 0 {
		return holder{}
	}
	h.Command = oneLine(h.Command) // anybody can write there
	return h
}
