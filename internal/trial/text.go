package trial

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/kind"
	"github.com/usher-dev/usher/internal/rule"
)

var (
	// placeholder matches placeholders that work only in references.
	placeholder = regexp.MustCompile(`\{\{\s*((?:object\.|oldObject\.)?(?:metadata|spec|status|data)\.[\w.\-]+)\s*\}\}`)
	// interpolation matches placeholders that work only in texts of templates.
	interpolation = regexp.MustCompile(`\\\((?:object|oldObject)\.[^()]+\)`)
)

// textProblems warns of placeholders that are not replaced where they are, and of references with a
// wrong scope.
func textProblems(set *kind.Set, c compile.Compiled) []rule.Problem {
	raw, err := json.Marshal(api.Spec(c.Policy.Object))
	if err != nil || len(c.Rules) == 0 {
		return nil
	}
	var tree any
	if json.Unmarshal(raw, &tree) != nil {
		return nil
	}
	var problems []rule.Problem
	warn := func(field, what, do string) {
		problems = append(problems, rule.Problem{Severity: rule.Warning, Field: field, What: what, Do: do})
	}
	references(tree, "spec", func(field string, k8s map[string]any) { reference(set, field, k8s, warn) })
	texts(tree, "spec", func(field, text string) { placeholders(field, text, warn) })
	return problems
}

// placeholders warns of those in a text that are not replaced there.
func placeholders(field, text string, warn func(field, what, do string)) {
	name := field[strings.LastIndex(field, ".")+1:]
	inReference := strings.Contains(field, ".k8s.") || strings.Contains(field, ".http.")
	switch {
	case name == "cue" || name == "renderedCue" || strings.HasSuffix(field, ".http.body"):
	case inReference && interpolation.MatchString(text):
		warn(field, fmt.Sprintf("%s stays as it is here", interpolation.FindString(text)), "write a placeholder, such as {{metadata.name}}")
	case inReference && strings.Contains(text, "{{") && strings.Count(text, "{{") != strings.Count(text, "}}"):
		warn(field, "a placeholder that does not end stays as it is", "end it with }}")
	case inReference && (strings.Contains(text, "{{object.") || strings.Contains(text, "{{ object.")):
		warn(field, "no object has the field object, so the placeholder finds nothing, and nothing is read", "begin with a field of the object, such as {{metadata.name}}")
	case inReference:
	case strings.Contains(field, ".plaintext") && interpolation.MatchString(text):
		warn(field, fmt.Sprintf("%s stays as it is: plaintext puts nothing in", interpolation.FindString(text)), "use template, or cue")
	case placeholder.MatchString(text):
		found := placeholder.FindStringSubmatch(text)
		do := "use template, or cue"
		if !strings.Contains(field, ".plaintext") {
			do = `write \(object.` + strings.TrimPrefix(found[1], "object.") + `)`
		}
		warn(field, fmt.Sprintf("%s stays as it is: placeholders are for references", found[0]), do)
	}
}

// reference warns of a reference that lacks a namespace, or has one for a cluster-scoped kind.
func reference(set *kind.Set, field string, k8s map[string]any, warn func(field, what, do string)) {
	of := kindOf(k8s)
	name, _ := k8s["name"].(string)
	namespace, _ := k8s["namespace"].(string)
	switch {
	case !set.Has(of):
	case set.ClusterScoped(of) && namespace != "":
		warn(field+".namespace", fmt.Sprintf("a %s is in no namespace: nothing is found, and every request that the rule is for fails", of.Kind), "remove namespace")
	case !set.ClusterScoped(of) && namespace == "" && name != "":
		warn(field+".namespace", fmt.Sprintf("a %s is in a namespace, and none is named: nothing is found, and every request that the rule is for fails", of.Kind),
			`name it, or write "{{metadata.namespace}}" for that of the object`)
	}
}

// references calls f with each reference to another object, and the path of its field.
func references(tree any, field string, f func(field string, k8s map[string]any)) {
	switch v := tree.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if k8s, ok := v[name].(map[string]any); ok && name == "k8s" {
				f(field+".k8s", k8s)
			}
			references(v[name], field+"."+name, f)
		}
	case []any:
		for i, element := range v {
			references(element, fmt.Sprintf("%s[%d]", field, i), f)
		}
	}
}

// texts calls f with each text in a tree, and the path of its field.
func texts(tree any, field string, f func(field, text string)) {
	switch v := tree.(type) {
	case string:
		f(field, v)
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			texts(v[name], field+"."+name, f)
		}
	case []any:
		for i, element := range v {
			texts(element, fmt.Sprintf("%s[%d]", field, i), f)
		}
	}
}
