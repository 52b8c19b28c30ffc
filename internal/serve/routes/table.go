package routes

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/keyring"
	"github.com/usher-dev/usher/internal/paths"
	"github.com/usher-dev/usher/internal/replicas"
	"github.com/usher-dev/usher/internal/webhookconfig"
)

// A table holds the paths that the server accepts at one time: those of the current key, those of
// the previous key for an hour, and those that were registered within the last hour. It is
// immutable.
type table struct {
	keys keyring.Keys
	// routes are the entries by the hash of their paths.
	routes map[[sha256.Size]byte]Route
	// covers has what API servers send to each entry, or sent within the last hour.
	covers map[string]cover
	// registered are the currently registered paths by entry, and used is when each path was last
	// registered.
	registered map[string]string
	used       map[string]use
	// read is when the webhook configurations were read.
	read time.Time
}

// A Route is the target of a path.
type Route struct {
	entry string
	// Bare says that the path is the name of the entry, which is not secret.
	Bare bool
	// free says that all reviews are accepted, regardless of what API servers send to the entry.
	free bool
}

type use struct {
	entry string
	last  time.Time
}

// newTable returns the table that follows the last one, which may be nil.
func newTable(last *table, keys keyring.Keys, registered []webhookconfig.Registered, now time.Time) *table {
	t := &table{
		keys: keys, routes: map[[sha256.Size]byte]Route{}, covers: map[string]cover{},
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

// with returns a table with other keys, while API servers do not respond: registered paths do not
// expire meanwhile.
func (t *table) with(keys keyring.Keys) *table {
	next := *t
	next.keys, next.routes = keys, map[[sha256.Size]byte]Route{}
	next.index(map[string]bool{string(usher.Mutate): true, string(usher.Validate): true})
	return &next
}

// index fills in the routes of entries, and of registered paths.
func (t *table) index(entries map[string]bool) {
	for path, u := range t.used {
		entries[u.entry] = true
		t.routes[sha256.Sum256([]byte(path))] = Route{entry: u.entry, Bare: path == "/"+u.entry}
	}
	for entry := range entries {
		for _, key := range paths.Valid(t.keys, t.read) {
			t.routes[sha256.Sum256([]byte(paths.Of(key, entry)))] = Route{entry: entry}
		}
	}
}

// A Choice has the paths to register.
type Choice struct {
	// Name is the same for the same paths; Reason is for the log. Neither reveals a path.
	Name, Reason string
	path         func(entry string) string
	// Hold says that other replicas manage the webhook configurations.
	Hold bool
}

// Choose decides which paths to register, given the other replicas: those of the current key if all
// live replicas say that they serve these, and until then what is already registered. Replicas of
// older versions know neither these paths nor all entries. While one of them is alive, the webhook
// configurations are those of the older version, which manages them.
func (t *table) choose(others []replicas.Peer) Choice {
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
		return Choice{
			Name: "left to older replicas", Reason: "they serve no others: " + names(older),
			path: registeredAt, Hold: true,
		}
	case len(lagging) > 0:
		return Choice{
			Name: "as registered", Reason: "not every replica has the new key yet: " + names(lagging),
			path: func(entry string) string {
				if path, ok := t.registered[entry]; ok {
					return path
				}
				return paths.Of(current, entry)
			},
		}
	}
	return Choice{Name: servesKey + current.Fingerprint(), Reason: "every live replica serves them", path: registeredAt}
}

// names are those of replicas that count as live, which one that has ended without saying so does for a while.
func names(all []string) string {
	return fmt.Sprintf("%s (one that is gone counts for %s)", strings.Join(all, ", "), replicas.Expiry)
}

// A target is a resource as in the rules of webhook configurations, with a subresource after a
// slash. Each part can be *.
type target struct{ group, resource string }

// A cover is what API servers send to an entry, and when it was last registered.
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

// match reports whether a rule names the resource, as API servers match: * alone has no
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

// An outage is a possible time without any replica before this one started. It matters because API
// servers that cannot reach a webhook show its URL to users.
type outage struct {
	began  time.Time
	before map[string]replicas.Peer
}

// newOutage records the Leases that exist at the start.
func newOutage(others []replicas.Peer, began time.Time) *outage {
	o := &outage{began: began, before: map[string]replicas.Peer{}}
	for _, p := range others {
		o.before[p.Identity] = p
	}
	return o
}

// confirmed reports whether the suspicion is confirmed: no existing Lease has been renewed by the
// process that wrote it. It is refuted for good when one has.
func (o *outage) confirmed(others []replicas.Peer, now time.Time) bool {
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
