package template

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	"github.com/usher-dev/usher/internal/rule"
)

const (
	required  = "requiredDuringSchedulingIgnoredDuringExecution"
	preferred = "preferredDuringSchedulingIgnoredDuringExecution"
	nodeTerms = "nodeSelectorTerms"
)

// A branch is one of the kinds of affinity.
type branch struct {
	name  string
	parts []part
}

// A part is the required or the preferred part of a branch.
type part struct {
	name  string
	value any
	terms []any
	// list is the key of the terms in value, "" if value is the list itself.
	list string
}

// affinity plans changes of the pod's affinity. Branches and parts that the template does
// not fill stay as they are.
func (p *plan) affinity(t *v1alpha1.OverrideRuleTemplate) []rule.Problem {
	branches, err := branchesOf(t.Affinity)
	if err != nil {
		return []rule.Problem{wrong("affinity", err.Error(), "write it as the affinity of a pod")}
	}
	if len(branches) == 0 {
		return []rule.Problem{odd("affinity", "no term is listed: the template does nothing", "list required or preferred terms")}
	}
	p.inPod = true
	whole := inPod("affinity")
	if t.Operation != v1alpha1.OperatorRemove {
		p.steps = append(p.steps, &edit{when: []guard{isNot(whole, aMap)}, op: "add", at: whole, value: constant{treeOf(branches)}})
	}
	for _, b := range branches {
		at := whole.at(b.name)
		if t.Operation != v1alpha1.OperatorRemove {
			p.steps = append(p.steps, &edit{
				when: []guard{is(whole, aMap), isNot(at, aMap)}, op: "add", at: at, value: constant{b.tree()},
			})
		}
		for _, part := range b.parts {
			p.details = append(p.details, fmt.Sprintf("%s.%s (%d)", b.name, part.name, len(part.terms)))
			p.affinityPart(t.Operation, at, part)
		}
	}
	return nil
}

func (p *plan) affinityPart(operation v1alpha1.OverriderOperator, branch spot, part part) {
	at := branch.at(part.name)
	set := &edit{when: []guard{is(branch, aMap)}, op: "add", at: at, value: constant{part.value}}
	switch operation {
	case v1alpha1.OperatorRemove:
		p.steps = append(p.steps, &edit{when: []guard{is(at, anything)}, op: "remove", at: at})
	case v1alpha1.OperatorReplace:
		p.steps = append(p.steps, set)
	case v1alpha1.OperatorAdd:
		terms := at
		if part.list != "" {
			terms = at.at(part.list)
		}
		set.when = append(set.when, isNot(terms, aFilledList))
		p.steps = append(p.steps, set)
		p.insertFirst(terms, part.terms)
	}
}

// insertFirst plans the insertion of items in front of a list that is not empty. Each goes
// to the very front, so that they end up in reverse order, as kinitiras has it.
func (p *plan) insertFirst(at spot, items []any) {
	for _, item := range items {
		p.steps = append(p.steps, &edit{when: []guard{is(at, aFilledList)}, op: "add", at: at.at(0), value: constant{item}})
	}
}

// branchesOf returns the branches of a that have terms.
func branchesOf(a *corev1.Affinity) ([]branch, error) {
	if a == nil {
		return nil, nil
	}
	tree, err := toTree(a)
	if err != nil {
		return nil, err
	}
	var branches []branch
	for _, name := range []string{"nodeAffinity", "podAffinity", "podAntiAffinity"} {
		b := branch{name: name}
		for _, key := range []string{required, preferred} {
			pt := part{name: key}
			pt.value, _ = follow(tree, []any{name, key})
			if _, isMap := pt.value.(map[string]any); isMap {
				pt.list = nodeTerms
				list, _ := follow(pt.value, []any{nodeTerms})
				pt.terms, _ = list.([]any)
			} else {
				pt.terms, _ = pt.value.([]any)
			}
			if len(pt.terms) > 0 {
				b.parts = append(b.parts, pt)
			}
		}
		if len(b.parts) > 0 {
			branches = append(branches, b)
		}
	}
	return branches, nil
}

func (b *branch) tree() map[string]any {
	tree := make(map[string]any, len(b.parts))
	for _, part := range b.parts {
		tree[part.name] = part.value
	}
	return tree
}

func treeOf(branches []branch) map[string]any {
	tree := make(map[string]any, len(branches))
	for _, b := range branches {
		tree[b.name] = b.tree()
	}
	return tree
}

// toTree returns a Kubernetes object as a JSON tree.
func toTree(object any) (map[string]any, error) {
	raw, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	var tree map[string]any
	if err := json.Unmarshal(raw, &tree); err != nil {
		return nil, fmt.Errorf("decode: %w", err)
	}
	return tree, nil
}
