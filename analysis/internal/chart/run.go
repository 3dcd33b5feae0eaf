package chart

// Run is one trial whose time line and ledger are drawn.
type Run struct {
	Name     string // of its cell: "payload=4096 batch=64"
	RunID    string
	Timeline Timeline
	Ledger   Ledger
}

func (r Run) figures(g *gallery) {
	of := r.Name
	if r.RunID != "" {
		of += " " + r.RunID[max(0, len(r.RunID)-8):]
	}
	g.add("timeline", of, r.Timeline.Title, &r.Timeline)
	g.add("ledger", of, r.Ledger.Title, &r.Ledger)
}
