package recent_test

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/observe/recent"
)

func add(ring *recent.Ring, r usher.Request, d usher.Decision) { ring.Add(&r, &d, nil, time.Now()) }

func named(name string) usher.Request { return usher.Request{Phase: usher.Validate, Name: name} }

func namesOf(all []*recent.Decision) (names []string) {
	for _, d := range all {
		names = append(names, d.Name)
	}
	return names
}

func TestLast(t *testing.T) {
	t.Parallel()
	ring := &recent.Ring{}
	if got := ring.Last(10, nil).At(); got != 0 {
		t.Errorf("the last ones of an empty ring are from %d on", got)
	}
	for i := range recent.Size + 5 {
		r := named(fmt.Sprint(i))
		r.Namespace = []string{"even", "odd"}[i%2]
		add(ring, r, usher.Allowed())
	}
	read := func(n int, f *recent.Filter) []string {
		all, lost := ring.Last(n, f).Next(make([]*recent.Decision, 0, 2*recent.Size))
		if lost > 0 {
			t.Errorf("%d are lost", lost)
		}
		return namesOf(all)
	}
	if diff := cmp.Diff([]string{fmt.Sprint(recent.Size + 3), fmt.Sprint(recent.Size + 4)}, read(2, nil)); diff != "" {
		t.Errorf("the last two: -want +got:\n%s", diff)
	}
	// Half of the decisions are the last ones of all, others those of two namespaces.
	if got := len(read(2*recent.Size, nil)); got < recent.Size/2+16 || got > recent.Size/2+32 {
		t.Errorf("%d decisions are kept, want %d", got, recent.Size/2+32)
	}
	if diff := cmp.Diff([]string{fmt.Sprint(recent.Size + 2), fmt.Sprint(recent.Size + 4)}, read(2, &recent.Filter{Namespace: "even"})); diff != "" {
		t.Errorf("the last two of some: -want +got:\n%s", diff)
	}
}

// TestSubscription: every decision is read or counted as lost, in order, whatever the pace.
func TestSubscription(t *testing.T) {
	t.Parallel()
	ring := &recent.Ring{}
	s, err := ring.Subscribe("ann", ring.Read(0, nil))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	const writers, each = 4, 3 * recent.Size
	var writing sync.WaitGroup
	for range writers {
		writing.Go(func() {
			for range each {
				add(ring, named("a"), usher.Allowed())
			}
		})
	}
	done := make(chan struct{})
	go func() { writing.Wait(); close(done) }()
	var read, lost, at uint64
	buffer := make([]*recent.Decision, 0, 100)
	for ended := false; ; {
		all, missed := s.Next(buffer)
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
	if now, counted := ring.Subscribers(); now != 1 || counted != lost {
		t.Errorf("%d subscribers have lost %d, want 1 and %d", now, counted, lost)
	}
}

func TestLostAreCounted(t *testing.T) {
	t.Parallel()
	ring := &recent.Ring{}
	filter := &recent.Filter{Namespace: "shop"}
	s, err := ring.Subscribe("ann", ring.Read(ring.Next(), filter))
	if err != nil {
		t.Fatal(err)
	}
	const line = recent.Size / 2
	for i := range line + 16 + 7 {
		r := named(fmt.Sprint(i))
		if i >= line+16 {
			r.Namespace = "shop"
		}
		add(ring, r, usher.Allowed())
	}
	all, lost := s.Next(make([]*recent.Decision, 0, 2*recent.Size))
	if lost != 7 || len(all) != 7 || all[0].Sequence != line+16 {
		t.Errorf("%d are lost and %d read, want 7 and 7", lost, len(all))
	}
}

// TestSubscribersAreFair: one who comes late gets a place of the one who has most.
func TestSubscribersAreFair(t *testing.T) {
	t.Parallel()
	ring := &recent.Ring{}
	subscribe := func(owner string) *recent.Subscription {
		t.Helper()
		s, err := ring.Subscribe(owner, ring.Read(0, nil))
		if err != nil {
			t.Fatalf("%s: %v", owner, err)
		}
		return s
	}
	var greedy []*recent.Subscription
	for range recent.MostSubscribers {
		greedy = append(greedy, subscribe("greedy"))
	}
	if _, err := ring.Subscribe("greedy", ring.Read(0, nil)); !errors.Is(err, recent.ErrTooMany) {
		t.Errorf("one more of the same owner gets %v", err)
	}
	for range recent.MostSubscribers / 2 {
		subscribe("ann")
	}
	if _, err := ring.Subscribe("ann", ring.Read(0, nil)); !errors.Is(err, recent.ErrTooMany) {
		t.Errorf("more than half for one of two: %v", err)
	}
	for i, s := range greedy {
		ended := errors.Is(s.Err(), recent.ErrDisplaced)
		if kept := i < recent.MostSubscribers/2; kept == ended {
			t.Errorf("subscription %d of the greedy one: ended: %v", i, ended)
		}
		s.Close()
	}
	for range recent.MostSubscribers / 2 {
		subscribe("bob")
	}
	if now, _ := ring.Subscribers(); now != recent.MostSubscribers {
		t.Errorf("there are %d subscribers", now)
	}
}

func TestEnd(t *testing.T) {
	t.Parallel()
	ring := &recent.Ring{}
	s, err := ring.Subscribe("ann", ring.Read(0, nil))
	if err != nil {
		t.Fatal(err)
	}
	ring.End()
	<-s.Done()
	if !errors.Is(s.Err(), recent.ErrEnded) {
		t.Errorf("it ends because of %v", s.Err())
	}
	if _, err := ring.Subscribe("ann", ring.Read(0, nil)); !errors.Is(err, recent.ErrEnded) {
		t.Errorf("after the end: %v", err)
	}
	add(ring, named("a"), usher.Allowed())
	s.Close()
}

func TestFilter(t *testing.T) {
	t.Parallel()
	request := usher.Request{Phase: usher.Validate, Namespace: "shop", Name: "web", User: usher.User{Name: "ann"}}
	request.Kind.Kind, request.Resource.Resource = "Deployment", "deployments"
	team := usher.PolicyRef{Kind: "ObjectPolicy", Namespace: "shop", Name: "team"}
	exempted := usher.Finding{Policy: team, Outcome: usher.Exempted, Exemptions: []usher.Exemption{{}}}
	decision := usher.Decision{Verdict: usher.Deny, Warnings: []string{"w"}, Patch: usher.Patch{{}}, Findings: []usher.Finding{
		exempted, {Policy: usher.PolicyRef{Kind: "ClusterObjectPolicy", Name: "global"}, Outcome: usher.Rejected, Checks: []usher.Check{{Failed: true}}},
	}}
	outcome := func(o ...recent.Outcome) recent.Filter { return recent.Filter{Outcomes: o} }
	for _, row := range []struct {
		reason   string
		filter   recent.Filter
		decision usher.Decision
		want     bool
	}{
		{"everything", recent.Filter{}, decision, true},
		{"its namespace", recent.Filter{Namespace: "shop"}, decision, true},
		{"another namespace", recent.Filter{Namespace: "bank"}, decision, false},
		{"its user", recent.Filter{User: "ann"}, decision, true},
		{"another user", recent.Filter{User: "an"}, decision, false},
		{"its kind", recent.Filter{Kind: "deployment"}, decision, true},
		{"its resource", recent.Filter{Kind: "deployments"}, decision, true},
		{"another kind", recent.Filter{Kind: "Pod"}, decision, false},
		{"a policy", recent.Filter{Policy: "global"}, decision, true},
		{"a policy with its kind", recent.Filter{Policy: "ClusterObjectPolicy/global"}, decision, true},
		{"a policy of another kind", recent.Filter{Policy: "ObjectPolicy/global"}, decision, false},
		{"a policy of a namespace", recent.Filter{Policy: "team"}, decision, true},
		{"a policy with its namespace", recent.Filter{Policy: "shop/team"}, decision, true},
		{"a policy with both", recent.Filter{Policy: "ObjectPolicy/shop/team"}, decision, true},
		{"a policy of another namespace", recent.Filter{Policy: "bank/team"}, decision, false},
		{"the end of a name", recent.Filter{Policy: "eam"}, decision, false},
		{"denied", outcome(recent.Denied), decision, true},
		{"not denied", outcome(recent.Denied), usher.Allowed(), false},
		{"changed", outcome(recent.Changed), decision, true},
		{"warned", outcome(recent.Warned), decision, true},
		{"not warned", outcome(recent.Warned), usher.Allowed(), false},
		{"exempted", outcome(recent.Exempted), decision, true},
		{"not exempted", outcome(recent.Exempted), usher.Denied("no"), false},
		{"a part failed", outcome(recent.Failed), decision, true},
		{"not failed", outcome(recent.Failed), usher.Denied("no"), false},
		{"one of several", outcome(recent.Failed, recent.Denied), usher.Denied("no"), true},
		{"all at once", recent.Filter{Namespace: "shop", User: "bob"}, decision, false},
	} {
		ring := &recent.Ring{}
		add(ring, request, row.decision)
		// As a client sends it.
		filter, err := recent.ParseFilter(row.filter.Values())
		if err != nil {
			t.Errorf("%s: %v", row.reason, err)
		}
		filter.Namespace = row.filter.Namespace
		all, _ := ring.Read(0, &filter).Next(make([]*recent.Decision, 0, 1))
		if got := len(all) == 1; got != row.want {
			t.Errorf("%s: selected: %v", row.reason, got)
		}
	}
	for _, bad := range []url.Values{{"outcome": {"bad"}}, {"since": {"yesterday"}}, {"since": {"-1s"}}, {"slowerThan": {"5"}}} {
		if _, err := recent.ParseFilter(bad); err == nil {
			t.Errorf("%v is accepted", bad)
		}
	}
}

// TestTimes: decisions are selected by when they were made, and by how long they took.
func TestTimes(t *testing.T) {
	t.Parallel()
	ring := &recent.Ring{}
	if at := ring.Oldest(""); !at.IsZero() {
		t.Errorf("the oldest decision of an empty ring is from %s", at)
	}
	hour := time.Now().Add(-time.Hour).UTC()
	old, fresh := named("old"), named("fresh")
	old.Namespace, fresh.Namespace = "shop", "bank"
	d := usher.Allowed()
	// What began an hour ago has taken an hour.
	ring.Add(&old, &d, nil, hour)
	add(ring, fresh, d)
	for _, row := range []struct {
		reason string
		filter recent.Filter
		want   []string
	}{
		{"the last quarter of an hour", recent.Filter{Since: 15 * time.Minute}, []string{"fresh"}},
		{"the last two hours", recent.Filter{Since: 2 * time.Hour}, []string{"old", "fresh"}},
		{"as far back as durations go", recent.Filter{Since: 1<<63 - 1}, []string{"old", "fresh"}},
		{"the slow ones", recent.Filter{Slower: time.Minute}, []string{"old"}},
		{"slower than any", recent.Filter{Slower: 2 * time.Hour}, nil},
		{"both", recent.Filter{Since: time.Minute, Slower: time.Minute}, nil},
	} {
		filter, err := recent.ParseFilter(row.filter.Values())
		if err != nil {
			t.Fatal(err)
		}
		all, _ := ring.Last(10, &filter).Next(make([]*recent.Decision, 0, 10))
		if diff := cmp.Diff(row.want, namesOf(all)); diff != "" {
			t.Errorf("%s: -want +got:\n%s", row.reason, diff)
		}
	}
	if at := ring.Oldest(""); !at.Equal(hour) {
		t.Errorf("the oldest decision is from %s, want %s", at, hour)
	}
	if at := ring.Oldest("bank"); time.Since(at) > time.Minute || at.IsZero() {
		t.Errorf("the oldest decision of one namespace is from %s", at)
	}
	// The line goes round: of all, later ones are complete, of the namespace still this one.
	for range recent.Size / 2 {
		add(ring, named("next"), d)
	}
	if at := ring.Oldest(""); time.Since(at) > time.Minute {
		t.Errorf("of all, the decisions are complete from %s on", at)
	}
	if at := ring.Oldest("shop"); !at.Equal(hour) {
		t.Errorf("of a namespace, the decisions are complete from %s on, want %s", at, hour)
	}
}

// TestSince: as long as no decision is lost, all are kept since there is a ring, also of a namespace without any.
func TestSince(t *testing.T) {
	t.Parallel()
	since := time.Now().Add(-time.Hour)
	ring := &recent.Ring{Since: since}
	for _, decisions := range []int{0, recent.Size / 2} {
		for range decisions {
			add(ring, named("next"), usher.Allowed())
		}
		for _, namespace := range []string{"", "shop", "bank"} {
			if at := ring.Oldest(namespace); !at.Equal(since) {
				t.Errorf("%d decisions: those in namespace %q are complete from %s on, want %s", decisions, namespace, at, since)
			}
		}
	}
	add(ring, named("next"), usher.Allowed())
	if at := ring.Oldest(""); time.Since(at) > time.Minute {
		t.Errorf("one is lost: the decisions are complete from %s on", at)
	}
}

// TestShares: many decisions in one namespace, or of one user about none, leave others their last ones,
// also if these are dry runs, and they are in order.
func TestShares(t *testing.T) {
	t.Parallel()
	robot := func(name string) usher.User { return usher.User{Name: "system:serviceaccount:mallory:" + name} }
	for _, test := range []struct {
		reason string
		flood  func(i int) usher.Request
	}{
		{"in a namespace", func(int) usher.Request {
			return usher.Request{Phase: usher.Validate, Namespace: "mallory", DryRun: true}
		}},
		{"of many users in a namespace", func(i int) usher.Request {
			return usher.Request{Phase: usher.Validate, Namespace: "mallory", User: robot(fmt.Sprint(i))}
		}},
		{"about cluster-scoped objects", func(i int) usher.Request { return usher.Request{Phase: usher.Validate, User: robot(fmt.Sprint(i))} }},
		{"about access to namespaces of which there are none", func(i int) usher.Request {
			return usher.Request{Phase: usher.Authorize, Namespace: fmt.Sprint(i), User: robot("a"), Access: &usher.Access{Verb: "get"}}
		}},
		{"with long names", func(int) usher.Request {
			return usher.Request{Phase: usher.Validate, Namespace: "mallory", Name: strings.Repeat("x", 300), UID: strings.Repeat("y", 64)}
		}},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			const namespaces, each = 20, 8
			// Namespaces share by hash, so that one or the other of twenty may lose what it has.
			kept, full := 0, 0
			ring := &recent.Ring{}
			for i := range namespaces * each {
				add(ring, usher.Request{Phase: usher.Validate, Namespace: fmt.Sprint("team-", i%namespaces), Name: fmt.Sprint(i)}, usher.Allowed())
			}
			for i := range 2 * recent.Size {
				add(ring, test.flood(i), usher.Denied("no"))
			}
			if got := ring.Bytes(); got > recent.MaxBytes {
				t.Errorf("%d bytes are kept, want at most %d", got, recent.MaxBytes)
			}
			for i := range namespaces {
				filter := &recent.Filter{Namespace: fmt.Sprint("team-", i)}
				all, lost := ring.Last(100, filter).Next(make([]*recent.Decision, 0, 100))
				for j := range all {
					if want := uint64(namespaces*(each-len(all)+j) + i); all[j].Sequence != want || lost > 0 {
						t.Errorf("%s: decision %d is at %d, want %d; %d are lost", filter.Namespace, all[j].Sequence, j, want, lost)
					}
				}
				if kept += len(all); len(all) == each {
					full++
				}
			}
			if full < namespaces*3/4 {
				t.Errorf("%d of %d namespaces have all of their last decisions, which are %d", full, namespaces, kept)
			}
		})
	}
}
