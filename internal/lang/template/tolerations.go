package template

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	"github.com/usher-dev/usher/internal/lang/reference"
	"github.com/usher-dev/usher/internal/rule"
)

// tolerations plans changes of the pod's tolerations. Replace and remove act on the
// entries that match one of the template: the same key and, unless the operator is Exists,
// the same value.
func (p *plan) tolerations(t *v1alpha1.OverrideRuleTemplate) []rule.Problem {
	at := inPod("tolerations")
	var given []toleration
	var trees []any
	var found []rule.Problem
	for _, entry := range t.Tolerations {
		if entry == nil {
			continue
		}
		tree, err := toTree(entry)
		if err != nil {
			return []rule.Problem{wrong("tolerations", err.Error(), "write them as the tolerations of a pod")}
		}
		given = append(given, toleration{tree: tree, key: entry.Key, value: entry.Value, exists: entry.Operator == corev1.TolerationOpExists})
		trees = append(trees, tree)
		p.details = append(p.details, given[len(given)-1].String())
	}
	if i := slices.IndexFunc(given, func(entry toleration) bool { return entry.exists && entry.value != "" }); i >= 0 && t.Operation != v1alpha1.OperatorRemove {
		found = append(found, odd("tolerations", fmt.Sprintf("the toleration of %s has operator Exists and a value: API servers refuse the object", given[i].key),
			"leave out the value, or use operator Equal"))
	}
	if len(given) == 0 {
		return []rule.Problem{odd("tolerations", "no toleration is listed: the template does nothing", "list tolerations")}
	}
	p.inPod = true
	if t.Operation != v1alpha1.OperatorRemove {
		p.steps = append(p.steps, &edit{when: []guard{isNot(at, aFilledList)}, op: "add", at: at, value: constant{trees}})
	}
	switch t.Operation {
	case v1alpha1.OperatorAdd:
		p.insertFirst(at, trees)
		return found
	case v1alpha1.OperatorReplace:
		for _, entry := range given {
			p.steps = append(p.steps, &replaceTolerations{at: at, with: entry})
		}
	case v1alpha1.OperatorRemove:
		p.steps = append(p.steps, &removeTolerations{at: at, like: given})
		p.imports = append(p.imports, "list")
	}
	p.declares = append(p.declares, func() []field { return tolerationEntries(at) })
	return found
}

// A toleration is an entry of a template.
type toleration struct {
	tree       map[string]any
	key, value string
	exists     bool
}

func (t *toleration) String() string {
	if t.exists {
		return strings.TrimSpace(t.key + " Exists")
	}
	return t.key + "=" + t.value
}

// matches reports whether an entry of the object is one that t is about.
func (t *toleration) matches(entry any) bool {
	if key, _ := stringAt(entry, "key"); key != t.key {
		return false
	}
	if t.exists {
		return true
	}
	value, ok := stringAt(entry, "value")
	if !ok {
		// An entry that tolerates every value has none to compare.
		if operator, _ := stringAt(entry, "operator"); operator == string(corev1.TolerationOpExists) {
			return false
		}
	}
	return value == t.value
}

func stringAt(v any, key string) (string, bool) {
	v, _ = follow(v, []any{key})
	s, ok := v.(string)
	return s, ok
}

// cue is matches in CUE, for an expression entry of the form of tolerationEntries.
func (t *toleration) cue(entry string) string {
	expr := entry + ".key == " + reference.Quote(t.key)
	if !t.exists {
		expr += " && " + entry + ".value == " + reference.Quote(t.value)
	}
	return expr
}

// tolerationEntries declares key and value of each toleration of the object. A missing one
// is empty, and the value null where every value is tolerated.
func tolerationEntries(at spot) []field {
	filled := condition{at: at, form: aFilledList}
	keys := first(when(`(t.key & string) != _|_`, "t.key"), `""`)
	values := first(
		when(`(t.value & string) != _|_`, "t.value"),
		when(`(t.operator & "Exists") == _|_`, `""`),
		"null",
	)
	return []field{
		{"tolerations", first(when(filled.cue(), at.cue()), "[]")},
		{"entries", list(comprehension("for t in tolerations", nil, []field{{"key", keys}, {"value", values}}))},
	}
}

// replaceTolerations replaces every toleration that matches an entry by the entry.
type replaceTolerations struct {
	at   spot
	with toleration
}

func (s *replaceTolerations) run(r *run) error {
	for i, entry := range listAt(r, &s.at) {
		if s.with.matches(entry) {
			r.emit("replace", r.pod.at+s.at.path+"/"+strconv.Itoa(i), s.with.tree)
		}
	}
	return nil
}

func (s *replaceTolerations) cue() string {
	return comprehension("for i, entry in entries", []string{s.with.cue("entry")}, []field{
		{"op", `"replace"`},
		{"path", s.at.item("i")},
		{"value", literal(s.with.tree)},
	})
}

// removeTolerations removes every toleration that matches one of some, from the last to the first,
// so that the indices of the others stay valid.
type removeTolerations struct {
	at   spot
	like []toleration
}

func (s *removeTolerations) run(r *run) error {
	entries := listAt(r, &s.at)
	for i, entry := range slices.Backward(entries) {
		for j := range s.like {
			if s.like[j].matches(entry) {
				r.emit("remove", r.pod.at+s.at.path+"/"+strconv.Itoa(i), nil)
				break
			}
		}
	}
	return nil
}

func (s *removeTolerations) cue() string {
	alternatives := make([]string, len(s.like))
	for i := range s.like {
		alternatives[i] = s.like[i].cue("entries[i]")
		if !s.like[i].exists && len(s.like) > 1 {
			alternatives[i] = "(" + alternatives[i] + ")"
		}
	}
	return comprehension("for i in list.Range(len(entries)-1, -1, -1)", []string{strings.Join(alternatives, " || ")}, []field{
		{"op", `"remove"`},
		{"path", s.at.item("i")},
	})
}

func listAt(r *run, at *spot) []any {
	v, _ := at.find(r)
	items, _ := v.([]any)
	return items
}
