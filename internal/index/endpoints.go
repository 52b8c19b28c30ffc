package index

import (
	"slices"
	"strings"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/rule"
)

// every is what an endpointKey has where a rule takes everything.
const every = "*"

// maxEndpoints limits the keys of one rule: a rule that names more is filed under fewer details.
const maxEndpoints = 256

// endpoints holds the rules that name resources, by what they name. Lists are in emission order.
type endpoints struct {
	// named are those of rules that name their resources, all those of the others.
	named map[string]*endpointLists
	all   endpointLists
}

// endpointLists are the rules for a resource.
type endpointLists struct {
	lists map[endpointKey][]entry
	// details are those that keys have, each once: a request is looked up once for each.
	details []detail
}

// An endpointKey is what a rule names of requests, or [every].
type endpointKey struct {
	operation                usher.Operation
	group, subresource, name string
}

// A detail says what a key names.
type detail byte

const (
	byOperation detail = 1 << iota
	byGroup
	bySubresource
	byObjectName
)

// detail is that of a key.
func (k endpointKey) detail() detail {
	var d detail
	for i, text := range []string{string(k.operation), k.group, k.subresource, k.name} {
		if text != every {
			d |= 1 << i
		}
	}
	return d
}

// keyOf is the key under which the rules with a detail are that are for r.
func (d detail) keyOf(r *usher.Request) endpointKey {
	k := endpointKey{every, every, every, every}
	if d&byOperation != 0 {
		k.operation = r.Operation
	}
	if d&byGroup != 0 {
		k.group = r.Resource.Group
	}
	if d&bySubresource != 0 {
		k.subresource = r.Subresource
	}
	if d&byObjectName != 0 {
		k.name = r.Name
	}
	return k
}

func (e *endpoints) add(rank int32, m *rule.Match) {
	for at := range endpointsOf(m) {
		lists := &e.all
		if at.resource != every {
			if e.named == nil {
				e.named = map[string]*endpointLists{}
			}
			if lists = e.named[at.resource]; lists == nil {
				lists = &endpointLists{}
				e.named[at.resource] = lists
			}
		}
		lists.add(rank, at.endpointKey)
	}
}

func (l *endpointLists) add(rank int32, key endpointKey) {
	if l.lists == nil {
		l.lists = map[endpointKey][]entry{}
	}
	l.lists[key] = append(l.lists[key], entry{rank: rank, selector: byResource})
	if d := key.detail(); !slices.Contains(l.details, d) {
		l.details = append(l.details, d)
	}
}

// collect appends the lists with the rules that may match r.
func (e *endpoints) collect(lists [][]entry, r *usher.Request) [][]entry {
	if e == nil {
		return lists
	}
	if l := e.named[r.Resource.Resource]; l != nil {
		for _, d := range l.details {
			lists = collect(lists, l.lists[d.keyOf(r)])
		}
	}
	for _, d := range e.all.details {
		lists = collect(lists, e.all.lists[d.keyOf(r)])
	}
	return lists
}

// any reports whether there are rules that may match r.
func (e *endpoints) any(r *usher.Request) bool {
	var buffer [maxLists][]entry
	return len(e.collect(buffer[:0], r)) > 0
}

// An endpoint is what a rule names of requests.
type endpoint struct {
	resource string
	endpointKey
}

// endpointsOf returns the endpoints under which a rule is filed: those of the match that names the
// resources, if one of them does.
func endpointsOf(m *rule.Match) map[endpoint]bool {
	best := map[endpoint]bool{{every, endpointKey{every, every, every, every}}: true}
	for i := range m.Resources {
		if rules := m.Resources[i].Rules; len(rules) > 0 {
			if keys := keysOf(rules); !takesAll(keys) || len(best) == 1 && takesAll(best) {
				best = keys
			}
			if !takesAll(best) {
				break
			}
		}
	}
	return best
}

// takesAll reports whether one of keys is for all resources.
func takesAll(keys map[endpoint]bool) bool {
	for key := range keys {
		if key.resource == every {
			return true
		}
	}
	return false
}

// keysOf returns the keys of rules, with as much detail as keeps them few.
func keysOf(rules []rule.ResourceRule) map[endpoint]bool {
	keys := map[endpoint]bool{}
	each := max(maxEndpoints/len(rules), 1)
	for i := range rules {
		r := &rules[i]
		operations, groups, names := r.Operations, r.Groups, r.Names
		if len(operations) == 0 {
			operations = []usher.Operation{every}
		}
		if slices.Contains(groups, every) {
			groups = []string{every}
		}
		if len(names) == 0 || len(names)*len(operations)*len(groups)*len(r.Resources) > each {
			names = []string{every}
		}
		if len(operations)*len(groups)*len(r.Resources) > each {
			groups = []string{every}
		}
		for _, resource := range r.Resources {
			at := endpoint{}
			at.resource, at.subresource, _ = strings.Cut(resource, "/")
			named := groups
			if at.resource != every {
				// Few resources of several groups have the same name.
				named = []string{every}
			}
			for _, at.operation = range operations {
				for _, at.group = range named {
					for _, at.name = range names {
						keys[at] = true
					}
				}
			}
		}
	}
	return keys
}
