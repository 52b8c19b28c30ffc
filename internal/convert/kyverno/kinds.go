package kyverno

import (
	"reflect"
	"regexp"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/usher-dev/usher/internal/convert"
	"github.com/usher-dev/usher/internal/convert/kyverno/syntax"
	"github.com/usher-dev/usher/internal/kind"
)

// A target is a kind that a block is for, or a subresource of one.
type target struct {
	group, version, kind, subresource string
	// served are the resources of the kind; empty if it is not known.
	served []*kind.Resource
}

var versioned = regexp.MustCompile(`^(v\d+((alpha|beta)\d+)?|\*)$`)

// targetOf parses [group/][version/]kind[/subresource].
func targetOf(text string) target {
	before, last := "", text
	if at := strings.LastIndexByte(text, '/') + 1; at > 0 {
		before, last = text[:at], text[at:]
	}
	// A subresource may also be written after a dot.
	parts := strings.Split(before+strings.ReplaceAll(last, ".", "/"), "/")
	switch {
	case len(parts) == 1:
		return target{"*", "*", parts[0], "", nil}
	case len(parts) == 2 && parts[0] == "*" && parts[1] == "*":
		return target{"*", "*", "*", "*", nil}
	case len(parts) == 2 && parts[0] == "*" && strings.ToLower(parts[1]) == parts[1]:
		return target{"*", "*", "*", parts[1], nil}
	case len(parts) == 2 && versioned.MatchString(parts[0]):
		return target{"*", parts[0], parts[1], "", nil}
	case len(parts) == 2:
		return target{"*", "*", parts[0], parts[1], nil}
	case len(parts) == 3 && versioned.MatchString(parts[0]):
		return target{"*", parts[0], parts[1], parts[2], nil}
	case len(parts) == 3:
		return target{parts[0], parts[1], parts[2], "", nil}
	case len(parts) == 4:
		return target{parts[0], parts[1], parts[2], parts[3], nil}
	}
	return target{}
}

// targets returns the kinds of each block. A block without kinds is for all.
func (c *conversion) targets(blocks []syntax.Block) ([][]target, error) {
	all := make([][]target, len(blocks))
	for n := range blocks {
		field := blocks[n].Field + ".resources.kinds"
		for _, text := range blocks[n].Resources.Kinds {
			t := targetOf(text)
			switch {
			case t.kind == "":
				return nil, refuse(field, "it has no kind: "+text, "correct it")
			case t.kind != "*" && strings.ContainsAny(t.kind, "*?") || strings.ContainsAny(strings.Trim(t.group, "*"), "*?") || t.subresource != "*" && strings.ContainsAny(t.subresource, "*?"):
				return nil, refuse(field, text+" has wildcards", "name the kinds")
			}
			c.Kinds.Resources()(func(r *kind.Resource) bool {
				if t.fits(r) {
					t.served = append(t.served, r)
				}
				return true
			})
			if len(t.served) == 0 && t.kind != "*" {
				if t.subresource != "" && t.subresource != "status" {
					return nil, refuse(field, "no kind "+text+" is known, and its subresource may be one of another kind", "name the file with its CustomResourceDefinition, too")
				}
				c.note(field, "no kind "+text+" is known: the policy finds it by its name among all requests, and trusts that values have the types that it reads", "name the file with its CustomResourceDefinition, too")
			}
			all[n] = append(all[n], t)
		}
	}
	return all, nil
}

// fits reports whether a resource is of a target. Pods are with their ephemeral containers.
func (t *target) fits(r *kind.Resource) bool {
	name, subresource, _ := strings.Cut(r.Name, "/")
	if t.subresource == "*" || subresource != t.subresource && (t.kind != "Pod" || r.Name != "pods/ephemeralcontainers" || t.subresource != "") {
		return false
	}
	if subresource != "" && t.subresource != "" {
		// Its objects may be of another kind: that of the resource counts, which has this name.
		return plural(t.kind) == name
	}
	return r.Kind == t.kind && (t.group == "*" || r.Under() == t.group) && (t.version == "*" || r.Version == t.version)
}

// plural returns the name of the resource of a kind that has subresources.
func plural(kind string) string { return strings.ToLower(kind) + "s" }

// resources sets the rules of a selection: for each block its operations and kinds.
func (s *selection) resources(blocks []syntax.Block, targets [][]target, operations []admissionv1.OperationType) {
	for n := range blocks {
		of := operations
		if names := blocks[n].Resources.Operations; len(names) > 0 {
			of = nil
			for _, name := range names {
				if op := admissionv1.OperationType(name); slices.Contains(operations, op) || op == admissionv1.Connect {
					of = append(of, op)
				}
			}
		}
		if len(of) == 0 {
			continue
		}
		all := asked(targets[n])
		if len(all) == 0 {
			all = []target{{group: "*", version: "*", kind: "*"}}
		}
		for i := range all {
			s.target(&all[i], of)
		}
	}
	s.shape = s.shapeOf(targets)
	s.pods = len(s.rules) > 0
	for _, r := range s.rules {
		s.pods = s.pods && slices.Equal(r.APIGroups, []string{""}) && !slices.ContainsFunc(r.Resources, func(name string) bool { return name != "pods" && name != "pods/ephemeralcontainers" })
	}
}

// asked returns the targets about which Kyverno is asked. One that is for no others has to be configured so.
func asked(all []target) []target {
	others := slices.DeleteFunc(slices.Clone(all), func(t target) bool { return slices.Contains(systemKinds, t.kind) })
	if len(others) == 0 {
		return all
	}
	return others
}

// target adds a rule for a target.
func (s *selection) target(t *target, operations []admissionv1.OperationType) {
	if t.subresource == "" {
		// Only subresources are connected to.
		operations = slices.DeleteFunc(slices.Clone(operations), func(o admissionv1.OperationType) bool { return o == admissionv1.Connect })
		if len(operations) == 0 {
			return
		}
	}
	add := func(group, version string, resources ...string) {
		r := admissionv1.NamedRuleWithOperations{}
		r.Operations, r.APIGroups, r.APIVersions, r.Resources = operations, []string{group}, []string{version}, resources
		if slices.ContainsFunc(s.rules, func(o admissionv1.NamedRuleWithOperations) bool { return reflect.DeepEqual(o, r) }) {
			return
		}
		at := slices.IndexFunc(s.rules, func(o admissionv1.NamedRuleWithOperations) bool {
			return !slices.Contains(slices.Concat(resources, o.Resources), "*") && slices.Equal(o.APIGroups, r.APIGroups) && slices.Equal(o.APIVersions, r.APIVersions) && slices.Equal(o.Operations, r.Operations)
		})
		if at < 0 {
			s.rules = append(s.rules, r)
			return
		}
		for _, name := range resources {
			if !slices.Contains(s.rules[at].Resources, name) {
				s.rules[at].Resources = append(s.rules[at].Resources, name)
			}
		}
	}
	switch {
	case t.kind == "*":
		resource := "*"
		if t.subresource != "" {
			resource = "*/" + t.subresource
		}
		add(t.group, t.version, resource)
		if t.group != "*" {
			return
		}
		exclude := admissionv1.NamedRuleWithOperations{}
		exclude.Operations, exclude.APIGroups, exclude.APIVersions = operations, []string{"", "apps", "events.k8s.io", "apiregistration.k8s.io", "authentication.k8s.io", "authorization.k8s.io"}, []string{"*"}
		exclude.Resources = []string{"events", "nodes", "bindings", "replicasets", "apiservices", "tokenreviews", "subjectaccessreviews", "selfsubjectaccessreviews"}
		s.excluded = []admissionv1.NamedRuleWithOperations{exclude}
	case len(t.served) == 0:
		resource := "*"
		if t.subresource != "" {
			resource = "*/" + t.subresource
		}
		add(t.group, t.version, resource)
	default:
		for _, r := range t.served {
			add(r.Under(), t.version, r.Name)
		}
	}
}

// shapeOf returns what is known of the objects.
func (s *selection) shapeOf(targets [][]target) shape {
	found := shape{kinds: s.shape.kinds}
	for _, all := range targets {
		if len(all) == 0 {
			return shape{kinds: s.shape.kinds}
		}
		for _, t := range all {
			if len(t.served) == 0 || t.subresource != "" {
				return shape{kinds: s.shape.kinds}
			}
			for _, r := range t.served {
				of := s.shape.kinds.Schema(r.Of())
				if of == nil {
					return shape{kinds: s.shape.kinds}
				}
				found.of = append(found.of, of)
			}
		}
	}
	return found
}

// namespaced reports whether all objects of targets are in namespaces, or are namespaces.
func namespaced(targets [][]target) bool {
	for _, all := range targets {
		for _, t := range all {
			if len(t.served) == 0 || slices.ContainsFunc(t.served, func(r *kind.Resource) bool { return !r.Namespaced }) {
				return false
			}
		}
		if len(all) == 0 {
			return false
		}
	}
	return true
}

// covers reports whether targets are all that rules are for.
func covers(targets []target, rules []admissionv1.NamedRuleWithOperations) bool {
	names := map[string]bool{}
	for _, t := range targets {
		if t.kind == "*" && t.group == "*" {
			return true
		}
		for _, r := range t.served {
			names[r.Under()+"/"+r.Name] = true
		}
	}
	for _, r := range rules {
		for _, group := range r.APIGroups {
			for _, name := range r.Resources {
				if !names[group+"/"+name] {
					return false
				}
			}
		}
	}
	return true
}

// kindsTerm returns a term that holds for requests about kinds. It holds for all if there are none.
func kindsTerm(targets []target) term {
	var plain []string
	var terms []term
	if len(targets) == 0 {
		return yes
	}
	for _, t := range targets {
		switch {
		case t.kind == "*" && t.group == "*":
			return yes
		case t.kind == "*":
			terms = append(terms, compare("request.kind.group", "==", convert.Quote(t.group)))
			continue
		}
		if t.subresource == "" && t.group == "*" && t.version == "*" {
			plain = append(plain, t.kind)
			continue
		}
		is := []term{compare("request.kind.kind", "==", convert.Quote(t.kind))}
		if t.group != "*" {
			is = append(is, compare("request.kind.group", "==", convert.Quote(t.group)))
		}
		if t.version != "*" {
			is = append(is, compare("request.kind.version", "==", convert.Quote(t.version)))
		}
		if t.subresource != "" {
			is = append(is, compare("request.?subResource.orValue('')", "==", convert.Quote(t.subresource)))
		}
		terms = append(terms, all(is...))
	}
	if len(plain) > 0 {
		terms = append([]term{in("request.kind.kind", plain)}, terms...)
	}
	return some(terms...)
}
