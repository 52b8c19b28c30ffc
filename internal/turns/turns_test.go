package turns_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/usher-dev/usher/internal/turns"
)

func TestOf(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		reason, all, want string
		most              int
	}{
		{"nothing", "", "", 3},
		{"one namespace keeps its order", "a1 a2 a3", "a1 a2 a3", 3},
		{"one with few does not wait for one with many", "a1 a2 a3 b1", "a1 b1 a2 a3", 3},
		{"at most so many of a namespace", "a1 a2 a3 b1", "a1 b1 a2", 2},
		{"the cluster takes turns, and has any number", "1 2 3 a1 a2 a3", "1 a1 2 a2 3", 2},
	} {
		got := turns.Of(strings.Fields(test.all), test.most, func(item *string) string { return strings.TrimRight(*item, "0123456789") })
		if diff := cmp.Diff(strings.Fields(test.want), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.reason, diff)
		}
	}
}
