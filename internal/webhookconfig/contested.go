package webhookconfig

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/usher-dev/usher/internal/rule"
)

// API servers convert an object to the version that a rule names only if no rule of the same
// webhook matches the version that the client used. If rules name different versions of a
// kind, or one of them and everything, each set of versions therefore needs an entry of its
// own for converted objects: see [rule.Entry]. A kind is contested if that is so.

// maxConverted limits the entries for converted objects of one phase and part. Policies can name
// any number of versions that are not served.
const maxConverted = 32

// A family is what policies name of a kind, in any group: resources of several groups can be
// the same objects.
type family struct {
	found []*located
	// sets are the different sets of API versions, joined, with their members.
	sets map[string][]*located
}

// contested notes for all that is found to which entry for converted objects it belongs, and
// returns the kinds that need any, sorted, and the versions of entries that are too many. It needs
// as few as possible.
func (e *Applier) contested(found []*located) (kinds []schema.GroupKind, dropped []string, err error) {
	families := map[string]*family{}
	for _, l := range found {
		if !l.convertible {
			continue
		}
		f := families[l.Kind]
		if f == nil {
			f = &family{sets: map[string][]*located{}}
			families[l.Kind] = f
		}
		set := strings.Join(l.named(), " ")
		f.found, f.sets[set] = append(f.found, l), append(f.sets[set], l)
	}
	for _, kind := range slices.Sorted(maps.Keys(families)) {
		f := families[kind]
		if len(f.sets) < 2 && !slices.ContainsFunc(found, f.isWithin) {
			continue
		}
		served, err := e.served(f)
		if err != nil {
			return nil, nil, err
		}
		if !f.several(served) {
			continue
		}
		f.assign(served)
		for _, l := range f.found {
			kinds = append(kinds, schema.FromAPIVersionAndKind(l.APIVersion, l.Kind).GroupKind())
		}
	}
	dropped = limit(found)
	slices.SortFunc(kinds, func(a, b schema.GroupKind) int { return cmp.Compare(a.String(), b.String()) })
	return slices.Compact(kinds), dropped, nil
}

// isWithin reports whether found is everything, including objects of the family.
func (f *family) isWithin(every *located) bool {
	return every.Kind == "" && (every.Namespaces == nil || slices.ContainsFunc(f.found, func(l *located) bool { return !l.cluster }))
}

// served returns the versions of the family in discovery.
func (e *Applier) served(f *family) ([]schema.GroupVersion, error) {
	var all []schema.GroupVersion
	for _, l := range f.found {
		if l.unknown {
			continue
		}
		resource := l.places[0].resource
		resources, err := e.mapper.ResourcesFor(schema.GroupVersionResource{Resource: strings.Split(resource, "/")[0]})
		if err != nil && !meta.IsNoMatchError(err) {
			return nil, fmt.Errorf("find versions of %s: %w", resource, err)
		}
		for _, r := range resources {
			kind, err := e.mapper.KindFor(r)
			if err != nil && !meta.IsNoMatchError(err) {
				return nil, fmt.Errorf("find kind of %s: %w", r, err)
			}
			if kind.Kind == l.Kind && !slices.Contains(all, r.GroupVersion()) {
				all = append(all, r.GroupVersion())
			}
		}
	}
	return all, nil
}

// isBuiltIn reports whether a group is part of Kubernetes. The versions of others can change
// at any time, before discovery is read again.
func isBuiltIn(group string) bool { return scheme.Scheme.IsGroupRegistered(group) }

// several reports whether objects of the family may be served in several versions.
func (f *family) several(served []schema.GroupVersion) bool {
	if slices.ContainsFunc(f.found, func(l *located) bool { return !isBuiltIn(l.group()) }) {
		return true
	}
	builtIn := slices.DeleteFunc(slices.Clone(served), func(gv schema.GroupVersion) bool { return !isBuiltIn(gv.Group) })
	return len(builtIn) != 1
}

// assign gives each set of versions the name of an entry, except sets of versions that are known
// not to be served, and sets with all versions of a kind of Kubernetes.
func (f *family) assign(served []schema.GroupVersion) {
	short := map[string]int{}
	for _, members := range f.sets {
		name, _ := rule.VersionsOf(members[0].named())
		short[name]++
	}
	for _, members := range f.sets {
		named := members[0].named()
		isNamed := func(gv schema.GroupVersion) bool { return slices.Contains(named, gv.String()) }
		if len(served) > 0 && !slices.ContainsFunc(served, isNamed) {
			continue
		}
		if len(served) > 0 && isBuiltIn(members[0].group()) && !slices.ContainsFunc(served, func(gv schema.GroupVersion) bool { return !isNamed(gv) }) {
			continue
		}
		name, full := rule.VersionsOf(named)
		if short[name] > 1 {
			name = full
		}
		for _, l := range members {
			l.versions, l.unserved = name, 0
			if len(served) > 0 {
				l.unserved = len(slices.DeleteFunc(slices.Clone(named), func(v string) bool {
					return slices.ContainsFunc(served, func(gv schema.GroupVersion) bool { return gv.String() == v })
				}))
			}
		}
	}
}

// limit keeps the entries that are most likely useful, if there are too many, and returns the
// versions of the others. Entries for versions that are not served are dropped first, since authors
// of policies can name any number of these.
func limit(found []*located) (dropped []string) {
	weight := map[string]int{}
	for _, l := range found {
		if l.versions == "" {
			continue
		}
		w := len(l.named()) + l.unserved<<10
		if l.unknown {
			w += 1 << 20
		}
		if known, ok := weight[l.versions]; !ok || w < known {
			weight[l.versions] = w
		}
	}
	if len(weight) <= maxConverted {
		return nil
	}
	names := slices.SortedFunc(maps.Keys(weight), func(a, b string) int {
		return cmp.Or(cmp.Compare(weight[a], weight[b]), cmp.Compare(a, b))
	})
	for _, l := range found {
		if l.versions != "" && !slices.Contains(names[:maxConverted], l.versions) {
			l.versions = ""
		}
	}
	return names[maxConverted:]
}

// isKind matches a possible kind of an object, and a group in a condition.
var isKind = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9]*$`)

// converted leaves out objects in the version that the client used.
var converted = admissionv1.MatchCondition{
	Name:       "converted",
	Expression: `!(` + sameVersion + `)`,
}

const sameVersion = `request.kind.group == request.requestKind.group && request.kind.version == request.requestKind.version`

// unconverted leaves out converted objects of kinds, which have entries of their own.
func unconverted(kinds []schema.GroupKind) admissionv1.MatchCondition {
	words := make([]string, len(kinds))
	for i, kind := range kinds {
		words[i] = "'" + kind.Group + "/" + kind.Kind + "'"
	}
	return admissionv1.MatchCondition{
		Name: "not-converted",
		Expression: fmt.Sprintf(`(%s) || !(request.kind.group + '/' + request.kind.kind in [%s])`,
			sameVersion, strings.Join(words, ", ")),
	}
}
