package settings

import "fmt"

// Error is a setting that cannot be taken: where it stands, what is wrong with it, and
// what to do about it. A command prints Error() on one line and Hint on the next.
type Error struct {
	Where string // "broker.yaml:3", "environment", "--set subscriber_queue_capacity", …
	What  string
	Hint  string // may be empty
}

func (e *Error) Error() string {
	if e.Where == "" {
		return e.What
	}
	return fmt.Sprintf("%s: %s", e.Where, e.What)
}
