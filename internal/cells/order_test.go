package cells_test

import (
	"fmt"
	"testing"

	"felix/internal/cells"
)

func TestInOrder(t *testing.T) {
	list := []cells.Cell{{ID: "1", Key: "x"}, {ID: "2", Key: "b"}, {ID: "3", Key: "a"}, {ID: "4", Key: "b"}, {ID: "5", Key: "y"}}
	cells.InOrder(list, []string{"a", "b", "c", "a"})
	var got []string
	for _, c := range list {
		got = append(got, c.ID+c.Key)
	}
	if want := "[3a 2b 4b 1x 5y]"; fmt.Sprint(got) != want {
		t.Errorf("InOrder = %v, want %s", got, want)
	}
}
