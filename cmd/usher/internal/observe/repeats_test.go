package observe_test

import (
	"strings"
	"testing"
	"time"

	"github.com/usher-dev/usher/cmd/usher/internal/observe"
	"github.com/usher-dev/usher/internal/observe/recent"
)

// TestRepeatsAreCounted: a controller that tries again does not fill the screen.
func TestRepeatsAreCounted(t *testing.T) {
	t.Parallel()
	at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	decision := func(user string) *recent.Decision {
		at = at.Add(time.Second)
		return &recent.Decision{Time: at, Verdict: "deny", Request: recent.Request{Operation: "CREATE", Kind: "Pod", Namespace: "shop", User: user}}
	}
	var all []*recent.Decision
	for range 12 {
		all = append(all, decision("controller"))
	}
	all = append(all, decision("jane"), decision("controller"), decision("controller"))
	text, err := observe.Lines(all)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(text) {
		_, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		got = append(got, rest)
	}
	want := []string{
		"denied  CREATE Pod shop/(new) controller", "the same 10 times so far", "the same 12 times so far",
		"denied  CREATE Pod shop/(new) jane", "denied  CREATE Pod shop/(new) controller", "the same 2 times so far",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s", text)
	}
}
