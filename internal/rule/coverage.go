package rule

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	usher "github.com/usher-dev/usher"
)

// A Coverage is the set of requests that rules can match: the requests that doors register for.
// Equal sets of rules have equal coverages.
type Coverage struct {
	Mutate, Validate []Covered
	// MutateMetadata and ValidateMetadata are the objects whose metadata must not change through
	// subresources without a decision; they have no operation but UPDATE.
	MutateMetadata, ValidateMetadata []Covered
	// MutateResources and ValidateResources are the endpoints of rules that name resources, but for
	// MutateReinvoked and ValidateExisting, which are those of rules that are [Rule.Reinvoked] and
	// [Rule.Inspects].
	MutateResources, MutateReinvoked, ValidateResources, ValidateExisting []CoveredResource
	// Candidates is what candidates are for; nil if there are none. Rules do not cover it.
	Candidates *CandidateCoverage
}

// Covered are the requests for the objects of one kind.
type Covered struct {
	// APIVersion and Kind are both empty for objects of every kind.
	APIVersion, Kind string
	// Operations are sorted; none means all.
	Operations []usher.Operation
	// Namespaces are those of the objects, sorted; nil means every namespace, and objects
	// that are in none.
	Namespaces []string
	// Versions are the API versions of the kind that the same rules name, sorted, APIVersion
	// among them; nil if that is the only one.
	Versions []string
}

// Cover returns what rules can match, sorted, each operation on a kind in one place only,
// unless rules name different sets of its versions.
//
// Built-in rules, which have no policy, add to the work of others and cover nothing. No rule covers
// mutation on Delete. A rule for objects of every kind covers CONNECT only if it names that
// operation: those requests have options and no object, and a rule for all objects means objects.
func Cover(rules []Rule) Coverage {
	mutate, validate, metadata := reaches{}, reaches{}, map[usher.Phase]reaches{usher.Mutate: {}, usher.Validate: {}}
	for i := range rules {
		r := &rules[i]
		if r.Policy == (usher.PolicyRef{}) || len(r.Match.Resources) > 0 {
			continue
		}
		if r.Phase == usher.Mutate {
			mutate.add(&r.Match)
		} else {
			validate.add(&r.Match)
		}
		if r.readsMetadata() {
			metadata[r.Phase].add(&r.Match)
		}
	}
	maps.DeleteFunc(mutate, func(key reachKey, _ *reach) bool { return key.operation == usher.Delete })
	for _, reaches := range metadata {
		maps.DeleteFunc(reaches, func(key reachKey, _ *reach) bool { return key.operation != usher.Update })
	}
	return Coverage{
		Mutate: mutate.covered(), Validate: validate.covered(),
		MutateMetadata: metadata[usher.Mutate].covered(), ValidateMetadata: metadata[usher.Validate].covered(),
		MutateResources:   coveredResources(rules, Entry{Phase: usher.Mutate, Part: Once}),
		MutateReinvoked:   coveredResources(rules, Entry{Phase: usher.Mutate, Part: Reinvoked}),
		ValidateResources: coveredResources(rules, Entry{Phase: usher.Validate, Part: Once}),
		ValidateExisting:  coveredResources(rules, Entry{Phase: usher.Validate, Part: Existing}),
	}
}

// Of returns the part of the coverage that an entry is for.
func (c Coverage) Of(e Entry) []Covered {
	all := c.part(e.Phase, e.Part)
	if e.Versions == "" {
		return all
	}
	var own []Covered
	for i := range all {
		if all[i].Kind != "" && e.named(all[i].versions()) {
			own = append(own, all[i])
		}
	}
	return own
}

func (c Coverage) part(phase usher.Phase, part Part) []Covered {
	switch {
	case part.isOfPolicies() || part == Reinvoked || part == Existing || part == Candidates || part == TenantCandidates:
		return nil
	case part == Beside:
		part = Metadata
	}
	switch {
	case phase == usher.Mutate && part == Metadata:
		return c.MutateMetadata
	case phase == usher.Mutate:
		return c.Mutate
	case part == Metadata:
		return c.ValidateMetadata
	}
	return c.Validate
}

// Resources returns the endpoints that are covered of the requests that an entry is for.
func (c Coverage) Resources(e Entry) []CoveredResource {
	if e.Versions != "" || e.Part == Metadata || e.Part.isOfPolicies() || e.OfCandidates() {
		return nil
	}
	most, rest, part := c.MutateResources, c.MutateReinvoked, Reinvoked
	if e.Phase != usher.Mutate {
		most, rest, part = c.ValidateResources, c.ValidateExisting, Existing
	}
	switch {
	case e.Part == part:
		return rest
	case e.Part == Reinvoked || e.Part == Existing:
		return nil
	case e.Part == Once || len(rest) == 0:
		return most
	}
	return slices.Concat(most, rest)
}

// coveredResources returns the endpoints of the rules of an entry that name resources, sorted, those of policies of
// namespaces apart. Several matches of a rule all have to hold: one of them covers the rule.
func coveredResources(rules []Rule, e Entry) []CoveredResource {
	every := ResourceRule{Groups: []string{"*"}, Versions: []string{"*"}, Resources: []string{"*/*"}}
	type key struct {
		tenants bool
		text    string
	}
	covered := map[key]ResourceRule{}
	sets := map[key][]Namespaces{}
	for i := range rules {
		m := &rules[i].Match
		if rules[i].Phase != e.Phase || len(m.Resources) == 0 || !e.narrow(&rules[i]) {
			continue
		}
		covering := []ResourceRule{every}
		for j := range m.Resources {
			if len(m.Resources[j].Rules) > 0 {
				covering = m.Resources[j].Rules
				break
			}
		}
		in, tenants := m.Namespaces, m.Namespace != ""
		if tenants {
			in = in.And(Namespaces{Names: []string{m.Namespace}, Only: true})
		}
		for _, r := range covering {
			r.Names = nil
			at := key{tenants, r.String()}
			covered[at] = r
			sets[at] = append(sets[at], in)
		}
	}
	var all []CoveredResource
	for _, at := range slices.SortedFunc(maps.Keys(covered), func(a, b key) int {
		if a.text != b.text || a.tenants == b.tenants {
			return strings.Compare(a.text, b.text)
		}
		if b.tenants {
			return -1
		}
		return 1
	}) {
		all = append(all, CoveredResource{covered[at], AnyOf(sets[at]), at.tenants})
	}
	return all
}

// Entries returns the names of all entries that may be called, for any versions that the cluster
// serves, sorted.
func (c Coverage) Entries() []string {
	var names []string
	for _, phase := range []usher.Phase{usher.Mutate, usher.Validate} {
		names = append(names, Entry{Phase: phase, Part: Policies}.String(), Entry{Phase: phase, Part: Rights}.String())
		for _, part := range []Part{Objects, Metadata} {
			all := c.part(phase, part)
			if len(all) > 0 {
				names = append(names, Entry{Phase: phase, Part: part}.String())
			}
			for i := range all {
				if all[i].Kind != "" {
					short, full := VersionsOf(all[i].versions())
					names = append(names, Entry{phase, part, short}.String(), Entry{phase, part, full}.String())
				}
			}
		}
		if len(c.Resources(Entry{Phase: phase})) > 0 {
			names = append(names, Entry{Phase: phase}.String(), Entry{Phase: phase, Part: Beside}.String())
		}
	}
	if len(c.MutateReinvoked) > 0 {
		names = append(names, Entry{Phase: usher.Mutate, Part: Once}.String(), Entry{Phase: usher.Mutate, Part: Reinvoked}.String())
	}
	if len(c.ValidateExisting) > 0 {
		names = append(names, Entry{Phase: usher.Validate, Part: Existing}.String())
	}
	names = append(names, Entry{Phase: usher.Validate, Part: Deletions}.String())
	slices.Sort(names)
	return slices.Compact(names)
}

// versions are the API versions of the kind that the rules name.
func (c *Covered) versions() []string {
	if c.Versions == nil {
		return []string{c.APIVersion}
	}
	return c.Versions
}

// reaches has the reach of the rules by kind and operation.
type reaches map[reachKey]*reach

type reachKey struct {
	apiVersion, kind string
	// versions are those that the rules name, joined; empty if that is only apiVersion.
	versions  string
	operation usher.Operation
}

// A reach is a set of namespaces, or everything including cluster-scoped objects.
type reach struct {
	everywhere bool
	namespaces map[string]bool
}

func (rs reaches) add(m *Match) {
	operations := m.Operations
	if len(operations) == 0 {
		operations = usher.Operations()
	}
	versions := m.versions()
	for _, operation := range operations {
		if len(m.Selectors) == 0 && (operation != usher.Connect || len(m.Operations) > 0) {
			rs.extend(reachKey{operation: operation}, m.Namespace)
		}
		for i := range m.Selectors {
			if sel := &m.Selectors[i]; m.covers(sel) {
				key := reachKey{apiVersion: sel.APIVersion, kind: sel.Kind, operation: operation}
				if named := versions[sel.Kind]; len(named) > 1 {
					key.versions = strings.Join(named, " ")
				}
				rs.extend(key, cmp.Or(m.Namespace, sel.Namespace))
			}
		}
	}
}

// never reports whether no object can be selected.
func (sel *Selector) never() bool {
	return sel.APIVersion == "" || sel.Kind == "" || strings.Contains(sel.APIVersion+sel.Kind, "*") ||
		sel.Never != "" && sel.Name == ""
}

func (rs reaches) extend(key reachKey, namespace string) {
	if !slices.Contains(usher.Operations(), key.operation) {
		return
	}
	r := rs[key]
	if r == nil {
		r = &reach{namespaces: map[string]bool{}}
		rs[key] = r
	}
	if namespace == "" {
		r.everywhere = true
		return
	}
	r.namespaces[namespace] = true
}

// covered joins the operations of a kind that reach equally far.
func (rs reaches) covered() []Covered {
	var all []Covered
	for key, r := range rs {
		var namespaces []string
		if !r.everywhere {
			namespaces = slices.Sorted(maps.Keys(r.namespaces))
		}
		var versions []string
		if key.versions != "" {
			versions = strings.Split(key.versions, " ")
		}
		i := slices.IndexFunc(all, func(c Covered) bool {
			return c.APIVersion == key.apiVersion && c.Kind == key.kind && slices.Equal(c.Namespaces, namespaces) &&
				slices.Equal(c.Versions, versions)
		})
		if i < 0 {
			i = len(all)
			all = append(all, Covered{APIVersion: key.apiVersion, Kind: key.kind, Namespaces: namespaces, Versions: versions})
		}
		all[i].Operations = append(all[i].Operations, key.operation)
	}
	for i := range all {
		slices.Sort(all[i].Operations)
	}
	slices.SortFunc(all, func(a, b Covered) int {
		return cmp.Or(
			cmp.Compare(a.APIVersion, b.APIVersion),
			cmp.Compare(a.Kind, b.Kind),
			slices.Compare(a.Namespaces, b.Namespaces),
			slices.Compare(a.Versions, b.Versions),
		)
	})
	return all
}

// String is one stable line, such as "CREATE, UPDATE of v1 Pod in shop".
func (c Covered) String() string {
	s := "every operation"
	if len(c.Operations) > 0 {
		s = oneOf(c.Operations)
	}
	if c.Kind == "" {
		s += " of every object"
	} else {
		s += " of " + c.APIVersion + " " + c.Kind
	}
	if c.Versions != nil {
		s += " (any of " + strings.Join(c.Versions, ", ") + ")"
	}
	if c.Namespaces != nil {
		s += " in " + strings.Join(c.Namespaces, ", ")
	}
	return s
}
