package runrecord

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"
)

// SessionSchema is the version of session.json that this code writes.
const SessionSchema = "felix.session/1"

// The names inside a session's directory.
const (
	SessionFile = "session.json"
	RecordsFile = "records.jsonl"
	RunsDir     = "runs" // runs/<run_id>/ holds what is too large for a record
)

// Session is one sitting of measurement: a directory with session.json, its records, and what lies beside them.
type Session struct {
	Schema    string      `json:"schema"`
	SessionID string      `json:"session_id"` // UUIDv7
	Kind      SessionKind `json:"kind"`
	StartedAt time.Time   `json:"started_at"`
	EndedAt   *time.Time  `json:"ended_at"` // null: under way, killed, or of kind single, which has no end

	Grid   *SessionGrid `json:"grid"`   // null in a single session
	Trials *int         `json:"trials"` // planned per cell; null where nothing was planned
	Order  *string      `json:"order"`  // of the trials: random | listed
	Seed   *uint64      `json:"seed"`   // of that order

	Bench *string `json:"bench"` // head: head's bench drove the brokers of all arms of an A/B; null: whatever was measured, by itself

	Host         Host     `json:"host"`  // without noise, which is each trial's own
	Build        Build    `json:"build"` // of the binary that measures
	BinarySHA256 *string  `json:"binary_sha256"`
	Command      []string `json:"command"` // what was typed
	Notes        []string `json:"notes"`   // what was decided on the way: trials dropped for a budget, repeats of noisy ones

	// Dir is where it was read from or written to; it is not part of the file.
	Dir string `json:"-"`
}

// SessionGrid is the grid as it was run, so that a resumed session can refuse another one.
type SessionGrid struct {
	Name   string        `json:"name"`
	Digest string        `json:"digest"` // SHA-256 of the resolved cells and sizes
	Why    string        `json:"why"`
	Cells  []SessionCell `json:"cells"` // in the grid's order
}

// SessionCell names a cell and the case it stands for.
type SessionCell struct {
	Name string `json:"name"`
	Key  string `json:"key"` // Case.Key of its records
}

// NewSessionID returns a UUIDv7: ids sort by the time they were made.
func NewSessionID() string { return uuid.Must(uuid.NewV7()).String() }

// shortLen is the length of a short id: the last digits of the id, which are random. Its first ones are a clock,
// the same for every session of a minute.
const shortLen = 8

// ShortID returns the last 8 digits of a session id. FindSession takes it for the whole.
func ShortID(id string) string { return id[max(0, len(id)-shortLen):] }

// SessionDirName returns the name of a new session's directory: <UTC time>-<name>-<short id>. The name is the grid's,
// or "single"; what a file name cannot hold is replaced by "-".
func SessionDirName(at time.Time, name, id string) string {
	name = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return '-'
	}, name)
	return at.UTC().Format("20060102T150405Z") + "-" + name + "-" + ShortID(id)
}

// RecordsPath returns the path of the session's records, which may not exist yet.
func (s *Session) RecordsPath() string { return filepath.Join(s.Dir, RecordsFile) }

// RunDir returns the directory for what lies beside one record.
func (s *Session) RunDir(runID string) string { return filepath.Join(s.Dir, RunsDir, runID) }

// ErrOtherSession is wrapped when a directory already holds another session, or records without one.
var ErrOtherSession = errors.New("the directory belongs to another session")

// SessionError is a directory that looks like a session and cannot be read as one. It unwraps to the cause, which is
// fs.ErrNotExist if session.json is not there at all.
type SessionError struct {
	Dir string
	Err error
}

func (e *SessionError) Error() string { return fmt.Sprintf("session %s: %v", e.Dir, e.Err) }

func (e *SessionError) Unwrap() error { return e.Err }

// ReadSession reads dir/session.json. Every error is a *SessionError.
func ReadSession(dir string) (*Session, error) {
	b, err := os.ReadFile(filepath.Join(dir, SessionFile))
	if err != nil {
		var pathErr *fs.PathError
		if errors.As(err, &pathErr) {
			err = fmt.Errorf("%s: %w", SessionFile, pathErr.Err)
		}
		return nil, &SessionError{Dir: dir, Err: err}
	}
	s, err := ParseSession(b)
	if err != nil {
		return nil, &SessionError{Dir: dir, Err: fmt.Errorf("%s: %w", SessionFile, err)}
	}
	s.Dir = dir
	return s, nil
}

// ParseSession decodes the content of session.json; a byte order mark is accepted. Unknown fields are of a later
// build with the same schema, and ignored.
func ParseSession(b []byte) (*Session, error) {
	b = bytes.TrimPrefix(b, []byte("\xef\xbb\xbf"))
	var head struct {
		Schema string `json:"schema"`
	}
	if err := json.Unmarshal(b, &head); err != nil {
		return nil, err
	}
	if head.Schema != SessionSchema {
		return nil, fmt.Errorf("schema %q: this build reads %q", head.Schema, SessionSchema)
	}
	var s Session
	if err := json.Unmarshal(b, &s); err != nil {
		return nil, err
	}
	return &s, s.check()
}

func (s *Session) check() error {
	switch {
	case s.SessionID == "":
		return errors.New("session_id is missing")
	case s.Kind == "":
		return errors.New("kind is missing")
	case s.StartedAt.IsZero():
		return errors.New("started_at is missing")
	case s.Kind == SessionKindGrid && s.Grid == nil:
		return errors.New("kind grid without a grid")
	}
	return nil
}

// Encode returns the content of session.json: indented, because people read it.
func (s *Session) Encode() ([]byte, error) {
	c := *s
	c.Schema = SessionSchema
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("encode session: %w", err)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(&c); err != nil {
		return nil, fmt.Errorf("encode session: %w", err)
	}
	return b.Bytes(), nil
}
