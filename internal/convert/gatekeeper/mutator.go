package gatekeeper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/internal/convert"
)

// Kinds of mutators.
const (
	assignKind         = "Assign"
	assignMetadataKind = "AssignMetadata"
	modifySetKind      = "ModifySet"
	assignImageKind    = "AssignImage"
)

// mutators is the API group of mutators.
const mutators = "mutations.gatekeeper.sh"

// A mutator is what a mutator of Gatekeeper says.
type mutator struct {
	ApplyTo []struct {
		Groups   []string `json:"groups"`
		Kinds    []string `json:"kinds"`
		Versions []string `json:"versions"`
		// Operations are those of the request, all if there are none.
		Operations []admissionv1.OperationType `json:"operations,omitempty"`
	} `json:"applyTo,omitempty"`
	Match      match  `json:"match,omitzero"`
	Location   string `json:"location"`
	Parameters struct {
		PathTests []pathTest `json:"pathTests,omitempty"`
		Assign    struct {
			Value        any `json:"value,omitempty"`
			FromMetadata struct {
				Field string `json:"field"`
			} `json:"fromMetadata,omitzero"`
			ExternalData map[string]any `json:"externalData,omitempty"`
		} `json:"assign,omitzero"`
		Operation string `json:"operation,omitempty"`
		Values    struct {
			FromList []any `json:"fromList"`
		} `json:"values,omitzero"`
		imageParts `json:",inline"`
	} `json:"parameters"`
}

type pathTest struct {
	SubPath   string `json:"subPath"`
	Condition string `json:"condition"`
}

// mutator converts a mutator.
func (c *conversion) mutator(ctx context.Context, f *convert.Foreign) convert.Import {
	i := convert.Import{Of: f}
	var m mutator
	spec, _ := f.Object["spec"].(map[string]any)
	if err := decode(spec, &m, true); err != nil {
		i.Leave(f, "spec", err.Error(), "correct it")
		return i
	}
	change, field, err := m.change(f.Ref().Kind)
	if err != nil {
		i.Leave(f, field, err.Error(), "write it as a mutation of a ClusterObjectPolicy")
		return i
	}
	s := &selection{}
	own := *c
	own.excluded = c.unchanged
	own.match(&i, f, m.selects(&i, f), s)
	if len(i.Left) > 0 {
		return i
	}
	for n := range s.matches.ResourceRules {
		s.matches.ResourceRules[n].APIVersions = m.versions()
	}
	if change.prune {
		i.Note(f, "spec.parameters.operation", "no empty objects are added where the list is missing", "")
	}
	p := &v1alpha1.ClusterObjectPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "ClusterObjectPolicy"},
		ObjectMeta: metav1.ObjectMeta{Name: f.Ref().Name},
	}
	p.Spec.MatchConstraints, p.Spec.MatchConditions = s.matches, s.conditions
	p.Spec.Mutations = []v1alpha1.Mutation{{PatchType: v1alpha1.PatchTypeJSONPatch, JSONPatch: &admissionv1.JSONPatch{Expression: change.expression()}}}
	i.To = []api.Object{p}
	i.Finish(ctx, c.Limits)
	return i
}

// selects returns the match with the kinds to which the mutator applies.
func (m *mutator) selects(i *convert.Import, f *convert.Foreign) *match {
	of := m.Match
	if f.Ref().Kind == assignMetadataKind {
		return &of
	}
	of.Kinds = nil
	for _, a := range m.ApplyTo {
		if len(a.Operations) > 0 {
			i.Leave(f, "spec.applyTo", "it has operations", "write it as a mutation of a ClusterObjectPolicy")
		}
		for _, group := range a.Groups {
			for _, name := range a.Kinds {
				if m.Match.has(group, name) {
					of.Kinds = append(of.Kinds, kinds{APIGroups: []string{group}, Kinds: []string{name}})
				}
			}
		}
	}
	if len(of.Kinds) == 0 {
		i.Leave(f, "spec.applyTo", "it applies to none of the kinds that match selects", "leave it out")
	}
	return &of
}

// has reports whether a match is for a kind.
func (m *match) has(group, name string) bool {
	return len(m.Kinds) == 0 || slices.ContainsFunc(m.Kinds, func(k kinds) bool {
		groups, names := wild(k.APIGroups), wild(k.Kinds)
		return (groups == nil || slices.Contains(groups, group)) && (names == nil || slices.Contains(names, name))
	})
}

// versions returns the versions of the kinds.
func (m *mutator) versions() []string {
	var all []string
	for _, a := range m.ApplyTo {
		all = append(all, a.Versions...)
	}
	if len(all) == 0 {
		return []string{"*"}
	}
	return slices.Compact(slices.Sorted(slices.Values(all)))
}

// change returns what the mutator does, or an error about a field.
func (m *mutator) change(kind string) (c *change, field string, err error) {
	c = &change{exist: map[int]bool{}, absent: map[int]bool{}}
	if c.steps, err = parseLocation(m.Location); err != nil {
		return nil, "spec.location", err
	}
	last := len(c.steps) - 1
	if c.steps[last].isList() {
		return nil, "spec.location", errors.New("it replaces elements of a list")
	}
	if kind != assignMetadataKind && c.steps[0].field == "metadata" {
		return nil, "spec.location", errors.New("it changes the metadata, which Gatekeeper refuses")
	}
	for n, t := range m.Parameters.PathTests {
		field := fmt.Sprintf("spec.parameters.pathTests[%d]", n)
		steps, err := parseLocation(t.SubPath)
		switch {
		case err != nil:
			return nil, field, err
		case len(steps) > len(c.steps) || !slices.Equal(steps, c.steps[:len(steps)]):
			return nil, field, fmt.Errorf("%s is no part of %s", t.SubPath, m.Location)
		case t.Condition == "MustExist":
			c.exist[len(steps)-1] = true
		case t.Condition == "MustNotExist":
			c.absent[len(steps)-1] = true
		default:
			return nil, field, fmt.Errorf("there is no condition %q", t.Condition)
		}
	}
	if field, err := m.values(kind, c); err != nil {
		return nil, field, err
	}
	if kind == assignMetadataKind {
		if last != 2 || c.steps[0].field != "metadata" || c.steps[1].field != "labels" && c.steps[1].field != "annotations" {
			return nil, "spec.location", errors.New("it is no label and no annotation")
		}
		c.absent[last] = true
	}
	return c, "", nil
}

// values sets the values of a change.
func (m *mutator) values(kind string, c *change) (field string, err error) {
	p := &m.Parameters
	if kind == modifySetKind {
		if p.Operation != "" && p.Operation != "merge" && p.Operation != "prune" {
			return "spec.parameters.operation", fmt.Errorf("there is no operation %q", p.Operation)
		}
		var once []any
		for _, v := range p.Values.FromList {
			if !slices.ContainsFunc(once, func(o any) bool { return same(o, v) }) {
				once = append(once, v)
			}
		}
		c.values, c.prune = literal(once), p.Operation == "prune"
		return "", nil
	}
	if kind == assignImageKind {
		return p.imageParts.change(c)
	}
	switch from := p.Assign.FromMetadata.Field; {
	case len(p.Assign.ExternalData) > 0:
		return "spec.parameters.assign.externalData", errors.New("the value comes from a provider of data")
	case from == "name" || from == "namespace":
		c.value = "object.metadata.?" + from + ".orValue('')"
		if from == "namespace" {
			c.value = "object.metadata[?'namespace'].orValue('')"
		}
	case from != "":
		return "spec.parameters.assign.fromMetadata", fmt.Errorf("there is no field %q", strings.TrimSpace(from))
	default:
		c.value = literal(p.Assign.Value)
	}
	return "", nil
}
