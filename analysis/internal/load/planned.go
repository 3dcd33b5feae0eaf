package load

import (
	"fmt"
	"path/filepath"
	"strings"

	"felix/internal/runrecord"
)

// Planned holds what was recorded of grid sessions against what was planned, so that a cell without any record is
// missed and not just absent.
type Planned struct {
	seen map[string]map[string]map[int]bool // session id -> case key -> trials
}

// NewPlanned returns one that has seen nothing.
func NewPlanned() *Planned { return &Planned{seen: map[string]map[string]map[int]bool{}} }

// Add notes that the record is there.
func (p *Planned) Add(r *Record) {
	if r.Cell == "" {
		return
	}
	keys := p.seen[r.Session.SessionID]
	if keys == nil {
		keys = map[string]map[int]bool{}
		p.seen[r.Session.SessionID] = keys
	}
	trials := keys[r.Case.Key]
	if trials == nil {
		trials = map[int]bool{}
		keys[r.Case.Key] = trials
	}
	if r.Trial != nil {
		trials[*r.Trial] = true
	}
}

// Say tells, of each grid session, the cells without a record and how many trials are not there yet.
func (p *Planned) Say(sessions []*runrecord.Session, say Say) {
	for _, s := range sessions {
		if s.Grid == nil || s.Trials == nil {
			continue
		}
		var missing []string
		recorded := 0
		for _, c := range s.Grid.Cells {
			trials, ok := p.seen[s.SessionID][c.Key]
			if !ok {
				missing = append(missing, c.Name)
			}
			recorded += min(len(trials), *s.Trials)
		}
		if planned := len(s.Grid.Cells) * *s.Trials; recorded < planned {
			say("%s: %d of %d planned trials recorded", filepath.Base(s.Dir), recorded, planned)
		}
		if len(missing) > 0 {
			say("%s: no record of %s", filepath.Base(s.Dir), few(missing))
		}
	}
}

// few lists names, the first ones at most.
func few(names []string) string {
	const most = 5
	if len(names) <= most {
		return strings.Join(names, "; ")
	}
	return fmt.Sprintf("%s; and %s", strings.Join(names[:most], "; "), count(len(names)-most, "more cell"))
}
