package serve

import (
	"crypto/sha256"
	"maps"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/keyring"
	"github.com/usher-dev/usher/internal/paths"
	"github.com/usher-dev/usher/internal/webhookconfig"
	"github.com/usher-dev/usher/report"
)

// A table is which paths are answered at one time: those of the current key, those of the
// key before for an hour, and those that API servers were told to use within the last hour.
// It is immutable.
type table struct {
	keys keyring.Keys
	// routes are the entries by the hash of their paths.
	routes map[[sha256.Size]byte]route
	// covers is what API servers send to each entry, or did within the last hour.
	covers map[string]cover
	// registered are the paths that API servers are told now, by entry, and used when they
	// were last told which.
	registered map[string]string
	used       map[string]use
	// read is when API servers were asked.
	read time.Time
}

// A route is where a path leads.
type route struct {
	entry string
	// bare says that the path is the name of the entry, which anybody can guess.
	bare bool
	// free says that everything is answered, whatever API servers send.
	free bool
}

type use struct {
	entry string
	last  time.Time
}

// newTable is what follows the last table, which may be nil.
func newTable(last *table, keys keyring.Keys, registered []webhookconfig.Registered, now time.Time) *table {
	t := &table{
		keys: keys, routes: map[[sha256.Size]byte]route{}, covers: map[string]cover{},
		registered: map[string]string{}, used: map[string]use{}, read: now,
	}
	recent := func(then time.Time) bool { return now.Sub(then) < paths.Grace }
	if last != nil {
		for path, u := range last.used {
			if recent(u.last) {
				t.used[path] = u
			}
		}
		for entry, c := range last.covers {
			t.covers[entry] = maps.Collect(func(yield func(target, time.Time) bool) {
				for place, then := range c {
					if recent(then) && !yield(place, then) {
						return
					}
				}
			})
		}
	}
	entries := map[string]bool{string(usher.Mutate): true, string(usher.Validate): true}
	for _, r := range registered {
		t.used[r.Path] = use{r.Entry, now}
		t.registered[r.Entry] = r.Path
		if t.covers[r.Entry] == nil {
			t.covers[r.Entry] = cover{}
		}
		t.covers[r.Entry].add(r.Rules, now)
	}
	t.index(entries)
	return t
}

// with returns a table with other keys, for as long as API servers do not answer: what they
// were told does not become old meanwhile.
func (t *table) with(keys keyring.Keys) *table {
	next := *t
	next.keys, next.routes = keys, map[[sha256.Size]byte]route{}
	next.index(map[string]bool{string(usher.Mutate): true, string(usher.Validate): true})
	return &next
}

// index fills the routes of entries, and of those that were registered.
func (t *table) index(entries map[string]bool) {
	for path, u := range t.used {
		entries[u.entry] = true
		t.routes[sha256.Sum256([]byte(path))] = route{entry: u.entry, bare: path == "/"+u.entry}
	}
	for entry := range entries {
		for _, key := range paths.Valid(t.keys, t.read) {
			t.routes[sha256.Sum256([]byte(paths.Of(key, entry)))] = route{entry: entry}
		}
	}
}

// A choice is the paths to register.
type choice struct {
	// name is the same for the same paths; reason is for people. Neither tells a path.
	name, reason string
	path         func(entry string) string
	// hold leaves the registration to others.
	hold bool
}

// choose decides which paths to register, given the other replicas: those of the current key
// if all of them that live say that they serve these, and until then what is registered
// already. Replicas of older versions know neither these nor all entries. As
// long as one of them lives, the registration is that of their versions, and they keep it.
func (t *table) choose(others []report.Peer) choice {
	current := t.keys.Current
	registeredAt := func(entry string) string { return paths.Of(current, entry) }
	var older, lagging []string
	for _, p := range others {
		switch {
		case !p.Live:
		case !slices.Contains(p.Serves, servesPaths), !slices.Contains(p.Serves, servesRights):
			older = append(older, p.Identity)
		case !slices.Contains(p.Serves, servesKey+current.Fingerprint()):
			lagging = append(lagging, p.Identity)
		}
	}
	switch {
	case len(older) > 0:
		return choice{
			name: "left to older replicas", reason: "they serve no others: " + strings.Join(older, ", "),
			path: registeredAt, hold: true,
		}
	case len(lagging) > 0:
		return choice{
			name: "as registered", reason: "not every replica has the new key yet: " + strings.Join(lagging, ", "),
			path: func(entry string) string {
				if path, ok := t.registered[entry]; ok {
					return path
				}
				return paths.Of(current, entry)
			},
		}
	}
	return choice{name: servesKey + current.Fingerprint(), reason: "every live replica serves them", path: registeredAt}
}

// A target is what rules of webhook configurations name: a resource, with a subresource
// behind a slash. Each part can be *.
type target struct{ group, resource string }

// A cover is what is sent to an entry, and when API servers were last told to.
type cover map[target]time.Time

func (c cover) add(rules []admissionv1.RuleWithOperations, now time.Time) {
	for i := range rules {
		for _, group := range rules[i].APIGroups {
			for _, resource := range rules[i].Resources {
				c[target{group, resource}] = now
			}
		}
	}
}

// match tells whether a rule names the resource, as API servers find out: * alone has no
// subresources, and */* has all of them and none.
func (c cover) match(group, resource, subresource string) bool {
	suffix := ""
	if subresource != "" {
		suffix = "/" + subresource
	}
	for _, g := range []string{group, "*"} {
		for _, r := range []string{resource, "*"} {
			_, same := c[target{g, r + suffix}]
			_, wild := c[target{g, r + "/*"}]
			if same || wild {
				return true
			}
		}
	}
	return false
}

// An outage is a time that may have been without any replica before this one began. API servers
// that cannot reach a webhook show its URL to users.
type outage struct {
	began  time.Time
	before map[string]report.Peer
}

// newOutage takes down the Leases that there are at the beginning.
func newOutage(others []report.Peer, began time.Time) *outage {
	o := &outage{began: began, before: map[string]report.Peer{}}
	for _, p := range others {
		o.before[p.Identity] = p
	}
	return o
}

// confirmed reports whether the suspicion is confirmed: no Lease that was there has been written
// by the process that wrote it then. It is refuted for good when one has.
func (o *outage) confirmed(others []report.Peer, now time.Time) bool {
	if o == nil || o.before == nil {
		return false
	}
	if len(o.before) == 0 {
		return true
	}
	for _, p := range others {
		then, ok := o.before[p.Identity]
		if ok && p.Renewed.After(then.Renewed) && p.Started.Equal(then.Started) {
			o.before = nil
			return false
		}
	}
	return now.Sub(o.began) >= outageAfter
}
