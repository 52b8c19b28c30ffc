package trial

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/usher-dev/usher/internal/kind"
	"github.com/usher-dev/usher/internal/rule"
)

func selectorField(i int) string { return "spec.resourceSelectors[" + strconv.Itoa(i) + "]" }

// selectorProblems warns of selectors that select nothing.
func selectorProblems(set *kind.Set, selectors []rule.Selector) []rule.Problem {
	var problems []rule.Problem
	for i := range selectors {
		s := &selectors[i]
		of := schema.FromAPIVersionAndKind(s.APIVersion, s.Kind)
		warn := func(field, what, do string) {
			problems = append(problems, rule.Problem{
				Severity: rule.Warning, Field: selectorField(i) + "." + field, What: what + ": the selector selects nothing", Do: do,
			})
		}
		if p, unknown := unknownKind(set, of); unknown {
			warn("kind", p.What, p.Do)
		}
		if s.Namespace != "" && !strings.Contains(s.Namespace, "*") {
			switch {
			case len(validation.IsDNS1123Label(s.Namespace)) > 0:
				warn("namespace", fmt.Sprintf("no namespace has the name %q", s.Namespace),
					"name one namespace, in lower case; for several write several selectors, or fieldSelector with metadata.namespace")
			case set.ClusterScoped(of):
				warn("namespace", fmt.Sprintf("a %s is in no namespace", s.Kind), "remove namespace")
			}
		}
		if s.Labels != nil && s.Never == "" {
			contradiction(s, warn)
		}
		if like := set.Schema(of); like != nil {
			for j := range s.Fields {
				fieldProblem(set, like, of.Kind, &s.Fields[j], warn)
			}
		}
	}
	return problems
}

// contradiction warns of label requirements that no object can meet together.
func contradiction(s *rule.Selector, warn func(field, what, do string)) {
	requirements, _ := s.Labels.Requirements()
	must, mustNot := map[string]string{}, map[string]bool{}
	for _, r := range requirements {
		switch r.Operator() {
		case "exists":
			must[r.Key()] = ""
		case "=", "==", "in":
			if values := r.Values(); values.Len() == 1 {
				if before := must[r.Key()]; before != "" && before != values.List()[0] {
					warn("labelSelector", fmt.Sprintf("no object has two values of the label %s", r.Key()), "use In with both")
				}
				must[r.Key()] = values.List()[0]
			} else {
				must[r.Key()] = ""
			}
		case "!":
			mustNot[r.Key()] = true
		default:
			// The other operators exclude values, so they can always be met.
		}
	}
	for key := range mustNot {
		if _, both := must[key]; both {
			warn("labelSelector", fmt.Sprintf("no object has the label %s and has it not", key), "leave out one of the two")
		}
	}
}

// fieldProblem warns of a field that no object has, and of impossible values.
func fieldProblem(set *kind.Set, like *kind.Schema, name string, f *rule.Field, warn func(field, what, do string)) {
	p := path(f.Path)
	for end := 1; end < len(p); end++ {
		if at := set.Follow(like, p[:end]).At; at != nil && at.Kind() == kind.List {
			warn("fieldSelector", fmt.Sprintf("%s is a list, into which no field selector leads", p[:end].expression()), "use a rule in CUE")
			return
		}
	}
	step := set.Follow(like, p)
	if step.Wrong > 0 {
		problem := wrongPath(set, like, name, p, step)
		switch {
		case strings.Contains(f.Path[0], "/"):
			problem.Do = "write dots between the names: " + strings.Join(pathOf("/"+strings.Trim(f.Path[0], "/")), ".")
		case len(p) > 2 && p[1] == "labels":
			problem.Do = "use labelSelector: labels with dots cannot be named here"
		}
		if f.Op == rule.NotIn || f.Op == rule.DoesNotExist {
			problem.What += ", so this is true of every object"
			problem.Field = ""
		}
		warn("fieldSelector", problem.What, problem.Do)
		return
	}
	if step.At != nil && (f.Op == rule.In || f.Op == rule.NotIn) {
		valueProblems(step.At, p, f.Values, warn)
	}
}

// valueProblems warns of values that a field never has.
func valueProblems(at *kind.Schema, p path, values []string, warn func(field, what, do string)) {
	for _, value := range values {
		switch of := at.Kind(); {
		case of == kind.Object || of == kind.Map || of == kind.List:
			warn("fieldSelector", fmt.Sprintf("%s is %s, which is compared with no text", p.expression(), kind.Describe(of)), "name a field in it")
			return
		case len(at.Enum) > 0 && value != "" && !slices.Contains(at.Texts(), value):
			do := cmp.Or(rule.Suggestion(value, at.Texts()), "use one of these")
			warn("fieldSelector", fmt.Sprintf("%s is never %q: it is one of %s", p.expression(), value, strings.Join(at.Texts(), ", ")), do)
		case of == kind.Bool && value != "true" && value != "false":
			warn("fieldSelector", fmt.Sprintf("%s is true or false, and never %q", p.expression(), value), `write "true" or "false"`)
		}
	}
}

// unknownKind warns of a kind that does not exist in the set.
func unknownKind(set *kind.Set, of schema.GroupVersionKind) (rule.Problem, bool) {
	apiVersion, name := of.ToAPIVersionAndKind()
	if apiVersion == "" || name == "" || strings.Contains(apiVersion+name, "*") || set.Has(of) {
		return rule.Problem{}, false
	}
	here, groups, elsewhere, ours := namesakes(set, of)
	// Any group that is not Kubernetes' own may exist where the set is not that of a cluster.
	begins := func(group string) bool { return of.Group != "" && strings.HasPrefix(group, of.Group+".") }
	if !set.Complete && !ours && rule.Nearest(of.Group, groups) == "" && !slices.ContainsFunc(groups, begins) && !retired(of.Group) {
		return rule.Problem{}, false
	}
	p := rule.Problem{
		Severity: rule.Warning, What: fmt.Sprintf("Kubernetes has no kind %s in %s", name, apiVersion),
		Do: "see kubectl api-resources",
	}
	if set.Complete {
		p.What = fmt.Sprintf("the cluster has no kind %s in %s", name, apiVersion)
	}
	p.Do = cmp.Or(meantKind(of, here, stable(elsewhere)), p.Do)
	return p, true
}

// namesakes returns the kinds of the version, and where else there is one of the name, as people call it: in
// which groups, and as which version and kind. Ours says that the set has all kinds of the group.
func namesakes(set *kind.Set, of schema.GroupVersionKind) (here, groups, elsewhere []string, ours bool) {
	for r := range set.Resources() {
		if strings.Contains(r.Name, "/") && r.In != nil {
			continue
		}
		ours = ours || r.Group == of.Group && (set.Complete || !strings.Contains(of.Group, ".") || strings.HasSuffix(of.Group, ".k8s.io"))
		if r.Group == of.Group && r.Version == of.Version {
			here = append(here, r.Kind)
		}
		if isCalled(r, of.Kind) || strings.EqualFold(r.Name, of.Kind) {
			elsewhere = append(elsewhere, r.Of().GroupVersion().String()+" "+r.Kind)
			groups = append(groups, r.Group)
		}
	}
	return here, groups, elsewhere, ours
}

// meantKind asks for the kind that may be meant; it returns nothing if none is similar.
func meantKind(of schema.GroupVersionKind, here, elsewhere []string) string {
	if whole, isList := strings.CutSuffix(of.Kind, "List"); isList && slices.Contains(here, whole) {
		return fmt.Sprintf("did you mean kind: %s? Lists are never written", whole)
	}
	if len(elsewhere) == 0 {
		if near := rule.Nearest(of.Kind, here); near != "" {
			return fmt.Sprintf("did you mean kind: %s?", near)
		}
		return ""
	}
	version, found, _ := strings.Cut(elsewhere[0], " ")
	switch {
	case version == of.GroupVersion().String():
		return fmt.Sprintf("did you mean kind: %s?", found)
	case found != of.Kind:
		return fmt.Sprintf("did you mean apiVersion: %s and kind: %s?", version, found)
	}
	return fmt.Sprintf("did you mean apiVersion: %s?", version)
}

// retired reports whether a group is one that Kubernetes had.
func retired(group string) bool { return group == "extensions" }

var unstable = regexp.MustCompile(`v\d+(alpha|beta)\d+ `)

// stable returns the stable versions, if there are any, sorted and without duplicates.
func stable(versions []string) []string {
	slices.Sort(versions)
	versions = slices.Compact(versions)
	if grown := slices.DeleteFunc(slices.Clone(versions), unstable.MatchString); len(grown) > 0 {
		return grown
	}
	return versions
}
