package client

// ackFIFO is a growing ring of the requests that wait for an ack, oldest first. Its length is
// bounded by the publisher's byte admission.
type ackFIFO struct {
	ring    []*Ack // length is a power of two
	head, n int
}

func (q *ackFIFO) push(a *Ack) {
	if q.n == len(q.ring) {
		grown := make([]*Ack, max(2*len(q.ring), 64))
		for i := range q.n {
			grown[i] = q.ring[(q.head+i)&(len(q.ring)-1)]
		}
		q.ring, q.head = grown, 0
	}
	q.ring[(q.head+q.n)&(len(q.ring)-1)] = a
	q.n++
}

// front returns the oldest entry, nil if there is none.
func (q *ackFIFO) front() *Ack {
	if q.n == 0 {
		return nil
	}
	return q.ring[q.head]
}

// pop removes and returns the oldest entry, nil if there is none.
func (q *ackFIFO) pop() *Ack {
	a := q.front()
	if a != nil {
		q.ring[q.head] = nil // let the Ack go when its caller does
		q.head = (q.head + 1) & (len(q.ring) - 1)
		q.n--
	}
	return a
}
