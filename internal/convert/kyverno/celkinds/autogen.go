package celkinds

import (
	"regexp"
	"slices"
	"strings"

	"github.com/google/cel-go/common/ast"
	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/usher-dev/usher/api/usher/v1alpha1"
)

// A template is where workloads have the template of their pods.
type template struct {
	suffix    string
	resources []workload
	// spec and metadata take the place of these in expressions.
	spec, metadata string
}

type workload struct{ group, resource string }

// templates are where Kyverno finds the templates of workloads.
func templates() []template {
	return []template{
		{"-workloads", []workload{{"apps", "daemonsets"}, {"apps", "deployments"}, {"apps", "replicasets"}, {"apps", "statefulsets"}, {"batch", "jobs"}}, "spec.template.spec", "spec.template.metadata"},
		{"-cronjobs", []workload{{"batch", "cronjobs"}}, "spec.jobTemplate.spec.template.spec", "spec.jobTemplate.spec.template.metadata"},
	}
}

// variants returns the policies for pods and for the workloads that Kyverno applies the policy to, too.
func (c *conversion) variants(s *specification) []variant {
	pods := variant{spec: s}
	if !isForPods(s.MatchConstraints) {
		return []variant{pods}
	}
	of := chosen(s.Autogen.Pods.Controllers)
	switch {
	case c.mutates && len(of) == 0:
		return []variant{pods}
	case c.mutates && !patchesTemplates(s):
		c.note("spec.mutations", "the templates of workloads are not changed: Kyverno applies the mutations of pods to workloads as they are written, where they fail or have no effect; their pods are changed", "")
		return []variant{pods}
	case len(of) == 0:
		pods.pods = v1alpha1.PodTemplatesOff
		return []variant{pods}
	case !c.mutates && all(of) && projects(s):
		pods.pods = v1alpha1.PodTemplatesDeny
		c.note("spec.podTemplates", "the pods of workloads are validated when a workload is created, and when an update changes its template: those of PodTemplates and ReplicationControllers, too, and not those of workloads that a controller owns", "")
		return []variant{pods}
	}
	if !c.mutates {
		pods.pods = v1alpha1.PodTemplatesOff
	}
	variants := []variant{pods}
	for _, t := range templates() {
		t.resources = slices.DeleteFunc(t.resources, func(w workload) bool { return !slices.Contains(of, w.resource) })
		if len(t.resources) > 0 {
			variants = append(variants, variant{suffix: t.suffix, spec: t.of(s, c.mutates)})
		}
	}
	return variants
}

// isForPods reports whether Kyverno applies a policy to workloads, too.
func isForPods(m *admissionv1.MatchResources) bool {
	if o := m.ObjectSelector; o != nil && len(o.MatchLabels)+len(o.MatchExpressions) > 0 || len(m.ExcludeResourceRules) > 0 || len(m.ResourceRules) != 1 {
		return false
	}
	r := m.ResourceRules[0]
	return len(r.ResourceNames) == 0 && slices.Equal(r.APIGroups, []string{""}) && slices.Equal(r.APIVersions, []string{"v1"}) && slices.Equal(r.Resources, []string{"pods"})
}

// chosen returns the resources of the workloads that a policy names; all if it names none. Kyverno ignores what it
// does not know.
func chosen(controllers []string) []string {
	var found []string
	for _, t := range templates() {
		for _, w := range t.resources {
			if controllers == nil || slices.Contains(controllers, w.resource) {
				found = append(found, w.resource)
			}
		}
	}
	return found
}

// all reports whether resources are those of all workloads that users write.
func all(resources []string) bool {
	for _, name := range []string{"daemonsets", "deployments", "statefulsets", "jobs", "cronjobs"} {
		if !slices.Contains(resources, name) {
			return false
		}
	}
	return true
}

// of returns a specification for the workloads. As in Kyverno, the text of expressions is replaced.
func (t *template) of(s *specification, mutates bool) *specification {
	s = s.clone()
	operations := s.MatchConstraints.ResourceRules[0].Operations
	m := admissionv1.MatchResources{NamespaceSelector: s.MatchConstraints.NamespaceSelector}
	for _, w := range t.resources {
		n := slices.IndexFunc(m.ResourceRules, func(r admissionv1.NamedRuleWithOperations) bool { return r.APIGroups[0] == w.group })
		if n < 0 {
			r := admissionv1.NamedRuleWithOperations{}
			r.Operations, r.APIGroups, r.APIVersions = operations, []string{w.group}, []string{"v1"}
			m.ResourceRules, n = append(m.ResourceRules, r), len(m.ResourceRules)
		}
		m.ResourceRules[n].Resources = append(m.ResourceRules[n].Resources, w.resource)
	}
	s.MatchConstraints = &m
	if mutates {
		t.mutations(s)
		return s
	}
	for _, e := range s.expressions() {
		*e.text = t.validated(*e.text)
	}
	for n := range s.Validations {
		s.Validations[n].Message = t.validated(s.Validations[n].Message)
	}
	return s
}

// read are the parts of objects that are elsewhere in workloads, but for what is called namespace.
var read = regexp.MustCompile(`object\.(spec|metadata)|oldObject\.(spec|metadata)`)

// validated returns a text of a policy that validates.
func (t *template) validated(text string) string {
	var out strings.Builder
	for {
		at := read.FindStringIndex(text)
		if at == nil {
			return out.String() + text
		}
		found, rest := text[at[0]:at[1]], text[at[1]:]
		out.WriteString(text[:at[0]])
		if holder, part, _ := strings.Cut(found, "."); !strings.HasPrefix(rest, ".namespace") {
			found = holder + "." + t.spec
			if part == "metadata" {
				found = holder + "." + t.metadata
			}
		}
		out.WriteString(found)
		text = rest
	}
}

var (
	mutatedSpec     = regexp.MustCompile(`\b(object|oldObject|Object)\.spec`)
	mutatedMetadata = regexp.MustCompile(`\b(object|oldObject|Object)\.metadata\.(labels|annotations)`)
	// whole begins an apply configuration that is one Object{}.
	whole = regexp.MustCompile(`^\s*Object\s*\{`)
)

// mutations rewrites what mutates, and its conditions.
func (t *template) mutations(s *specification) {
	for n := range s.MatchConditions {
		s.MatchConditions[n].Expression = t.moved(s.MatchConditions[n].Expression)
	}
	for n := range s.Mutations {
		a := s.Mutations[n].ApplyConfiguration
		a.Expression = t.mutation(a.Expression)
	}
}

func (t *template) moved(text string) string {
	text = mutatedSpec.ReplaceAllString(text, "${1}."+t.spec)
	return mutatedMetadata.ReplaceAllString(text, "${1}."+t.metadata+".${2}")
}

// mutation rewrites an apply configuration that is one Object{}: around what is in it are the objects that lead to
// the template.
func (t *template) mutation(text string) string {
	path := strings.Split(strings.TrimSuffix(t.spec, ".spec"), ".")
	opening, of := "Object{", "Object"
	for _, name := range path {
		of += "." + name
		opening += name + ": " + of + "{"
	}
	return whole.ReplaceAllString(t.moved(strings.TrimSpace(text)), opening) + strings.Repeat("}", len(path))
}

// patchesTemplates reports whether Kyverno changes the templates of workloads as it changes pods.
func patchesTemplates(s *specification) bool {
	for n := range s.Variables {
		if strings.Contains(s.Variables[n].Expression, "bject") {
			return false
		}
	}
	for n := range s.Mutations {
		a := s.Mutations[n].ApplyConfiguration
		if a == nil || !whole.MatchString(a.Expression) {
			return false
		}
		// The braces of the first object are the last ones.
		if parsed, err := parse(a.Expression); err != nil || parsed.Expr().Kind() != ast.StructKind {
			return false
		}
	}
	for _, t := range templates() {
		for n := range s.Mutations {
			parsed, err := parse(t.mutation(s.Mutations[n].ApplyConfiguration.Expression))
			if err != nil || !fits(parsed.Expr(), "Object") {
				return false
			}
		}
	}
	return true
}

// fits reports whether the types in an apply configuration are named after the fields that have them: others fail.
func fits(e ast.Expr, path string) bool {
	if e.Kind() != ast.StructKind {
		right := true
		children(e, nil, func(e ast.Expr, _ []string) { right = right && fits(e, path) })
		return right
	}
	return e.AsStruct().TypeName() == path && !slices.ContainsFunc(e.AsStruct().Fields(), func(f ast.EntryExpr) bool {
		return !fits(f.AsStructField().Value(), path+"."+f.AsStructField().Name())
	})
}

// projects reports whether a policy sees the pods of workloads in Usher as it sees workloads in Kyverno, which
// replaces the text of expressions.
func projects(s *specification) bool {
	operations := s.MatchConstraints.ResourceRules[0].Operations
	if !slices.Contains(operations, admissionv1.Create) || slices.ContainsFunc(operations, func(o admissionv1.OperationType) bool {
		return o != admissionv1.Create && o != admissionv1.Update
	}) {
		return false
	}
	for _, e := range s.expressions() {
		parsed, err := parse(*e.text)
		if err != nil {
			return false
		}
		p := projection{}
		p.visit(parsed.Expr(), nil)
		if p.differs || p.moved != len(read.FindAllString(*e.text, -1)) {
			return false
		}
	}
	return true
}

// A projection counts what Kyverno replaces in an expression.
type projection struct {
	moved   int
	differs bool
	// above are the fields that lead from an expression to the whole.
	above []string
}

func (p *projection) visit(e ast.Expr, bound []string) {
	if operand, field, ok := selected(e); ok {
		p.above = append(p.above, field)
		p.visit(operand, bound)
		p.above = p.above[:len(p.above)-1]
		return
	}
	above := p.above
	if e.Kind() == ast.IdentKind && !slices.Contains(bound, e.AsIdent()) {
		p.ident(e.AsIdent(), above)
	}
	p.above = nil
	children(e, bound, p.visit)
	p.above = above
}

// ident counts what is read of a variable.
func (p *projection) ident(name string, above []string) {
	first, second := "", ""
	if len(above) > 0 {
		first = above[len(above)-1]
	}
	if len(above) > 1 {
		second = above[len(above)-2]
	}
	switch name {
	case objectName:
		p.moved++
		p.differs = p.differs || first != "spec" && !(first == "metadata" && (slices.Contains([]string{"labels", "annotations", "finalizers"}, second) || second == "name" || second == "namespace"))
	case oldObjectName:
		p.differs = true
	case requestName:
		p.differs = p.differs || !slices.Contains([]string{"namespace", "userInfo", "dryRun"}, first)
	}
}

// selected returns the operand and the field of a selection.
func selected(e ast.Expr) (operand ast.Expr, field string, ok bool) {
	switch e.Kind() {
	case ast.SelectKind:
		return e.AsSelect().Operand(), e.AsSelect().FieldName(), true
	case ast.CallKind:
		if args := e.AsCall().Args(); e.AsCall().FunctionName() == "_?._" && len(args) == 2 {
			name, isText := args[1].AsLiteral().Value().(string)
			return args[0], name, isText
		}
	}
	return nil, "", false
}
