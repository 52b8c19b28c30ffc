package observe_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/cmd/usher/internal/observe"
	"github.com/usher-dev/usher/internal/observe/recent"
)

// hint is what watch says once, without the first word.
const hint = "watch: replicas keep no messages: with --explain each decision has its rules, and the command that shows its messages"

// TestRetriesAreFolded: pods of two ReplicaSets are refused in turn, under another name each time.
func TestRetriesAreFolded(t *testing.T) {
	t.Parallel()
	at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	var all []*recent.Decision
	add := func(operation, name string) {
		at = at.Add(time.Second)
		all = append(all, &recent.Decision{Time: at, Verdict: "allow", Request: recent.Request{Operation: operation, Kind: "Pod", Namespace: "shop", Name: name, User: "rs"}})
	}
	for _, suffix := range []string{"x2k4l", "p9d7s", "zzzzz"} {
		add("CREATE", "web-7f9c-"+suffix)
		add("CREATE", "api-6c9f-"+suffix)
	}
	add("CREATE", "web-7f9c-aeiou")
	add("DELETE", "web-7f9c-x2k4l")
	at = at.Add(time.Hour)
	add("CREATE", "api-6c9f-p9d7s")
	for i := range 20 {
		add("UPDATE", fmt.Sprint("pod-", i))
	}
	text, err := observe.Lines(all)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(text) {
		if _, rest, _ := strings.Cut(strings.TrimSpace(line), " "); !strings.Contains(rest, "UPDATE") {
			got = append(got, rest)
		}
	}
	want := []string{
		"allowed CREATE Pod shop/web-7f9c-x2k4l rs", "allowed CREATE Pod shop/api-6c9f-x2k4l rs", "the same 3 times so far",
		"allowed CREATE Pod shop/web-7f9c-aeiou rs", "allowed DELETE Pod shop/web-7f9c-x2k4l rs",
		"allowed CREATE Pod shop/api-6c9f-p9d7s rs", "CREATE Pod shop/web-7f9c-* rs: 3 times until " + all[4].Time.Local().Format("15:04:05.000"), //nolint:gosmopolitan // Lines are for the person at the terminal.
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestPastRetriesAreInOrder: with --once all is known, and every line is where its time is.
func TestPastRetriesAreInOrder(t *testing.T) {
	t.Parallel()
	at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	var all []*recent.Decision
	for i, name := range []string{"web-7f9c-x2k4l", "api-6c9f-x2k4l", "web-7f9c-p9d7s", "other", "another"} {
		all = append(all, &recent.Decision{Time: at.Add(time.Duration(i) * time.Second), Verdict: "deny", Request: recent.Request{Operation: "CREATE", Kind: "Pod", Namespace: "shop", Name: name, User: "rs"}})
	}
	text, err := observe.PastLines(all)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(text) {
		_, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		got = append(got, rest)
	}
	want := []string{
		"denied  CREATE Pod shop/web-7f9c-x2k4l rs", "denied  CREATE Pod shop/api-6c9f-x2k4l rs", "denied CREATE Pod shop/web-7f9c-* rs: 2 times so far",
		"denied  CREATE Pod shop/other rs", "denied  CREATE Pod shop/another rs", hint,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestSlowRulesAreNamed: also of a request that nobody refuses.
func TestSlowRulesAreNamed(t *testing.T) {
	t.Parallel()
	text, err := observe.Lines([]*recent.Decision{{Verdict: "allow", TookSeconds: 0.25, Slowest: &recent.SlowestRule{
		Policy: usher.PolicyRef{Kind: "ClusterObjectPolicy", Name: "slow"}, Rule: "spec.validations", TookSeconds: 0.2,
	}, Request: recent.Request{Operation: "CREATE", Kind: "Pod", Namespace: "shop", Name: "cart", User: "jane"}}})
	if want := "CREATE Pod shop/cart jane took 250ms, of which ClusterObjectPolicy slow spec.validations took 200ms\n"; err != nil || !strings.HasSuffix(text, want) {
		t.Errorf("%v, want %s in %s", err, want, text)
	}
}

// TestFoldedLinesSayTheWorst: the slowest of those that are folded, and what all of them are.
func TestFoldedLinesSayTheWorst(t *testing.T) {
	t.Parallel()
	policy := usher.PolicyRef{Kind: "ClusterObjectPolicy", Name: "slow"}
	var all []*recent.Decision
	for _, took := range []float64{0.1, 0.5, 0.2} {
		all = append(all, &recent.Decision{
			Verdict: "deny", Failed: true, TookSeconds: took, Rules: []recent.Rule{{Policy: policy, Rule: "spec.validations", Outcome: usher.Failed}},
			Slowest: &recent.SlowestRule{Policy: policy, Rule: "spec.validations", TookSeconds: took},
			Request: recent.Request{Operation: "CREATE", Kind: "Pod", Namespace: "shop", Name: "cart", User: "jane"},
		})
	}
	all = append(all, &recent.Decision{Verdict: "allow", Request: recent.Request{Operation: "DELETE"}}, all[0])
	text, err := observe.Lines(all)
	for _, want := range []string{
		" the same 3 times so far, the longest took 500ms, of which ClusterObjectPolicy slow spec.validations took 500ms\n",
		" denied CREATE Pod shop/cart jane [failed] ClusterObjectPolicy slow: 4 times so far, the longest took 500ms",
	} {
		if err != nil || !strings.Contains(text, want) {
			t.Errorf("%v, want %s in %s", err, want, text)
		}
	}
}

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
		"denied  CREATE Pod shop/(new) controller", hint, "the same 10 times so far", "the same 12 times so far",
		"denied  CREATE Pod shop/(new) jane", "denied CREATE Pod shop/(new) controller: 14 times so far",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s", text)
	}
}
