package trial

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/jsonpatch"
	"github.com/usher-dev/usher/internal/kind"
	"github.com/usher-dev/usher/internal/rule"
)

// check warns of changes by a rule that an API server rejects or reverts.
func (t *run) check(object map[string]any, patch usher.Patch) {
	changed, _, err := jsonpatch.Apply(object, patch)
	if err != nil || len(t.problems) >= mostProblems {
		return
	}
	// What failed before is not what changed the object.
	t.where = ""
	for _, v := range t.set.Check(t.like, changed, object) {
		if v.What != "no field" || !t.explained.reads {
			t.problems = append(t.problems, t.violation(v))
		}
	}
	for _, name := range []string{"name", "namespace"} {
		if at := []string{"metadata", name}; !reflect.DeepEqual(valueAt(object, at), valueAt(changed, at)) {
			t.problems = append(t.problems, t.problem(
				fmt.Sprintf("the rule changes metadata.%s: API servers refuse an object whose %s is not that of the request", name, name), "remove the change"))
		}
	}
	if _, has := t.like.Properties["status"]; has && t.hasStatus() && !reflect.DeepEqual(object["status"], changed["status"]) {
		t.problems = append(t.problems, t.problem(
			fmt.Sprintf("API servers drop changes of the status of a %s, unless the request is for %s/status", t.of.Kind, t.set.Serving(t.of)[0].Name), "remove the change"))
	}
}

// mostProblems limits the problems of one rule and one kind.
const mostProblems = 20

// hasStatus reports whether the status of the kind is a subresource.
func (t *subject) hasStatus() bool {
	return slices.ContainsFunc(t.set.Serving(t.of), func(r *kind.Resource) bool { return strings.HasSuffix(r.Name, "/status") })
}

func (t *run) violation(v kind.Violation) rule.Problem {
	p := path(v.Path)
	switch {
	case v.Unknown:
		do := cmp.Or(rule.Suggestion(v.Wrong, v.Fields), "see kubectl explain")
		return t.problem(fmt.Sprintf("the rule sets %s, which no %s has: the API server drops it", p.expression(), t.of.Kind), do)
	case v.Labels:
		return t.problem("the API server refuses what the rule makes of a "+t.of.Kind+": "+v.What, "correct it")
	}
	do := cmp.Or(rule.Suggestion(v.Wrong, v.Fields), "correct the value")
	if v.Missing {
		do = "write it, or leave it as it was"
	}
	return t.problem(fmt.Sprintf("the API server refuses what the rule makes of a %s: %s is %s", t.of.Kind, p.expression(), v.What), do)
}

// valueAt returns the value at a path of maps.
func valueAt(tree map[string]any, at []string) any {
	var value any = tree
	for _, name := range at {
		object, ok := value.(map[string]any)
		if !ok {
			return nil
		}
		value = object[name]
	}
	return value
}
