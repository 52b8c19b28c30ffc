package kyverno

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/internal/convert/kyverno/syntax"
)

// A selection says for which requests a piece is.
type selection struct {
	rules, excluded []admissionv1.NamedRuleWithOperations
	namespaces      *metav1.LabelSelector
	conditions      []admissionv1.MatchCondition
	// subjects and excludeSubjects are users.
	subjects, excludeSubjects []v1alpha1.Subject
	// applies is what match conditions cannot say.
	applies term
	// before holds if the rule is for the object as it was before an update, if it is for it afterwards.
	before term
	// users says that the rule is for some users, and so for no object that existed before.
	users bool
	// shape is that of the objects.
	shape shape
	// pods says that all objects are pods.
	pods bool
	// data are the bindings of roles that conditions read.
	data []v1alpha1.DataSource
}

// systemNamespaces, systemKinds and nodes are what Kyverno is not asked about unless it is configured so.
var (
	systemNamespaces = []string{"kube-node-lease", "kube-public", "kube-system"}
	systemKinds      = []string{"Event", "Node", "APIService", "TokenReview", "SubjectAccessReview", "SelfSubjectAccessReview", "Binding", "ReplicaSet"}
	nodes            = "system:nodes"
)

// match returns for which requests a rule is. operations are those that it is for if it does not say so.
func (c *conversion) match(r *syntax.Rule, operations ...admissionv1.OperationType) (*selection, error) {
	m := &r.Match
	blocks := m.Any
	if len(blocks) == 0 && len(m.All) > 0 {
		one, err := merged(m.All)
		if err != nil {
			return nil, err
		}
		blocks = []syntax.Block{one}
	}
	if len(blocks) == 0 {
		blocks = []syntax.Block{m.Block}
	}
	s := &selection{applies: yes, before: yes, shape: shape{kinds: c.Kinds}, excludeSubjects: []v1alpha1.Subject{{Groups: []string{nodes}}}}
	targets, err := c.targets(blocks)
	if err != nil {
		return nil, err
	}
	s.resources(blocks, targets, operations)
	for n := range targets {
		for _, t := range targets[n] {
			if slices.Contains(systemKinds, t.kind) && len(asked(targets[n])) == len(targets[n]) {
				c.note(blocks[n].Field+".resources.kinds", "Kyverno is not asked about the kind "+t.kind+" unless resourceFilters of its configuration say so; the policy is", "")
			}
		}
	}
	if len(s.rules) == 0 {
		return nil, refuse(m.Field, "it is for no request: Kyverno is not asked about these kinds, or not about these operations", "leave it out")
	}
	if err := namesRoles(c, blocks); err != nil {
		return nil, err
	}
	if err := s.matching(blocks, targets); err != nil {
		return nil, err
	}
	if err := c.excluding(s, r.Exclude); err != nil {
		return nil, err
	}
	if c.p.Kind == "ClusterPolicy" {
		s.namespaces = requiring(s.namespaces, metav1.LabelSelectorOpNotIn, systemNamespaces)
	}
	return s, nil
}

// merged returns blocks of a match that all have to hold as one, if they say different things.
func merged(blocks []syntax.Block) (syntax.Block, error) {
	one := blocks[0]
	into := reflect.ValueOf(&one.Resources).Elem()
	for n := range blocks[1:] {
		b := &blocks[n+1]
		from := reflect.ValueOf(&b.Resources).Elem()
		for i := range into.NumField() {
			if from.Field(i).IsZero() {
				continue
			}
			if !into.Field(i).IsZero() && !reflect.DeepEqual(into.Field(i).Interface(), from.Field(i).Interface()) {
				return one, refuse(b.Field, "several blocks of all say the same with other values", "write one block")
			}
			into.Field(i).Set(from.Field(i))
		}
		if len(b.Subjects)+len(b.Roles)+len(b.ClusterRoles) > 0 {
			if len(one.Subjects)+len(one.Roles)+len(one.ClusterRoles) > 0 {
				return one, refuse(b.Field, "several blocks of all name users", "write one block")
			}
			one.Subjects, one.Roles, one.ClusterRoles = b.Subjects, b.Roles, b.ClusterRoles
		}
	}
	return one, nil
}

// matching adds what the blocks of a match say besides kinds and operations.
func (s *selection) matching(blocks []syntax.Block, targets [][]target) error {
	rest := alike(blocks)
	if rest == nil {
		return s.condition("match", blocks, targets, false)
	}
	b := *rest
	b.Resources.Operations = nil
	if selector, ok := byName(&b.Resources, targets); ok {
		s.namespaces = selector
		b.Resources.Namespaces = nil
	}
	if selector := b.Resources.NamespaceSelector; selector != nil && namespaced(targets) && !wildSelector(selector) {
		s.namespaces = withSelector(s.namespaces, selector)
		b.Resources.NamespaceSelector = nil
	}
	if subjects, ok := subjectsOf(b.Subjects); ok && len(b.Roles)+len(b.ClusterRoles) == 0 {
		s.subjects, s.users = subjects, len(subjects) > 0
		b.Subjects = nil
	}
	var of [][]target
	if every := slices.Concat(targets...); slices.ContainsFunc(every, func(t target) bool { return len(t.served) == 0 && (t.kind != "*" || t.group != "*") }) {
		of = [][]target{every}
	}
	return s.condition("match", []syntax.Block{b}, of, false)
}

// excluding adds what a rule is not for.
func (c *conversion) excluding(s *selection, m *syntax.Match) error {
	if m == nil {
		return nil
	}
	blocks, every := m.Any, false
	if len(blocks) == 0 {
		blocks, every = m.All, true
	}
	if len(blocks) == 0 {
		blocks, every = []syntax.Block{m.Block}, false
	}
	blocks = slices.Clone(blocks)
	targets, err := c.targets(blocks)
	if err != nil {
		return err
	}
	if every && len(blocks) > 1 {
		one, err := merged(blocks)
		if err != nil {
			return err
		}
		blocks = []syntax.Block{one}
		if targets, err = c.targets(blocks); err != nil {
			return err
		}
	}
	var rest []syntax.Block
	var restTargets [][]target
	for n := range blocks {
		b := &blocks[n]
		if empty(b) {
			continue
		}
		users := syntax.Block{Field: b.Field, Subjects: b.Subjects}
		spaces := syntax.Block{Field: b.Field, Resources: syntax.Resources{Kinds: b.Resources.Kinds, Namespaces: b.Resources.Namespaces}}
		everything := len(b.Resources.Kinds) == 0 || covers(targets[n], s.rules)
		if subjects, ok := subjectsOf(b.Subjects); ok && len(subjects) > 0 && reflect.DeepEqual(*b, users) {
			s.excludeSubjects = append(s.excludeSubjects, subjects...)
			continue
		}
		if everything && reflect.DeepEqual(*b, spaces) && len(b.Resources.Namespaces) > 0 && !wild(b.Resources.Namespaces) {
			s.namespaces = requiring(s.namespaces, metav1.LabelSelectorOpNotIn, b.Resources.Namespaces)
			continue
		}
		if everything {
			b.Resources.Kinds, targets[n] = nil, nil
		}
		rest, restTargets = append(rest, *b), append(restTargets, targets[n])
	}
	return excluded(c, s, rest, restTargets)
}

func empty(b *syntax.Block) bool {
	return reflect.DeepEqual(*b, syntax.Block{Field: b.Field})
}

func wild(names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return strings.ContainsAny(name, "*?") })
}

// alike returns what all blocks say besides kinds; nil if they differ.
func alike(blocks []syntax.Block) *syntax.Block {
	var first *syntax.Block
	for _, b := range blocks {
		b.Resources.Kinds, b.Field = nil, blocks[0].Field
		if first == nil {
			first = &b
		} else if !reflect.DeepEqual(*first, b) {
			return nil
		}
	}
	return first
}

// byName returns a selector for namespaces that are named, if it means the same for objects of the cluster.
func byName(r *syntax.Resources, targets [][]target) (*metav1.LabelSelector, bool) {
	if len(r.Namespaces) == 0 || wild(r.Namespaces) || !namespaced(targets) {
		return nil, false
	}
	return requiring(nil, metav1.LabelSelectorOpIn, r.Namespaces), true
}

// requiring returns a selector of namespaces that also requires a name to be in a list, or not to be.
func requiring(s *metav1.LabelSelector, op metav1.LabelSelectorOperator, names []string) *metav1.LabelSelector {
	if s == nil {
		s = &metav1.LabelSelector{}
	}
	s = s.DeepCopy()
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	for i := range s.MatchExpressions {
		if e := &s.MatchExpressions[i]; e.Key == nameLabel && e.Operator == op && op == metav1.LabelSelectorOpNotIn {
			e.Values = slices.Compact(slices.Sorted(slices.Values(slices.Concat(e.Values, names))))
			return s
		}
	}
	s.MatchExpressions = append(s.MatchExpressions, metav1.LabelSelectorRequirement{Key: nameLabel, Operator: op, Values: names})
	return s
}

// withSelector returns a selector that requires what two do.
func withSelector(a, b *metav1.LabelSelector) *metav1.LabelSelector {
	if a == nil {
		return b.DeepCopy()
	}
	a = a.DeepCopy()
	for _, key := range slices.Sorted(maps.Keys(b.MatchLabels)) {
		a.MatchExpressions = append(a.MatchExpressions, metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpIn, Values: []string{b.MatchLabels[key]}})
	}
	a.MatchExpressions = append(a.MatchExpressions, b.MatchExpressions...)
	return a
}

func wildSelector(s *metav1.LabelSelector) bool {
	for key, value := range s.MatchLabels {
		if strings.ContainsAny(key+value, "*?") {
			return true
		}
	}
	return false
}

// subjectsOf returns users as subjects of a policy, if these can say so.
func subjectsOf(all []syntax.Subject) ([]v1alpha1.Subject, bool) {
	var s v1alpha1.Subject
	for i := range all {
		of := &all[i]
		if strings.Contains(of.Name+of.Namespace, "?") || strings.Count(of.Name, "*") > 1 || strings.Count(of.Namespace, "*") > 1 {
			return nil, false
		}
		switch of.Kind {
		case "User":
			s.Users = append(s.Users, of.Name)
		case "Group":
			s.Groups = append(s.Groups, of.Name)
		case "ServiceAccount":
			s.ServiceAccounts = append(s.ServiceAccounts, of.Namespace+"/"+of.Name)
		}
	}
	if reflect.DeepEqual(s, v1alpha1.Subject{}) {
		return nil, len(all) == 0
	}
	return []v1alpha1.Subject{s}, true
}

// metadata returns the metadata of the object of the request, which is the old one if it is deleted, and which has
// none if it is the options of a connection.
func (s *selection) metadata() string {
	has := func(o admissionv1.OperationType) bool {
		return slices.ContainsFunc(s.rules, func(r admissionv1.NamedRuleWithOperations) bool { return slices.Contains(r.Operations, o) })
	}
	object := "object"
	switch {
	case has(admissionv1.Delete) && (has(admissionv1.Create) || has(admissionv1.Update)):
		object = "(object == null ? oldObject : object)"
	case has(admissionv1.Delete):
		object = "oldObject"
	}
	if has(admissionv1.Connect) {
		return object + ".?metadata"
	}
	return object + ".metadata"
}

// condition adds a match condition that one of some blocks holds, or none.
func (s *selection) condition(name string, blocks []syntax.Block, targets [][]target, excluding bool) error {
	now, before := []term{}, []term{}
	for n := range blocks {
		var of []target
		if targets != nil {
			of = targets[n]
		}
		t, users, err := s.block(&blocks[n], of, s.metadata(), false)
		if err != nil {
			return err
		}
		old, _, err := s.block(&blocks[n], of, "oldObject.metadata", true)
		if err != nil {
			return err
		}
		if users && excluding {
			// Nobody is the user who wrote the object before.
			old = no
		}
		s.users = s.users || users && !excluding
		now, before = append(now, t), append(before, old)
	}
	if len(now) == 0 {
		return nil
	}
	holds, held := some(now...), some(before...)
	if excluding {
		holds, held = not(holds), not(held)
	}
	if holds == yes {
		return nil
	}
	if holds != held {
		s.before = all(s.before, held)
	}
	if strings.Contains(holds.text, "namespaceObject") {
		// Match conditions do not see it.
		s.applies = all(s.applies, holds)
		return nil
	}
	s.conditions = append(s.conditions, matchCondition(name, holds.text))
	return nil
}

func matchCondition(name, text string) admissionv1.MatchCondition {
	return admissionv1.MatchCondition{Name: name, Expression: text}
}
