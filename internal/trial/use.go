package trial

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/kind"
	"github.com/usher-dev/usher/internal/rule"
)

// useProblems warns of paths that no object has of any kind that the rule selects, and of comparisons
// with a constant result.
func useProblems(set *kind.Set, r *rule.Rule) []rule.Problem {
	kinds := kindsOf(r.Match.Selectors)
	var problems []rule.Problem
	uses := usesOf(r)
	problems = append(problems, indices(set, r, uses)...)
	for _, p := range editsOf(r) {
		uses = append(uses, rule.Use{Paths: [][]string{p}})
	}
	for i := range uses {
		use := &uses[i]
		of := kinds
		switch use.Of {
		case rule.OtherObject:
			of = []schema.GroupVersionKind{use.Kind}
			if p, unknown := unknownKind(set, use.Kind); unknown {
				p.Field = fieldOf(r, strings.TrimSuffix(use.Field, ".path")+".k8s.kind")
				p.What += ": every request that the rule is for fails"
				problems = append(problems, p)
				continue
			}
		case rule.OwnerObject:
			// The owner may be of any kind: only the fields that all kinds have are known.
			if len(use.Paths) == 0 || len(use.Paths[0]) == 0 || use.Paths[0][0] != "metadata" {
				continue
			}
			of = []schema.GroupVersionKind{{Group: "apps", Version: "v1", Kind: "ReplicaSet"}}
		case rule.CurrentObject, rule.OldObject:
		}
		for _, p := range pathProblems(set, r, use, of) {
			problems = append(problems, p.Problem)
		}
	}
	return problems
}

// A misuse is a problem of one use.
type misuse struct {
	rule.Problem

	// unlisted says that a constant is not one of the values that there are.
	unlisted bool
}

// A misstep is a path that leads nowhere.
type misstep struct {
	at   path
	step kind.Step
}

// pathProblems says what is wrong with one use, if it is wrong for all kinds.
func pathProblems(set *kind.Set, r *rule.Rule, use *rule.Use, kinds []schema.GroupVersionKind) []misuse {
	var found []misuse
	if len(use.Paths) == 0 || len(kinds) == 0 {
		return nil
	}
	for _, of := range kinds {
		like := set.Schema(of)
		if like == nil {
			return nil
		}
		var wrong *misstep
		right := false
		for _, p := range use.Paths {
			step := set.Follow(like, p)
			switch {
			case slices.ContainsFunc(p, func(name string) bool { return strings.Contains(name, `"`) }):
				return nil // Another warning says that the path is not read as it looks.
			case step.Wrong > 0:
				wrong = cmp.Or(wrong, &misstep{p, step})
			case step.At == nil:
				return nil
			default:
				right = true
				if unlike := comparisons(of.Kind, p, step.At, use.Compared); len(unlike) > 0 {
					found = append(found, unlike...)
					continue
				}
				if len(kinds) > 1 {
					return nil
				}
			}
		}
		if !right && wrong != nil {
			name := of.Kind
			if use.Of == rule.OwnerObject {
				name = "owner"
			}
			found = append(found, misuse{Problem: wrongPath(set, like, name, wrong.at, wrong.step)})
		}
	}
	for i := range found {
		found[i].Field = fieldOf(r, use.Field)
	}
	if len(kinds) > 1 && len(found) > 0 {
		// One warning is enough.
		return found[len(found)-1:]
	}
	return found
}

// wrongPath returns a warning that there is no such field, and which one may be meant.
func wrongPath(set *kind.Set, like *kind.Schema, name string, p path, step kind.Step) rule.Problem {
	problem := rule.Problem{Severity: rule.Warning, What: fmt.Sprintf("no %s has %s", name, p[:step.Wrong].expression()), Do: "see kubectl explain"}
	last := p[step.Wrong-1]
	switch {
	case step.Parent == kind.List:
		problem.What = fmt.Sprintf("%s of a %s is a list, which has no %s", p[:step.Wrong-1].expression(), name, last)
		problem.Do = "name an element by its index, or go through all of them in CUE"
	case step.Parent != kind.Object:
		problem.What = fmt.Sprintf("%s of a %s is %s, which has no %s", p[:step.Wrong-1].expression(), name, kind.Describe(step.Parent), last)
		if len(p) > 3 && p[0] == "metadata" {
			problem.Do = "a slash in a key is written ~1 in paths: " + keyed(p).pointer()
		}
	case strings.Contains(p[0], ".") && step.Wrong == 1:
		problem.Do = "write " + keyed(slices.Concat(strings.Split(p[0], "."), p[1:])).pointer()
	default:
		if near := rule.Nearest(last, step.Fields()); near != "" {
			problem.Do = "did you mean " + append(slices.Clone(p[:step.Wrong-1]), near).expression() + "?"
		} else if elsewhere := set.Find(like, last); elsewhere != nil {
			problem.Do = "did you mean " + path(elsewhere).expression() + "?"
		}
	}
	return problem
}

// comparisons warns of constants that a value never equals.
func comparisons(name string, p path, at *kind.Schema, compared []rule.Comparison) []misuse {
	of := at.Kind()
	var problems []misuse
	for _, c := range compared {
		problem := misuse{Problem: rule.Problem{Severity: rule.Warning, Do: "correct the value that it is compared with"}}
		text, isText := c.With.(string)
		switch {
		case of == kind.Quantity && !isText:
			problem.What = fmt.Sprintf("%s of a %s is text such as 500m or 1Gi, and is never %s", p.expression(), name, constant(c.With))
			problem.Do = "compare its text, or read the number from it in CUE"
		case of != kind.Quantity && !mayEqual(of, c.With):
			problem.What = fmt.Sprintf("%s of a %s is %s, and is never %s", p.expression(), name, kind.Describe(of), constant(c.With))
			if isText && isPlain(text) && (of == kind.Bool || of == kind.Integer) {
				problem.Do = "write " + text + ", without quotes"
				if text == "" {
					problem.Do = "test whether it is there"
				}
			}
		case isText && len(at.Enum) > 0 && (c.Op == "==" || c.Op == "!=") && text != "" && !slices.Contains(at.Texts(), text):
			problem.What = fmt.Sprintf("%s of a %s is never %s: it is one of %s", p.expression(), name, constant(text), strings.Join(at.Texts(), ", "))
			problem.Do, problem.unlisted = cmp.Or(rule.Suggestion(text, at.Texts()), problem.Do), true
		default:
			continue
		}
		problems = append(problems, problem)
	}
	return problems
}

// mayEqual reports whether a value of a type may be equal to a constant.
func mayEqual(of kind.Type, with any) bool {
	if of == kind.Either {
		_, isBool := with.(bool)
		return !isBool
	}
	return kind.Holds(of, with)
}

// isPlain reports whether a text is a boolean or a number without its quotes, or empty.
func isPlain(text string) bool {
	return text == "true" || text == "false" || strings.Trim(text, "0123456789") == ""
}

// constant writes a constant as programs have it.
func constant(value any) string {
	if text, ok := value.(string); ok {
		return fmt.Sprintf("%q", text)
	}
	return fmt.Sprint(value)
}

// keyed returns a path whose steps behind metadata.labels or annotations are one key.
func keyed(p path) path {
	if len(p) < 4 || p[0] != "metadata" {
		return p
	}
	key := strings.Join(p[2:len(p)-1], ".") + "/" + p[len(p)-1]
	return path{p[0], p[1], key}
}

// indices warns of a rule that rejects by one element of a list, and ignores the others.
func indices(set *kind.Set, r *rule.Rule, uses []rule.Use) []rule.Problem {
	if r.Phase != usher.Validate {
		return nil
	}
	var problems []rule.Problem
	for i := range uses {
		use := &uses[i]
		if !use.Indexed || use.Of != rule.CurrentObject || len(use.Compared) == 0 {
			continue
		}
		for _, of := range kindsOf(r.Match.Selectors) {
			p := path(use.Paths[0])
			at := slices.Index(p, rule.Element)
			if like := set.Schema(of); like == nil || at < 0 || set.Follow(like, p).At == nil {
				continue
			}
			problems = append(problems, rule.Problem{
				Severity: rule.Warning, Field: fieldOf(r, use.Field),
				What: fmt.Sprintf("only one element of %s of a %s is compared: the others may be anything", p[:at].expression(), of.Kind),
				Do:   "go through all of them in CUE: for e in object." + p[:at].expression(),
			})
			break
		}
	}
	return problems
}
