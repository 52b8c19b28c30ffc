package recent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/observe/recent"
)

func TestLast(t *testing.T) {
	t.Parallel()
	ring := &recent.Ring{}
	if got := ring.Last(10, nil); got != nil {
		t.Errorf("an empty ring has %v", got)
	}
	for i := range recent.Size + 5 {
		ring.Add(&recent.Decision{Name: fmt.Sprint(i)})
	}
	names := func(all []*recent.Decision) (names []string) {
		for _, d := range all {
			names = append(names, d.Name)
		}
		return names
	}
	last := []string{fmt.Sprint(recent.Size + 3), fmt.Sprint(recent.Size + 4)}
	if diff := cmp.Diff(last, names(ring.Last(2, nil))); diff != "" {
		t.Errorf("the last two: -want +got:\n%s", diff)
	}
	if got := len(ring.Last(2*recent.Size, nil)); got != recent.Size {
		t.Errorf("%d decisions are kept, want %d", got, recent.Size)
	}
	even := func(d *recent.Decision) bool { return d.Sequence%2 == 0 }
	if diff := cmp.Diff([]string{fmt.Sprint(recent.Size + 2), fmt.Sprint(recent.Size + 4)}, names(ring.Last(2, even))); diff != "" {
		t.Errorf("the last two of some: -want +got:\n%s", diff)
	}
}

// TestSubscription: every decision is read or counted as lost, in order, whatever the pace.
func TestSubscription(t *testing.T) {
	t.Parallel()
	ring := &recent.Ring{}
	s, err := ring.Subscribe(0)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	const writers, each = 4, 3 * recent.Size
	var writing sync.WaitGroup
	for range writers {
		writing.Go(func() {
			for range each {
				ring.Add(&recent.Decision{})
			}
		})
	}
	done := make(chan struct{})
	go func() { writing.Wait(); close(done) }()
	var read, lost, at uint64
	buffer := make([]*recent.Decision, 0, 100)
	for ended := false; ; {
		all, missed := s.Read(buffer)
		lost += missed
		for _, d := range all {
			if d.Sequence < at {
				t.Fatalf("%d comes after %d", d.Sequence, at)
			}
			at = d.Sequence + 1
		}
		read += uint64(len(all))
		if len(all) == cap(buffer) {
			continue
		}
		if ended && len(all) == 0 {
			break
		}
		select {
		case <-s.More():
		case <-done:
			ended = true
		}
	}
	if read+lost != writers*each || read == 0 {
		t.Errorf("%d are read and %d lost, of %d", read, lost, writers*each)
	}
}

func TestLostAreCounted(t *testing.T) {
	t.Parallel()
	ring := &recent.Ring{}
	s, err := ring.Subscribe(ring.Next())
	if err != nil {
		t.Fatal(err)
	}
	for range recent.Size + 7 {
		ring.Add(&recent.Decision{})
	}
	all, lost := s.Read(make([]*recent.Decision, 0, 2*recent.Size))
	if lost != 7 || len(all) != recent.Size || all[0].Sequence != 7 {
		t.Errorf("%d are lost and %d read, want 7 and %d", lost, len(all), recent.Size)
	}
}

func TestSubscribersAreLimited(t *testing.T) {
	t.Parallel()
	ring := &recent.Ring{}
	var all []*recent.Subscription
	for range recent.MostSubscribers {
		s, err := ring.Subscribe(0)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	if _, err := ring.Subscribe(0); !errors.Is(err, recent.ErrTooMany) {
		t.Errorf("one more gets %v", err)
	}
	all[3].Close()
	if _, err := ring.Subscribe(0); err != nil {
		t.Errorf("after one has ended, another gets %v", err)
	}
}

// TestNoValues: what is kept has no value of an object, no message and no error.
func TestNoValues(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	d := usher.Decision{
		Verdict: usher.Deny, Message: secret, Reason: secret, Warnings: []string{secret}, Audit: map[string]string{"a": secret},
		Patch: usher.Patch{{Op: "add", Path: "/data/" + secret, Value: secret}},
		Findings: []usher.Finding{
			{Policy: usher.PolicyRef{Kind: "ClusterObjectPolicy", Name: "p"}, Rule: "spec.validations", Outcome: usher.Rejected, Message: secret,
				Err: errors.New(secret), Checks: []usher.Check{{Name: "spec.validations[0]", Message: secret, Field: secret}}},
			{Policy: usher.PolicyRef{Kind: "ClusterObjectPolicy", Name: "q"}, Rule: "spec.validations", Outcome: usher.Passed},
		},
	}
	ring := &recent.Ring{}
	decider := recent.Wrap(usher.DeciderFunc(func(context.Context, *usher.Request) (usher.Decision, error) { return d, errors.New(secret) }), ring)
	r := &usher.Request{
		Phase: usher.Validate, Operation: usher.Create, UID: "u", Kind: schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"},
		Namespace: "shop", Name: "web", User: usher.User{Name: "ann"}, Object: usher.RawObject([]byte(`{"a":"` + secret + `"}`)),
	}
	if _, err := decider.Decide(t.Context(), r); err == nil {
		t.Fatal("the error is lost")
	}
	kept := ring.Last(1, nil)[0]
	text, err := json.Marshal(kept)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), secret) {
		t.Errorf("it keeps a value: %s", text)
	}
	want := &recent.Decision{
		Time: kept.Time, Took: kept.Took, UID: "u", Phase: "validate", Operation: "CREATE", APIVersion: "apps/v1", Kind: "Deployment", Namespace: "shop", Name: "web",
		User: "ann", Verdict: "error", Changed: true, Warned: true,
		Rules: []recent.Rule{{Policy: d.Findings[0].Policy, Rule: "spec.validations", Outcome: usher.Rejected, Validations: []string{"spec.validations[0]"}}},
	}
	if diff := cmp.Diff(want, kept); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func BenchmarkWrap(b *testing.B) {
	d := usher.Decision{Verdict: usher.Allow, Findings: []usher.Finding{
		{Policy: usher.PolicyRef{Kind: "ClusterObjectPolicy", Name: "p"}, Rule: "spec.validations", Outcome: usher.Passed},
		{Policy: usher.PolicyRef{Kind: "ClusterObjectPolicy", Name: "q"}, Rule: "spec.validations", Outcome: usher.Passed},
	}}
	bare := usher.DeciderFunc(func(context.Context, *usher.Request) (usher.Decision, error) { return d, nil })
	r := &usher.Request{
		Phase: usher.Validate, Operation: usher.Create, UID: "0f3c1b52-6a3e-4d5e-9a52-6c4dbb0f4f8e", Kind: schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"},
		Namespace: "shop", Name: "web", User: usher.User{Name: "system:serviceaccount:shop:deployer"},
	}
	ring := &recent.Ring{}
	for name, decider := range map[string]usher.Decider{"bare": bare, "kept": recent.Wrap(bare, ring)} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := decider.Decide(b.Context(), r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
