package broker

// A fifo is a circular buffer that grows by doubling and never shrinks: its owner bounds it.
type fifo[T any] struct {
	buf     []T // of a power of two
	head, n int
}

func (f *fifo[T]) push(v T) {
	if f.n == len(f.buf) {
		bigger := make([]T, max(8, 2*len(f.buf)))
		for i := range f.n {
			bigger[i] = f.buf[(f.head+i)&(len(f.buf)-1)]
		}
		f.buf, f.head = bigger, 0
	}
	f.buf[(f.head+f.n)&(len(f.buf)-1)] = v
	f.n++
}

// pop takes the oldest off; there must be one.
func (f *fifo[T]) pop() T {
	var zero T
	v := f.buf[f.head]
	f.buf[f.head] = zero
	f.head = (f.head + 1) & (len(f.buf) - 1)
	f.n--
	return v
}

// front is the oldest, in place; there must be one.
func (f *fifo[T]) front() *T { return &f.buf[f.head] }

// back is the newest, in place; there must be one.
func (f *fifo[T]) back() *T { return &f.buf[(f.head+f.n-1)&(len(f.buf)-1)] }
