package broker

import "time"

// Waiting for room goes from bound to bound: the connection's bytes, all bytes, a slot. What one
// has got it keeps while it waits for the next, in this order for everyone, so that nobody waits
// for somebody who waits for it. One that waits for a slot stands in its lane already: it is
// admitted by a slot, or by its turn, whichever comes first.

// startWait lets a batch wait that has met an obstacle.
func (in *ingress) startWait(a *admission, b *batch, l *lane) {
	a.batch, a.lane = b, l
	a.began = time.Now()
	a.since = a.began
	in.counts.waiting++
	if c := b.way.conn; !c.open(b.way.held) {
		a.at = reasonConnBytes
		c.join(a)
		return
	}
	b.way.connPass = b.way.conn.take(b.way.held)
	in.waitAll(a)
}

// waitAll has the connection's bytes and wants those of all.
func (in *ingress) waitAll(a *admission) {
	b := a.batch
	if !in.all.open(b.way.held) {
		in.waitAt(a, reasonBytes)
		in.all.join(a)
		return
	}
	b.way.allPass = in.all.take(b.way.held)
	in.waitSlot(a)
}

// waitSlot has all bytes and wants a slot.
func (in *ingress) waitSlot(a *admission) {
	b, l := a.batch, a.lane
	q := l.queue
	if q.room(l.tenant) {
		b.way.slot = slotHeld
		q.takeSlot(l.tenant)
		in.admit(a)
	} else {
		b.way.waits = a
		in.waitAt(a, reasonItems)
		l.tenant.waiting.pushBack(a, &a.link)
		q.waiting++
	}
	q.push(l, b)
	in.call(q)
}

// waitAt moves a wait on to another bound.
func (in *ingress) waitAt(a *admission, at reason) {
	if a.at != reasonNone {
		now := time.Now()
		in.counts.blocked[a.at.checkpoint()].add(now.Sub(a.since))
		a.since = now
	}
	a.at = at
}

// admit ends a wait because there was room.
func (in *ingress) admit(a *admission) {
	in.accept(a.batch)
	in.endWait(a)
	a.admitted <- struct{}{}
}

func (in *ingress) endWait(a *admission) {
	c := &in.counts
	if a.at != reasonNone {
		now := time.Now()
		c.blocked[a.at.checkpoint()].add(now.Sub(a.since))
		c.waits.add(now.Sub(a.began))
	}
	c.waiting--
	a.at, a.batch, a.lane = reasonNone, nil, nil
}

// grantSlots hands out slots that have become free, to the tenant whose they were first.
func (in *ingress) grantSlots(q *workQueue, t *tenant) {
	if q.waiting == 0 {
		return
	}
	in.grant(q, t)
	for _, t := range q.tenants {
		in.grant(q, t)
	}
}

func (in *ingress) grant(q *workQueue, t *tenant) {
	for t.waiting.n > 0 && q.room(t) {
		a := t.waiting.first()
		a.link.unlink()
		q.waiting--
		q.takeSlot(t)
		a.batch.way.slot, a.batch.way.waits = slotHeld, nil
		in.admit(a)
	}
}

// giveAll gives a batch's bytes of all back and lets those on who wait for them.
func (in *ingress) giveAll(b *batch) {
	in.all.release(b.way.held, b.way.allPass)
	in.letAll()
}

func (in *ingress) letAll() {
	for a, pass := in.all.next(); a != nil; a, pass = in.all.next() {
		a.batch.way.allPass = pass
		in.waitSlot(a)
	}
}

// giveConn does the same with its connection's.
func (in *ingress) giveConn(b *batch) {
	c := b.way.conn
	c.release(b.way.held, b.way.connPass)
	in.letConn(c)
}

func (in *ingress) letConn(c *budget) {
	for a, pass := c.next(); a != nil; a, pass = c.next() {
		a.batch.way.connPass = pass
		in.waitAll(a)
	}
}

// giveUp ends a wait for another reason than room: the connection is gone, or the time is up, and
// then the publish counts as refused. If there was room after all, it returns reasonNone, and the
// publish is accepted. Otherwise the batch is the caller's again.
func (in *ingress) giveUp(a *admission, gone bool) reason {
	in.mu.Lock()
	defer in.mu.Unlock()
	why, b, l := a.at, a.batch, a.lane
	switch why {
	case reasonNone:
		<-a.admitted
		return reasonNone
	case reasonConnBytes:
		b.way.conn.leave(a)
		in.letConn(b.way.conn)
	case reasonBytes:
		in.all.leave(a)
		in.letAll()
		in.giveConn(b)
	case reasonItems:
		a.link.unlink()
		l.queue.waiting--
		l.queue.withdraw(l, b)
		in.giveAll(b)
		in.giveConn(b)
	}
	in.endWait(a)
	if gone {
		in.lose(b, l, why)
	} else {
		in.refuse(b, l, why, false)
	}
	return why
}
