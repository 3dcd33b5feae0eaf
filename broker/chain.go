package broker

// A chain is a doubly linked list whose links live in what it links, so that queueing allocates
// nothing and whoever gives up waiting leaves from the middle. The zero value is empty. Whoever
// owns the chain guards the links too.
type chain[T any] struct {
	head, tail *link[T]
	n          int
}

// A link puts its owner into one chain at a time.
type link[T any] struct {
	owner      *T
	prev, next *link[T]
	in         *chain[T]
}

// first returns the oldest, or nil.
func (c *chain[T]) first() *T {
	if c.head == nil {
		return nil
	}
	return c.head.owner
}

func (c *chain[T]) pushBack(owner *T, l *link[T]) {
	*l = link[T]{owner: owner, prev: c.tail, in: c}
	if c.tail == nil {
		c.head = l
	} else {
		c.tail.next = l
	}
	c.tail = l
	c.n++
}

func (c *chain[T]) pushFront(owner *T, l *link[T]) {
	*l = link[T]{owner: owner, next: c.head, in: c}
	if c.head == nil {
		c.tail = l
	} else {
		c.head.prev = l
	}
	c.head = l
	c.n++
}

// unlink takes l out of the chain that it is in, if it is in one.
func (l *link[T]) unlink() {
	c := l.in
	if c == nil {
		return
	}
	if l.prev == nil {
		c.head = l.next
	} else {
		l.prev.next = l.next
	}
	if l.next == nil {
		c.tail = l.prev
	} else {
		l.next.prev = l.prev
	}
	c.n--
	*l = link[T]{}
}
