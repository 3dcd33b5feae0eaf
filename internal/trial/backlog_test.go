package trial

import "testing"

// With several streams the backlog was what all of them had published minus what one subscriber had got, so that
// --total auto never saw a run that kept up and went on to the limit of deliveries. With drops it did not see one either.
func TestDoneWithCountsEveryStream(t *testing.T) {
	sub := func(heads ...int64) subProgress { return subProgress{Next: heads} }
	for _, tt := range []struct {
		why    string
		subs   []subProgress
		fanout int
		want   int64
	}{
		{"one stream, one subscriber", []subProgress{sub(100)}, 1, 100},
		{"the slowest of a stream counts", []subProgress{sub(100), sub(70), sub(90)}, 3, 70},
		{"every stream has a slowest one", []subProgress{sub(100), sub(70), sub(50), sub(60)}, 2, 120},
		{"publishers of a stream add up", []subProgress{sub(10, 20, 30)}, 1, 60},
		{"dropped messages are done with", []subProgress{{Measured: 1, Next: []int64{100}}}, 1, 100},
		{"nothing known yet", nil, 1, 0},
	} {
		if got := doneWith(tt.subs, tt.fanout); got != tt.want {
			t.Errorf("%s: doneWith = %d, want %d", tt.why, got, tt.want)
		}
	}
}
