package measure

import "fmt"

// SubscriberDrops are the messages of one subscription that were dropped on purpose, by
// checkpoint. Null: nobody could be asked; it counts as 0 in the arithmetic and stays null.
type SubscriberDrops struct {
	Subscriber *uint64 `json:"subscriber"` // checkpoint 5, the broker's queue
	Writer     *uint64 `json:"writer"`     // checkpoint 6, the broker's writer queue
	Client     *uint64 `json:"client"`     // checkpoint 7, the client's own queue
}

// Reported is what the broker and the clients say they dropped in the measure phase.
type Reported struct {
	// Ingress: messages dropped or rejected unanswered at checkpoints 3 and 4, by stream. Each is
	// lost to every subscriber of the stream. Null: not known.
	Ingress map[uint16]uint64
	// Subscribers, by ReceiverResult.ID.
	Subscribers map[string]SubscriberDrops
	// Discarded on close, by ReceiverResult.ID.
	Discarded map[string]uint64
}

// Dropped are deliveries dropped at named checkpoints. Null: not known; in a sum, not known for
// each subscriber (the arithmetic takes those that are).
type Dropped struct {
	Ingress *uint64 `json:"ingress"`
	SubscriberDrops
}

func (d Dropped) sum() int64 {
	return int64(value(d.Ingress) + value(d.Subscriber) + value(d.Writer) + value(d.Client))
}

// SubscriberAccount is the ledger of one subscriber:
//
//	lost        = expected - delivered
//	unaccounted = lost - dropped at checkpoints - discarded on close
type SubscriberAccount struct {
	ID        string  `json:"id"`
	Stream    uint16  `json:"stream"`
	Expected  uint64  `json:"expected"`
	Delivered uint64  `json:"delivered"` // each message once
	Lost      int64   `json:"lost"`      // negative: more arrived than anybody owns to have sent
	Dropped   Dropped `json:"dropped"`
	Discarded *uint64 `json:"discarded_on_close"`
	// Unaccounted is negative when more drops are reported than messages are missing.
	Unaccounted int64 `json:"unaccounted"`
	// Unexpected messages were delivered although they were refused, failed or never sent. They
	// hide as many lost ones from the arithmetic above.
	Unexpected uint64 `json:"unexpected"`

	Duplicate     uint64 `json:"duplicate"`
	Reordered     uint64 `json:"reordered"`
	OrderPromised bool   `json:"order_promised"`
	Foreign       uint64 `json:"foreign"`
	Corrupt       uint64 `json:"corrupt"`
	Ambiguous     uint64 `json:"ambiguous"`
	LateWarmup    uint64 `json:"late_warmup"`

	Missing []Range `json:"missing"`
	// MissingUnlisted counts missing messages that Missing does not name: its list is bounded.
	MissingUnlisted uint64 `json:"missing_unlisted"`

	P50Ns *int64 `json:"p50_ns"` // EndToEnd
	P99Ns *int64 `json:"p99_ns"`
}

// Ledger is the account of a trial, in deliveries.
type Ledger struct {
	Expected    uint64  `json:"expected"`
	Delivered   uint64  `json:"delivered"`
	Lost        int64   `json:"lost"`
	Dropped     Dropped `json:"dropped"`
	Discarded   *uint64 `json:"discarded_on_close"`
	Unaccounted int64   `json:"unaccounted"` // the sum; see Faults, which also looks at each subscriber
	Unexpected  uint64  `json:"unexpected"`

	Duplicate  uint64 `json:"duplicate"`
	Reordered  uint64 `json:"reordered"`
	Foreign    uint64 `json:"foreign"`
	Corrupt    uint64 `json:"corrupt"`
	Ambiguous  uint64 `json:"ambiguous"`
	LateWarmup uint64 `json:"late_warmup"`

	Subscribers []SubscriberAccount `json:"subscribers"`
}

// Account compares what was sent with what arrived. For a subscriber that died without a result,
// pass that of a fresh Receiver: then everything is missing, by name.
func Account(senders []SenderResult, receivers []ReceiverResult, reported Reported) Ledger {
	l := Ledger{Subscribers: make([]SubscriberAccount, 0, len(receivers))}
	var ingress, queue, writer, client, discarded knownSum
	for _, r := range receivers {
		a := account(senders, r, reported)
		l.Expected += a.Expected
		l.Delivered += a.Delivered
		l.Lost += a.Lost
		l.Unaccounted += a.Unaccounted
		l.Unexpected += a.Unexpected
		l.Duplicate += a.Duplicate
		l.Reordered += a.Reordered
		l.Foreign += a.Foreign
		l.Corrupt += a.Corrupt
		l.Ambiguous += a.Ambiguous
		l.LateWarmup += a.LateWarmup
		ingress.add(a.Dropped.Ingress)
		queue.add(a.Dropped.Subscriber)
		writer.add(a.Dropped.Writer)
		client.add(a.Dropped.Client)
		discarded.add(a.Discarded)
		l.Subscribers = append(l.Subscribers, a)
	}
	l.Dropped.Ingress = ingress.total()
	l.Dropped.Subscriber = queue.total()
	l.Dropped.Writer = writer.total()
	l.Dropped.Client = client.total()
	l.Discarded = discarded.total()
	return l
}

func account(senders []SenderResult, r ReceiverResult, reported Reported) SubscriberAccount {
	a := SubscriberAccount{
		ID:            r.ID,
		Stream:        r.Stream,
		Delivered:     r.Delivered,
		Dropped:       Dropped{SubscriberDrops: reported.Subscribers[r.ID]},
		Duplicate:     r.Duplicate,
		Reordered:     r.Reordered,
		OrderPromised: r.OrderPromised,
		Foreign:       r.Foreign,
		Corrupt:       r.Corrupt,
		Ambiguous:     r.Ambiguous,
		LateWarmup:    r.LateWarmup,
	}
	if reported.Ingress != nil {
		n := reported.Ingress[r.Stream]
		a.Dropped.Ingress = &n
	}
	if n, known := reported.Discarded[r.ID]; known {
		a.Discarded = &n
	}
	if r.EndToEnd != nil {
		s := r.EndToEnd.Summary()
		a.P50Ns, a.P99Ns = s.P50Ns, s.P99Ns
	}
	complete := true
	for _, s := range senders {
		for _, sent := range s.Streams {
			if sent.Stream != r.Stream {
				continue
			}
			a.Expected += sent.Expected()
			missing := subtract(r.missingOf(s.Publisher, sent.Offered), sent.Excluded)
			for _, g := range missing {
				a.Missing = append(a.Missing, Range{Publisher: s.Publisher, Stream: r.Stream, FirstSeq: g.First, LastSeq: g.Last})
			}
			complete = complete && sent.ExcludedLost == 0
		}
	}
	for _, p := range r.Publishers {
		a.MissingUnlisted += p.Untracked
		complete = complete && p.Untracked == 0
	}
	a.Lost = int64(a.Expected) - int64(a.Delivered)
	a.Unaccounted = a.Lost - a.Dropped.sum() - int64(value(a.Discarded))
	if a.Lost < 0 {
		a.Unexpected = uint64(-a.Lost)
	}
	if complete {
		// Every missing message is named, so those that came without being due can be told.
		var named int64
		for _, m := range a.Missing {
			named += int64(m.LastSeq - m.FirstSeq + 1)
		}
		a.Unexpected = uint64(max(0, named-a.Lost))
	}
	return a
}

// Faults returns why the ledger makes a run invalid, one sentence a reason, none if it does not.
// In a lossless run any shortfall is one, explained or not.
func (l Ledger) Faults(lossless bool) []string {
	var out []string
	say := func(id string, n int64, what string) {
		if n != 0 {
			out = append(out, fmt.Sprintf("subscriber %s: %d %s", id, n, what))
		}
	}
	for _, a := range l.Subscribers {
		say(a.ID, a.Unaccounted, fmt.Sprintf("of %d expected messages unaccounted", a.Expected))
		if lossless && a.Unaccounted == 0 {
			say(a.ID, a.Lost, fmt.Sprintf("of %d expected messages lost in a lossless run", a.Expected))
		}
		say(a.ID, int64(a.Unexpected), "messages delivered that were refused, failed or never sent")
		say(a.ID, int64(a.Duplicate), "duplicate messages")
		if a.OrderPromised {
			say(a.ID, int64(a.Reordered), "messages reordered, though their order is promised")
		}
		say(a.ID, int64(a.Foreign), "foreign messages")
		say(a.ID, int64(a.Corrupt), "corrupt messages")
		say(a.ID, int64(a.Ambiguous), "messages late or duplicate, too many gaps to tell")
	}
	return out
}

func value(p *uint64) uint64 {
	if p == nil {
		return 0
	}
	return *p
}

// knownSum adds up numbers that are not all known: then neither is the sum.
type knownSum struct {
	sum     uint64
	any     bool
	unknown bool
}

func (k *knownSum) add(n *uint64) {
	k.any = true
	k.unknown = k.unknown || n == nil
	k.sum += value(n)
}

func (k *knownSum) total() *uint64 {
	if !k.any || k.unknown {
		return nil
	}
	return &k.sum
}
