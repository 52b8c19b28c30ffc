// Package recording keeps requests that policies have refused, with the objects that users wrote, in memory.
//
// They are for few eyes. Objects that hold credentials are never kept, and who may read those of one namespace finds no
// others. What all take of memory is bounded: those that take most of it, by namespace, lose their oldest ones first.
package recording

import (
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/printable"
	"github.com/usher-dev/usher/internal/turns"
)

const (
	// MostRecordings is how many requests are kept at most, whatever memory there is.
	MostRecordings = 2048
	// LargestObject is how many bytes of an object are kept: a larger one is left out as a whole.
	LargestObject = 64 << 10
	// overhead is what a recording takes besides its text.
	overhead = 512
	// mostGroups and longest limit what is kept of users and names, of which senders choose the length.
	mostGroups, longest = 64, 253
)

// A Summary names a recording.
type Summary struct {
	// UID is that of the request, and the name of the recording.
	UID         string    `json:"uid"`
	Time        time.Time `json:"time"`
	Phase       string    `json:"phase"`
	Operation   string    `json:"operation"`
	APIVersion  string    `json:"apiVersion,omitempty"`
	Kind        string    `json:"kind,omitempty"`
	Resource    string    `json:"resource,omitempty"`
	Subresource string    `json:"subresource,omitempty"`
	Namespace   string    `json:"namespace,omitempty"`
	Name        string    `json:"name,omitempty"`
	User        string    `json:"user"`
	DryRun      bool      `json:"dryRun,omitempty"`
}

// A Recording is a request as it came.
type Recording struct {
	Summary

	Groups []string `json:"groups,omitempty"`
	// Object and OldObject are missing if the request has none, or they are left out: Lacks says why.
	Object    json.RawMessage `json:"object,omitempty"`
	OldObject json.RawMessage `json:"oldObject,omitempty"`
	Lacks     []string        `json:"lacks,omitempty"`
}

// A Store has recordings. It is safe for concurrent use.
type Store struct {
	most int64

	mu    sync.Mutex
	bytes int64
	count int
	// owners are the recordings of each namespace, or of each user of what is in none, the oldest first.
	owners map[string]*owned
}

type owned struct {
	bytes int64
	all   []*kept
}

// A kept is a recording as it is kept: its text is JSON.
type kept struct {
	Summary

	text []byte
}

func (k *kept) size() int64 { return int64(len(k.text)) + overhead }

// New returns a store for recordings that take so many bytes of memory at most.
func New(most int64) *Store { return &Store{most: most, owners: map[string]*owned{}} }

// Wrap returns a decider that decides as d does, and records what is refused. It returns d if the store is nil.
func Wrap(d usher.Decider, to *Store) usher.Decider {
	if to == nil {
		return d
	}
	return usher.DeciderFunc(func(ctx context.Context, r *usher.Request) (usher.Decision, error) {
		decision, err := d.Decide(ctx, r)
		if decision.Verdict == usher.Deny || err != nil {
			to.Add(r)
		}
		return decision, err
	})
}

// valid are the UIDs that API servers give to requests: names in paths.
var valid = regexp.MustCompile(`^[a-zA-Z0-9-]{1,64}$`)

// Add records a request, if its sender has shown to be an API server: others could choose whose recordings are lost.
func (s *Store) Add(r *usher.Request) {
	if !r.Trusted || r.Access != nil || !valid.MatchString(r.UID) {
		return
	}
	recording := recordingOf(r)
	text, err := json.Marshal(recording)
	if err != nil {
		return
	}
	k := &kept{Summary: recording.Summary, text: text}
	if k.size() > s.most {
		return
	}
	owner := "namespace " + k.Namespace
	if k.Namespace == "" {
		owner = "user " + turns.OfUser(k.User)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.owners[owner]
	if o == nil {
		o = &owned{}
		s.owners[owner] = o
	}
	if i := slices.IndexFunc(o.all, func(other *kept) bool { return other.UID == k.UID }); i >= 0 {
		s.remove(owner, o, i)
		s.owners[owner] = o
	}
	o.all, o.bytes = append(o.all, k), o.bytes+k.size()
	s.bytes, s.count = s.bytes+k.size(), s.count+1
	for s.bytes > s.most || s.count > MostRecordings {
		s.drop()
	}
}

// drop removes the oldest recording of the owner whose recordings take most.
func (s *Store) drop() {
	largest, of := "", (*owned)(nil)
	byCount := s.bytes <= s.most
	for name, o := range s.owners {
		switch {
		case of == nil, !byCount && o.bytes > of.bytes, byCount && len(o.all) > len(of.all):
			largest, of = name, o
		}
	}
	s.remove(largest, of, 0)
}

func (s *Store) remove(owner string, o *owned, at int) {
	size := o.all[at].size()
	o.all = slices.Delete(o.all, at, at+1)
	o.bytes, s.bytes, s.count = o.bytes-size, s.bytes-size, s.count-1
	if len(o.all) == 0 {
		delete(s.owners, owner)
	}
}

func recordingOf(r *usher.Request) *Recording {
	own := func(text string) string { return strings.Clone(printable.Cut(text, longest)) }
	recording := &Recording{Summary: Summary{
		UID: own(r.UID), Time: time.Now().UTC(), Phase: string(r.Phase), Operation: own(string(r.Operation)), APIVersion: own(r.Kind.GroupVersion().String()),
		Kind: own(r.Kind.Kind), Resource: own(r.Resource.Resource), Subresource: own(r.Subresource), Namespace: own(r.Namespace), Name: own(r.Name),
		User: own(r.User.Name), DryRun: r.DryRun,
	}}
	for _, group := range r.User.Groups[:min(len(r.User.Groups), mostGroups)] {
		recording.Groups = append(recording.Groups, own(group))
	}
	if len(r.User.Groups) > mostGroups {
		recording.Lacks = append(recording.Lacks, "the user has more groups")
	}
	if fact.Confidential(r.Kind.Kind) || fact.Confidential(r.Requested.Kind) {
		recording.Lacks = append(recording.Lacks, "a "+recording.Kind+" holds credentials, and is not recorded")
		return recording
	}
	recording.Object = recording.contentOf("object", r.Object)
	recording.OldObject = recording.contentOf("old object", r.OldObject)
	return recording
}

// contentOf returns an object, unless it is too large.
func (r *Recording) contentOf(what string, o *usher.Object) json.RawMessage {
	if o == nil {
		return nil
	}
	raw, err := o.Raw()
	if err != nil || len(raw) > LargestObject {
		r.Lacks = append(r.Lacks, "the "+what+" is too large to be recorded")
		return nil
	}
	return raw
}

// Last returns the newest recordings of a namespace, or of all if it is empty, the newest first.
func (s *Store) Last(namespace string, most int) []Summary {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := []Summary{}
	for _, o := range s.owners {
		for _, k := range o.all {
			if namespace == "" || k.Namespace == namespace {
				all = append(all, k.Summary)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b Summary) int { return b.Time.Compare(a.Time) })
	return all[:min(most, len(all))]
}

// Find returns a recording as JSON by its UID, of a namespace, or of all if it is empty; nil if there is none.
func (s *Store) Find(namespace, uid string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.owners {
		for _, k := range o.all {
			if k.UID == uid && (namespace == "" || k.Namespace == namespace) {
				return k.text
			}
		}
	}
	return nil
}
