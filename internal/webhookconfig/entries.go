package webhookconfig

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/rule"
)

// An Entry is one webhook of a configuration.
type Entry struct {
	rule.Entry

	// Rules are what is sent, unless a condition leaves it out; all conditions have to hold.
	Rules      []admissionv1.RuleWithOperations
	Conditions []admissionv1.MatchCondition
	// FailurePolicy is what API servers do when they get no answer.
	FailurePolicy admissionv1.FailurePolicyType
	// TimeoutSeconds is how long they wait.
	TimeoutSeconds int32
	// Reinvocation says whether API servers call a mutating entry again after later webhooks have
	// changed the object; empty is as [Options.Reinvocation] says.
	Reinvocation admissionv1.ReinvocationPolicyType
}

// Webhook is the name of an entry, such as validate, in a webhook configuration. API servers
// show it to clients that are denied.
func Webhook(entry string) string { return entry + domain }

// EntryOf returns the entry that has a name in a webhook configuration.
func EntryOf(webhook string) (rule.Entry, bool) {
	name, ok := strings.CutSuffix(webhook, domain)
	at, known := rule.ParseEntry(name)
	return at, ok && known
}

func isEntry(webhook string) bool {
	_, ok := EntryOf(webhook)
	return ok
}

// Entries returns the entries that a coverage needs. API servers ask the mutating ones in
// this order. They are complete unless there is an error other than [IncompleteError].
func (e *Applier) Entries(coverage rule.Coverage) ([]Entry, error) {
	var all []Entry
	var missing IncompleteError
	for _, phase := range []usher.Phase{usher.Mutate, usher.Validate} {
		for _, part := range []rule.Part{rule.Objects, rule.Metadata} {
			at := rule.Entry{Phase: phase, Part: part}
			entries, err := e.part(at, coverage, &missing)
			if err != nil {
				return nil, err
			}
			all = append(all, entries...)
		}
		if again := coverage.Resources(rule.Entry{Phase: phase, Part: rule.Reinvoked}); phase == usher.Mutate && len(again) > 0 {
			all = append(all, e.reinvoked(again))
		}
		if existing := coverage.Resources(rule.Entry{Phase: phase, Part: rule.Existing}); len(existing) > 0 {
			all = append(all, e.existing(existing, all)...)
		}
		beside, err := e.candidates(phase, coverage.Candidates, slices.DeleteFunc(slices.Clone(all), func(n Entry) bool { return n.Phase != phase }))
		if err != nil {
			return nil, err
		}
		all = append(all, beside...)
		all = append(all, e.policies(phase), e.rights(phase))
	}
	return append(all, e.deletions()), missing.orNil()
}

// part returns the entries for a part of a phase: the one for objects in the version that
// the client used, and those for converted objects. It adds to what is missing.
func (e *Applier) part(base rule.Entry, coverage rule.Coverage, missing *IncompleteError) (entries []Entry, err error) {
	found, unknown, err := e.locate(coverage.Of(base), base.Part)
	if err != nil {
		return nil, err
	}
	own := base
	if base.Phase == usher.Mutate && base.Part == rule.Objects && len(coverage.MutateReinvoked) > 0 {
		own.Part = rule.Once
	}
	if base.Part == rule.Objects {
		found = append(found, endpointsOf(coverage.Resources(rule.Entry{Phase: base.Phase, Part: rule.Once}))...)
	}
	missing.Kinds = append(missing.Kinds, unknown...)
	kinds, dropped, err := e.contested(found)
	if err != nil {
		return nil, err
	}
	for _, versions := range dropped {
		at := base
		at.Versions = versions
		missing.Dropped = append(missing.Dropped, at.String())
	}
	first := e.entry(own, found)
	if len(first.Rules) == 0 {
		return nil, nil
	}
	if len(kinds) > 0 {
		first.Conditions = append(first.Conditions, unconverted(kinds))
	}
	entries = append(entries, first)
	members := map[string][]*located{}
	for _, l := range found {
		if l.versions != "" {
			members[l.versions] = append(members[l.versions], l)
		}
	}
	for _, versions := range slices.Sorted(maps.Keys(members)) {
		at := base
		at.Versions = versions
		entry := e.entry(at, members[versions])
		entry.Conditions = append(entry.Conditions, converted)
		entries = append(entries, entry)
	}
	return entries, nil
}

// reinvoked returns the entry of rules that run again after webhooks that come later have changed the
// object. API servers call it after the others of Usher.
func (e *Applier) reinvoked(covered []rule.CoveredResource) Entry {
	entry := e.entry(rule.Entry{Phase: usher.Mutate, Part: rule.Reinvoked}, endpointsOf(covered))
	entry.Reinvocation = admissionv1.IfNeededReinvocationPolicy
	return entry
}

// existing returns the entry of rules that inspect what exists, for the requests that the entry of the
// phase, which runs these rules, too, does not get; none if it gets all. Without a response these pass:
// the rules refuse nothing.
func (e *Applier) existing(covered []rule.CoveredResource, entries []Entry) []Entry {
	found := endpointsOf(covered)
	entry := e.entry(rule.Entry{Phase: usher.Validate, Part: rule.Existing}, found)
	for i := range entries {
		switch other := &entries[i]; {
		case other.Entry != (rule.Entry{Phase: usher.Validate}):
		case len(e.own(other)) > 0:
			entry.Conditions = append(entry.Conditions, unlessSent(other.Rules, e.own(other)))
		default:
			entry.Rules = beyond(found, other.Rules)
		}
	}
	if len(entry.Rules) == 0 {
		return nil
	}
	entry.FailurePolicy = admissionv1.Ignore
	return []Entry{entry}
}

func (e *Applier) entry(at rule.Entry, found []*located) Entry {
	entry := Entry{Entry: at, Rules: ruleset(found), Conditions: e.conditions(found), FailurePolicy: e.o.FailurePolicy, TimeoutSeconds: e.o.TimeoutSeconds}
	if at.Part == rule.Metadata {
		entry.Conditions = append(entry.Conditions, changesMetadata)
		entry.FailurePolicy = admissionv1.Ignore
	}
	return entry
}

// A located is what is covered with the places where it is written.
type located struct {
	rule.Covered

	places []place
	// cluster says that the objects are in no namespace, convertible that they may be
	// served in several versions, and unknown that discovery does not tell.
	cluster, convertible, unknown bool
	// within is where the objects are.
	within reach
	// scope is that of the places, if they are those of a rule that names resources.
	scope rule.Scope
	// versions name the entry for converted objects, if there is one.
	versions string
	// unserved is how many of the named versions are known not to be served.
	unserved int
}

// named are the API versions of the kind that the same rules name.
func (l *located) named() []string {
	if l.Versions == nil {
		return []string{l.APIVersion}
	}
	return l.Versions
}

func (l *located) group() string { return l.places[0].group }

func endpointsOf(covered []rule.CoveredResource) []*located {
	all := make([]*located, len(covered))
	for i, c := range covered {
		all[i] = endpoints(c)
	}
	return all
}

// endpoints are the places of a rule that names resources. It names no kind, so that it may
// mean any.
func endpoints(r rule.CoveredResource) *located {
	operations := r.Operations
	if len(operations) == 0 {
		operations = usher.Operations()
	}
	l := &located{scope: r.Scope, within: reach{r.Namespaces, r.Tenants}}
	for _, group := range r.Groups {
		for _, version := range r.Versions {
			for _, resource := range r.Resources {
				l.places = append(l.places, place{group, version, resource, operations})
			}
		}
	}
	return l
}

// locate finds the places of all that is covered by an entry of a part. The second result
// are kinds that the cluster does not know.
func (e *Applier) locate(covered []rule.Covered, part rule.Part) (all []*located, unknown []string, err error) {
	for _, c := range covered {
		l, err := e.find(c)
		if err != nil {
			return nil, nil, err
		}
		if l.unknown {
			unknown = append(unknown, c.APIVersion+" "+c.Kind)
		}
		if part == rule.Metadata {
			l.places = beside(l)
		}
		if len(l.places) > 0 {
			all = append(all, l)
		}
	}
	return all, unknown, nil
}

// beside returns the subresources through which the metadata of objects can be changed.
func beside(l *located) []place {
	if l.Kind == "" {
		places := []place{{"*", "*", "*/status", only(usher.Update)}}
		if l.Namespaces == nil {
			places = append(places, place{"", "v1", "namespaces/finalize", only(usher.Update)})
		}
		return places
	}
	var places []place
	for _, p := range l.places {
		if !slices.Contains(p.operations, usher.Update) || p.isSubresource() {
			continue
		}
		places = append(places, place{p.group, p.version, p.resource + "/status", only(usher.Update)})
		if p.group == "" && p.resource == "namespaces" {
			places = append(places, place{p.group, p.version, p.resource + "/finalize", only(usher.Update)})
		}
	}
	slices.SortFunc(places, func(a, b place) int { return cmp.Compare(a.resource, b.resource) })
	return places
}
