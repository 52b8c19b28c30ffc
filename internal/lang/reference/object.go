package reference

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/rule"
)

var errNoOwner = errors.New("object has no owner reference")

// loadOwner reads the first owner. It is in the namespace of the object or, if its kind is
// cluster-scoped, in none.
func loadOwner(in *rule.Input) (any, error) {
	metadata, _ := in.Object["metadata"].(map[string]any)
	owners, _ := metadata["ownerReferences"].([]any)
	if len(owners) == 0 {
		return nil, errNoOwner
	}
	owner, _ := owners[0].(map[string]any)
	ref := &fact.Object{AnyScope: true}
	if ref.Name, _ = owner["name"].(string); ref.Name == "" {
		return nil, nil
	}
	ref.APIVersion, _ = owner["apiVersion"].(string)
	ref.Kind, _ = owner["kind"].(string)
	if ref.Namespace, _ = metadata["namespace"].(string); ref.Namespace == "" && in.Request != nil {
		ref.Namespace = in.Request.Namespace
	}
	return resolve(in, ref)
}

// An objectSource is another object of the cluster, by name or by selector.
type objectSource struct {
	apiVersion, kind string
	namespace, name  pattern
	// selects is set if the object may be chosen by selector; labels are its label values
	// with placeholders, and chosen is the selector if there are none.
	selects *v1alpha1.ResourceSelector
	labels  map[string]pattern
	chosen  fact.Selector
}

func compileK8s(s *v1alpha1.ResourceSelector) (o *objectSource, name string, problems []rule.Problem) {
	if s == nil {
		return &objectSource{}, "", []rule.Problem{wrong("k8s", "the value comes from k8s, but k8s is missing",
			"say which object: apiVersion, kind, namespace and name, or a selector")}
	}
	o = &objectSource{apiVersion: s.APIVersion, kind: s.Kind}
	placeholders := func(field, text string) pattern {
		p, err := parsePattern(text)
		if err != nil {
			problems = append(problems, wrong(field, err.Error(), "write a dotted path between the braces, such as {{metadata.name}}"))
		}
		return p
	}
	if s.Kind == "" || s.APIVersion == "" {
		problems = append(problems, wrong("k8s", "apiVersion or kind is missing", "say which kind of object the value comes from"))
	}
	o.namespace = placeholders("k8s.namespace", s.Namespace)
	o.name = placeholders("k8s.name", s.Name)
	o.labels = map[string]pattern{}
	for _, value := range labelValues(s.LabelSelector) {
		if p := placeholders("k8s.labelSelector", value); !p.constant() {
			o.labels[value] = p
		}
	}
	if s.LabelSelector != nil || s.FieldSelector != nil {
		o.selects = s
		sample, more := o.choose(func(p pattern) (string, bool, error) { return p.sample(), true, nil })
		problems = append(problems, more...)
		if len(o.labels) == 0 {
			o.chosen = sample
		}
	}
	name = "k8s " + (&fact.Object{APIVersion: s.APIVersion, Kind: s.Kind, Namespace: s.Namespace, Name: s.Name}).String()
	return o, name, problems
}

func (o *objectSource) load(in *rule.Input) (any, error) {
	ref := &fact.Object{APIVersion: o.apiVersion, Kind: o.kind}
	var ok bool
	var err error
	if ref.Namespace, ok, err = o.namespace.fill(in.Object); !ok || err != nil {
		return nil, err
	}
	if ref.Name, ok, err = o.name.fill(in.Object); !ok || err != nil {
		return nil, err
	}
	if ref.Name == "" {
		if o.selects == nil {
			return nil, nil
		}
		if ref.Selector, err = o.selector(in.Object); ref.Selector == nil || err != nil {
			return nil, err
		}
	}
	return resolve(in, ref)
}

// selector returns nil if a placeholder found nothing.
func (o *objectSource) selector(object map[string]any) (fact.Selector, error) {
	if o.chosen != nil {
		return o.chosen, nil
	}
	var found error
	missing := false
	chosen, problems := o.choose(func(p pattern) (string, bool, error) {
		text, ok, err := p.fill(object)
		if err != nil && found == nil {
			found = err
		}
		missing = missing || !ok
		return text, ok, err
	})
	switch {
	case found != nil:
		return nil, found
	case missing:
		return nil, nil
	case len(problems) > 0:
		return nil, fmt.Errorf("select %s %s: %s", o.apiVersion, o.kind, problems[0].What)
	}
	return chosen, nil
}

// choose compiles the selector with every placeholder replaced by fill.
func (o *objectSource) choose(fill func(pattern) (string, bool, error)) (fact.Selector, []rule.Problem) {
	s := v1alpha1.ResourceSelector{LabelSelector: o.selects.LabelSelector, FieldSelector: o.selects.FieldSelector}
	if len(o.labels) > 0 {
		s.LabelSelector = s.LabelSelector.DeepCopy()
		replace := func(value *string) {
			if p, ok := o.labels[*value]; ok {
				*value, _, _ = fill(p)
			}
		}
		for key, value := range s.LabelSelector.MatchLabels {
			replace(&value)
			s.LabelSelector.MatchLabels[key] = value
		}
		for i := range s.LabelSelector.MatchExpressions {
			for j := range s.LabelSelector.MatchExpressions[i].Values {
				replace(&s.LabelSelector.MatchExpressions[i].Values[j])
			}
		}
	}
	compiled, problems := CompileSelector(s)
	for i := range problems {
		problems[i].Severity = rule.Error
		problems[i].Field = "k8s." + problems[i].Field
	}
	return chosen{compiled}, problems
}

func labelValues(s *metav1.LabelSelector) []string {
	if s == nil {
		return nil
	}
	var values []string
	for _, value := range s.MatchLabels {
		values = append(values, value)
	}
	for _, requirement := range s.MatchExpressions {
		values = append(values, requirement.Values...)
	}
	slices.Sort(values)
	return slices.Compact(values)
}

// chosen is a rule.Selector as a fact.Selector: labels and fields of objects of any kind.
type chosen struct {
	rule.Selector
}

func (c chosen) Matches(object map[string]any) bool {
	if !c.Fields.Matches(object) {
		return false
	}
	subject := rule.TargetOf(&usher.Request{}, object)
	return c.Labels == nil || c.Labels.Matches(subject.Labels())
}

// LabelSelector implements [fact.LabelSelector].
func (c chosen) LabelSelector() string {
	if c.Labels == nil {
		return ""
	}
	return c.Labels.String()
}

func (c chosen) String() string {
	var parts []string
	if c.Labels != nil {
		parts = append(parts, c.Labels.String())
	}
	for _, f := range c.Fields {
		parts = append(parts, fmt.Sprintf("%q %s %q", f.Path, f.Op, f.Values))
	}
	return strings.Join(parts, "; ")
}
