package judge

import (
	"slices"
	"strings"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/audit/result"
	"github.com/usher-dev/usher/internal/rule"
)

// The reasons why a rule is not judged.
const (
	needsUser       = "it depends on the user who sends the request"
	needsAccess     = "it asks what the user who sends the request may do"
	needsOptions    = "it depends on the options of the request"
	needsOld        = "it compares objects with what they were before an update"
	needsHTTP       = "it asks a service over HTTP, which this audit does not do"
	onlyDeletion    = "it is for deletions"
	onlyConnection  = "it is for connections"
	onlySubresource = "it is for a subresource"
	needsMutation   = "pods are changed before by a rule that depends on the request: "
)

// someNamespace is the namespace of objects of which it is not known, because nothing depends on it.
const someNamespace = "default"

// An approach says how a rule judges objects of a kind. The zero approach is that it does not.
type approach struct {
	// create and update say that it judges them as if they were created, and updated.
	create, update bool
	// unjudged, unless empty, is why it does not judge them, although it is for them.
	unjudged string
}

func (a approach) judged() bool { return (a.create || a.update) && a.unjudged == "" }

// approach returns how a rule judges objects of a kind.
func (j *Judge) approach(r *rule.Rule, k result.Kind) approach {
	probe := probeOf(k)
	if (&rule.ResourceMatch{}).Mismatch(&probe) != "" {
		// No API server asks about these.
		return approach{}
	}
	var a approach
	probe.Operation = usher.Create
	a.create = mayMatch(&r.Match, &probe)
	always := a.create && matchesAlways(&r.Match, &probe)
	probe.Operation = usher.Update
	a.update = !always && mayMatch(&r.Match, &probe)
	switch {
	case a.create:
		a.unjudged = j.lacks(r, usher.Create)
	case a.update:
		a.unjudged = j.lacks(r, usher.Update)
	default:
		a.unjudged = only(&r.Match, &probe)
	}
	if a.create && a.update && a.unjudged == "" {
		// It is for updates of some of the objects.
		if a.unjudged = j.lacks(r, usher.Update); a.unjudged == needsOld {
			a.update, a.unjudged = false, ""
		}
	}
	return a
}

// lacks returns why a rule cannot judge objects that are created or updated; empty if it can.
func (j *Judge) lacks(r *rule.Rule, operation usher.Operation) string {
	on := r.DependsOn(operation)
	switch {
	case on.Any(rule.OnAccess):
		return needsAccess
	case on.Any(rule.OnUser):
		return needsUser
	case on.Any(rule.OnOptions):
		return needsOptions
	case on.Any(rule.OnHTTP) && !j.options.HTTP:
		return needsHTTP
	case operation == usher.Update && readsOld(r):
		return needsOld
	}
	if r.Pod != nil {
		for i := range j.mutations {
			if m := &j.mutations[i]; j.lacks(m, usher.Create) != "" {
				return needsMutation + m.Policy.String()
			}
		}
	}
	return ""
}

// readsOld reports whether a rule reads old objects.
func readsOld(r *rule.Rule) bool {
	_, old := r.ReadPaths()
	return !old.Within(&usher.Paths{})
}

// never returns why a rule judges no objects at all; empty if it judges some.
func (j *Judge) never(r *rule.Rule) string {
	written := func(operations []usher.Operation) bool {
		return len(operations) == 0 || slices.Contains(operations, usher.Create) || slices.Contains(operations, usher.Update)
	}
	created, known := written(r.Match.Operations), r.Match.Operations
	onlyUpdated := len(known) > 0 && !slices.Contains(known, usher.Create)
	for i := range r.Match.Resources {
		m := &r.Match.Resources[i]
		if len(m.Rules) == 0 {
			continue
		}
		created = created && slices.ContainsFunc(m.Rules, func(s rule.ResourceRule) bool { return written(s.Operations) })
		onlyUpdated = onlyUpdated || !slices.ContainsFunc(m.Rules, func(s rule.ResourceRule) bool {
			return len(s.Operations) == 0 || slices.Contains(s.Operations, usher.Create)
		})
		for _, s := range m.Rules {
			known = append(slices.Clip(known), s.Operations...)
		}
	}
	switch {
	case !created && slices.Contains(known, usher.Delete):
		return onlyDeletion
	case !created:
		return onlyConnection
	case onlyUpdated:
		return j.lacks(r, usher.Update)
	}
	return j.lacks(r, usher.Create)
}

// probeOf returns a request for an object of a kind whose name, and whose namespace if it has one, is
// not known.
func probeOf(k result.Kind) usher.Request {
	r := usher.Request{Kind: k.Resource.GroupVersion().WithKind(k.Kind), Resource: k.Resource}
	if k.Namespaced || isNamespace(k) {
		r.Namespace = someNamespace
	}
	return r
}

func isNamespace(k result.Kind) bool {
	return k.Resource.Group == "" && k.Resource.Resource == "namespaces"
}

// MayMatch reports whether a match may be for an operation on objects of a kind, of some name, with some labels and in
// some namespace.
func MayMatch(m *rule.Match, k result.Kind, operation usher.Operation) bool {
	probe := probeOf(k)
	probe.Operation = operation
	return (&rule.ResourceMatch{}).Mismatch(&probe) == "" && mayMatch(m, &probe)
}

// mayMatch reports whether a match may be for requests for objects of some name, with some labels and
// in some namespace.
func mayMatch(m *rule.Match, probe *usher.Request) bool {
	return fits(m, probe) && allMatch(m.Resources, probe, loosely)
}

// matchesAlways is mayMatch for objects of every name.
func matchesAlways(m *rule.Match, probe *usher.Request) bool {
	return fits(m, probe) && allMatch(m.Resources, probe, strictly)
}

func fits(m *rule.Match, probe *usher.Request) bool {
	apiVersion := probe.Kind.GroupVersion().String()
	if len(m.Operations) > 0 && !slices.Contains(m.Operations, probe.Operation) || m.Excluded.Has(apiVersion, probe.Kind.Kind) ||
		m.Namespace != "" && probe.Namespace == "" {
		return false
	}
	return len(m.Resources) > 0 || len(m.Selectors) == 0 || slices.ContainsFunc(m.Selectors, func(s rule.Selector) bool {
		return s.APIVersion == apiVersion && s.Kind == probe.Kind.Kind && s.Never == ""
	})
}

func allMatch(all []rule.ResourceMatch, probe *usher.Request, without func(rule.ResourceMatch) rule.ResourceMatch) bool {
	return !slices.ContainsFunc(all, func(m rule.ResourceMatch) bool {
		changed := without(m)
		return len(m.Rules) > 0 && len(changed.Rules) == 0 || !changed.Matches(probe)
	})
}

// loosely returns a match that is for objects of any name if m is for objects of some.
func loosely(m rule.ResourceMatch) rule.ResourceMatch {
	return rule.ResourceMatch{Rules: ofAnyName(m.Rules), Excluded: ofEveryName(m.Excluded), Exact: m.Exact}
}

// strictly returns a match that is for objects of any name only if m is for objects of every name.
func strictly(m rule.ResourceMatch) rule.ResourceMatch {
	return rule.ResourceMatch{Rules: ofEveryName(m.Rules), Excluded: ofAnyName(m.Excluded), Exact: m.Exact}
}

func ofAnyName(rules []rule.ResourceRule) []rule.ResourceRule {
	all := slices.Clone(rules)
	for i := range all {
		all[i].Names = nil
	}
	return all
}

func ofEveryName(rules []rule.ResourceRule) []rule.ResourceRule {
	return slices.DeleteFunc(slices.Clone(rules), func(r rule.ResourceRule) bool { return len(r.Names) > 0 })
}

// only returns why a match that is neither for creations nor for updates of objects of a kind is
// nevertheless for these objects; empty if it is not.
func only(m *rule.Match, probe *usher.Request) string {
	r := *probe
	for _, operation := range []struct {
		name   usher.Operation
		reason string
	}{{usher.Delete, onlyDeletion}, {usher.Connect, onlyConnection}} {
		if r.Operation = operation.name; mayMatch(m, &r) {
			return operation.reason
		}
	}
	of := ofObjects(m)
	for _, r.Operation = range usher.Operations() {
		switch {
		case !mayMatch(&of, &r):
		case r.Operation == usher.Connect:
			return onlyConnection
		default:
			return onlySubresource
		}
	}
	return ""
}

// ofObjects returns a match for objects whatever of them a rule is for: a subresource, or the object.
func ofObjects(m *rule.Match) rule.Match {
	of := *m
	of.Resources = slices.Clone(m.Resources)
	for i := range of.Resources {
		rules := slices.Clone(of.Resources[i].Rules)
		for k := range rules {
			rules[k].Resources = slices.Clone(rules[k].Resources)
			for n, pattern := range rules[k].Resources {
				rules[k].Resources[n], _, _ = strings.Cut(pattern, "/")
			}
		}
		of.Resources[i].Rules = rules
	}
	return of
}

// ofAnyOperation is ofObjects for all operations.
func ofAnyOperation(m *rule.Match) rule.Match {
	of := ofObjects(m)
	of.Operations = nil
	for i := range of.Resources {
		for k := range of.Resources[i].Rules {
			of.Resources[i].Rules[k].Operations = nil
		}
	}
	return of
}
