package recording_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/observe/recording"
)

// refused is a request that is refused, with an object of so many bytes.
func refused(namespace, uid string, size int) *usher.Request {
	return &usher.Request{
		UID: uid, Phase: usher.Validate, Operation: usher.Create, Kind: schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, Namespace: namespace, Name: "web", Trusted: true,
		User: usher.User{Name: "jane", Groups: []string{"dev"}}, Object: usher.RawObject([]byte(`{"a":"` + strings.Repeat("x", size) + `"}`)),
	}
}

func TestWrap(t *testing.T) {
	t.Parallel()
	s := recording.New(1 << 20)
	for uid, row := range map[string]struct {
		decision usher.Decision
		err      error
		change   func(*usher.Request)
		want     bool
	}{
		"denied":    {usher.Decision{Verdict: usher.Deny}, nil, nil, true},
		"undecided": {usher.Decision{}, errors.New("overloaded"), nil, true},
		"allowed":   {usher.Decision{Verdict: usher.Allow}, nil, nil, false},
		"untrusted": {usher.Decision{Verdict: usher.Deny}, nil, func(r *usher.Request) { r.Trusted = false }, false},
		"access":    {usher.Decision{Verdict: usher.Deny}, nil, func(r *usher.Request) { r.Access = &usher.Access{Verb: "get"} }, false},
		"../escape": {usher.Decision{Verdict: usher.Deny}, nil, nil, false},
	} {
		d := recording.Wrap(usher.DeciderFunc(func(context.Context, *usher.Request) (usher.Decision, error) { return row.decision, row.err }), s)
		r := refused("shop", uid, 10)
		if row.change != nil {
			row.change(r)
		}
		decision, err := d.Decide(t.Context(), r)
		if decision.Verdict != row.decision.Verdict || !errors.Is(err, row.err) {
			t.Errorf("%s: the decision changes: %+v, %v", uid, decision, err)
		}
		if got := s.Find("shop", uid) != nil; got != row.want {
			t.Errorf("%s: recorded %v", uid, got)
		}
	}
	var got recording.Recording
	if err := json.Unmarshal(s.Find("", "denied"), &got); err != nil || string(got.Object) != `{"a":"xxxxxxxxxx"}` || got.User != "jane" || len(got.Groups) != 1 || got.APIVersion != "v1" {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestNoOtherNamespace: who asks for one namespace finds nothing of another one.
func TestNoOtherNamespace(t *testing.T) {
	t.Parallel()
	s := recording.New(1 << 20)
	s.Add(refused("shop", "a", 10))
	s.Add(refused("bank", "b", 10))
	s.Add(refused("bank", "a", 20))
	s.Add(refused("", "c", 10))
	if s.Find("shop", "b") != nil || s.Find("shop", "c") != nil || strings.Contains(string(s.Find("shop", "a")), "bank") || !strings.Contains(string(s.Find("bank", "a")), "bank") {
		t.Error("a namespace has recordings of another one")
	}
	for namespace, want := range map[string]int{"shop": 1, "bank": 2, "": 4, "none": 0} {
		if got := s.Last(namespace, 10); len(got) != want {
			t.Errorf("%q: %+v", namespace, got)
		}
	}
}

// TestNoCredentials: nothing is kept of what is in objects that hold credentials.
func TestNoCredentials(t *testing.T) {
	t.Parallel()
	s := recording.New(1 << 20)
	for i, kind := range []string{"Secret", "TokenRequest", "TokenReview"} {
		r := refused("shop", fmt.Sprint(i), 0)
		r.Kind.Kind = kind
		r.Object = usher.RawObject([]byte(`{"data":{"hunter2":"aHVudGVyMg=="}}`))
		r.OldObject = r.Object
		s.Add(r)
		if text := string(s.Find("shop", fmt.Sprint(i))); !strings.Contains(text, "holds credentials") || strings.Contains(text, "hunter2") || strings.Contains(text, "aHVudGVyMg") {
			t.Errorf("%s: %s", kind, text)
		}
	}
}

// TestNobodyPushesOutOthers: a tenant whose large requests are refused in a loop loses their own recordings, and the
// memory is bounded.
func TestNobodyPushesOutOthers(t *testing.T) {
	t.Parallel()
	const most = 1 << 20
	s := recording.New(most)
	for i := range 5 {
		s.Add(refused("bank", fmt.Sprint("bank-", i), 1000))
	}
	cluster := refused("", "cluster", 1000)
	cluster.User.Name = "admin"
	s.Add(cluster)
	var group sync.WaitGroup
	for g := range 4 {
		group.Go(func() {
			for i := range 1000 {
				size := []int{100, recording.LargestObject - 100, 10 << 20}[min(i%100, 2)]
				if i%100 > 2 {
					size = 3000
				}
				r := refused([]string{"evil", ""}[i%2], fmt.Sprint("evil-", g, "-", i), size)
				r.User.Name = fmt.Sprint("system:serviceaccount:evil:", i)
				s.Add(r)
			}
		})
	}
	group.Wait()
	for i := range 5 {
		if s.Find("bank", fmt.Sprint("bank-", i)) == nil {
			t.Errorf("recording %d of another namespace is lost", i)
		}
	}
	if s.Find("", "cluster") == nil {
		t.Error("the recording of another user is lost")
	}
	total := 0
	for _, r := range s.Last("", recording.MostRecordings) {
		total += len(s.Find(r.Namespace, r.UID))
	}
	if total > most || total < most/4 {
		t.Errorf("recordings take %d bytes", total)
	}
	if text := string(s.Find("", "evil-0-902")); text != "" && !strings.Contains(text, "too large to be recorded") {
		t.Errorf("%.100s", text)
	}
	for i := range 2 * recording.MostRecordings {
		s.Add(refused("evil", fmt.Sprint("small-", i), 1))
	}
	if n := len(s.Last("", 2*recording.MostRecordings)); n > recording.MostRecordings || s.Find("bank", "bank-0") == nil {
		t.Errorf("%d recordings", n)
	}
}

// TestTheSameTwice: a request that is refused again takes the place of the one before.
func TestTheSameTwice(t *testing.T) {
	t.Parallel()
	s := recording.New(1 << 20)
	for range 3 {
		s.Add(refused("shop", "a", 10))
	}
	if got := s.Last("shop", 10); len(got) != 1 {
		t.Errorf("%+v", got)
	}
}
