package gatekeeper

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/internal/convert"
)

// A template is what a ConstraintTemplate says in CEL.
type template struct {
	name, kind, description string
	source                  source
	// defaults is the schema of the parameters, which may have defaults.
	defaults map[string]any
	// reads says that expressions read params, and compares that one compares them with null.
	reads, compares bool
	// adopted is the policy of the library that it becomes; nil if it is in CEL.
	adopted *counterpart
}

// A source is what the engine K8sNativeValidation reads.
type source struct {
	Validations     []validation                 `json:"validations,omitempty"`
	FailurePolicy   string                       `json:"failurePolicy,omitempty"`
	MatchConditions []admissionv1.MatchCondition `json:"matchCondition,omitempty"`
	Variables       []admissionv1.Variable       `json:"variables,omitempty"`
	// GenerateVAP says whether Gatekeeper makes a ValidatingAdmissionPolicy of it.
	GenerateVAP *bool `json:"generateVAP,omitempty"`
}

type validation struct {
	Expression        string `json:"expression"`
	Message           string `json:"message,omitempty"`
	MessageExpression string `json:"messageExpression,omitempty"`
}

// manifest is the part of a ConstraintTemplate that matters.
type manifest struct {
	Metadata struct {
		Name        string            `json:"name"`
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec struct {
		CRD struct {
			Spec struct {
				Names struct {
					Kind string `json:"kind"`
				} `json:"names"`
				Validation struct {
					Schema map[string]any `json:"openAPIV3Schema"`
				} `json:"validation"`
			} `json:"spec"`
		} `json:"crd"`
		Targets []struct {
			Target string   `json:"target"`
			Rego   string   `json:"rego"`
			Libs   []string `json:"libs"`
			Code   []struct {
				Engine string          `json:"engine"`
				Source json.RawMessage `json:"source"`
			} `json:"code"`
			Operations []string `json:"operations"`
		} `json:"targets"`
	} `json:"spec"`
}

// The engines of templates.
const (
	celEngine  = "K8sNativeValidation"
	regoEngine = "Rego"
)

// readTemplate returns what a template says in CEL, or in Rego that is known by its hash. If it cannot be imported, it leaves the reasons.
func readTemplate(i *convert.Import, hash func(modules []string) string) *template {
	var m manifest
	if err := decode(i.Of.Object, &m, false); err != nil {
		i.Leave(i.Of, "", err.Error(), "correct the template")
		return &template{}
	}
	t := &template{name: m.Metadata.Name, kind: m.Spec.CRD.Spec.Names.Kind, description: strings.TrimSpace(m.Metadata.Annotations["description"]), defaults: m.Spec.CRD.Spec.Validation.Schema}
	if len(m.Spec.Targets) != 1 {
		i.Leave(i.Of, "spec.targets", fmt.Sprintf("there are %d targets", len(m.Spec.Targets)), "write one")
		return t
	}
	for n, code := range m.Spec.Targets[0].Code {
		if code.Engine != celEngine {
			continue
		}
		field := fmt.Sprintf("spec.targets[0].code[%d].source", n)
		if err := decode(code.Source, &t.source, true); err != nil {
			i.Leave(i.Of, field, err.Error(), "correct the template")
			return t
		}
		t.translate(i, field)
		return t
	}
	if k := known(hash(modules(&m))); k != nil {
		t.adopt(i, k)
		return t
	}
	do := "write it as a ClusterObjectPolicy"
	if policy := Nearest(t.name); policy != "" {
		do = "see whether 'usher library show " + policy + "' is what it means"
	}
	i.Leave(i.Of, "spec.targets", "it is in Rego alone", do)
	return t
}

// modules returns the Rego of the only target of a template.
func modules(m *manifest) []string {
	target := &m.Spec.Targets[0]
	var all []string
	add := func(rego string, libs []string) {
		if rego != "" {
			all = append(append(all, rego), libs...)
		}
	}
	add(target.Rego, target.Libs)
	for _, code := range target.Code {
		var in struct {
			Rego string   `json:"rego"`
			Libs []string `json:"libs"`
		}
		if code.Engine == regoEngine && json.Unmarshal(code.Source, &in) == nil {
			add(in.Rego, in.Libs)
		}
	}
	return all
}

// decode reads an object or its JSON. It returns an error for fields that into does not have if they may matter.
func decode(from, into any, all bool) error {
	raw, err := json.Marshal(from)
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	if all {
		d.DisallowUnknownFields()
	}
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("read: %w", err)
	}
	return nil
}

// translate rewrites the expressions for a policy, and leaves the template out if one cannot be.
func (t *template) translate(i *convert.Import, field string) {
	rewrite := func(at string, text *string) {
		if *text == "" {
			return
		}
		rewritten, reads, err := rewritten(*text)
		if err != nil {
			i.Leave(i.Of, field+"."+at, err.Error(), "change the template")
			return
		}
		t.compares = t.compares || null.MatchString(rewritten)
		*text = strings.TrimSpace(rewritten)
		t.reads = t.reads || reads
	}
	s := &t.source
	for n := range s.Variables {
		rewrite(fmt.Sprintf("variables[%d].expression", n), &s.Variables[n].Expression)
	}
	for n := range s.MatchConditions {
		rewrite(fmt.Sprintf("matchCondition[%d].expression", n), &s.MatchConditions[n].Expression)
	}
	for n := range s.Validations {
		rewrite(fmt.Sprintf("validations[%d].expression", n), &s.Validations[n].Expression)
		rewrite(fmt.Sprintf("validations[%d].messageExpression", n), &s.Validations[n].MessageExpression)
	}
}

// policy returns the policy for some constraints.
func (t *template) policy(name string, constraints []*selection) *v1alpha1.ClusterObjectPolicy {
	p := &v1alpha1.ClusterObjectPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "ClusterObjectPolicy"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
	}
	spec := &p.Spec
	spec.Description = t.description
	spec.MatchConditions = slices.Concat(t.source.MatchConditions, constraints[0].conditions)
	spec.Variables = t.source.Variables
	spec.FailurePolicy = admissionv1.FailurePolicyType(t.source.FailurePolicy)
	for _, v := range t.source.Validations {
		spec.Validations = append(spec.Validations, v1alpha1.Validation{Expression: v.Expression, Message: v.Message, MessageExpression: v.MessageExpression})
	}
	spec.MatchConstraints = union(constraints)
	for _, s := range constraints {
		b := v1alpha1.Binding{Name: s.name, ValidationActions: s.actions, Params: s.params}
		if rest := s.beyond(&spec.MatchConstraints); rest != nil {
			b.MatchResources = rest
		}
		spec.Bindings = append(spec.Bindings, b)
	}
	if onlyPods(spec.MatchConstraints.ResourceRules) {
		spec.PodTemplates = v1alpha1.PodTemplatesOff
	}
	return p
}

// onlyPods reports whether all rules are about pods.
func onlyPods(rules []admissionv1.NamedRuleWithOperations) bool {
	return !slices.ContainsFunc(rules, func(r admissionv1.NamedRuleWithOperations) bool {
		return !slices.Equal(r.APIGroups, []string{""}) || slices.ContainsFunc(r.Resources, func(resource string) bool { return resource != "pods" && !strings.HasPrefix(resource, "pods/") })
	})
}

var (
	// token is a string, in which nothing is rewritten, a comment, a name with its selections, or one of these.
	token = regexp.MustCompile(`(?s)[bBrR]{0,2}("""|''').*?("""|''')|[rR][bB]?"[^"\n]*"|[rR][bB]?'[^'\n]*'|[bB]?"(?:\\.|[^"\\\n])*"|[bB]?'(?:\\.|[^'\\\n])*'|//[^\n]*|(?:\.\s*)?has\s*\(\s*variables\s*\.\s*(?:params|anyObject)\s*\)|(?:\.\s*)?[A-Za-z_][A-Za-z0-9_]*(?:\s*\.\s*(?:params|anyObject)\b)?`)
	// present asks whether there are the variables that Gatekeeper makes: they always are.
	present = regexp.MustCompile(`^has\s*\(\s*variables\s*\.\s*(params|anyObject)\s*\)$`)
	// hiding is the variable of a macro that hides a variable of the policy.
	hiding = regexp.MustCompile(`\(\s*(object|params)\s*,`)
	// null compares the params as a whole.
	null = regexp.MustCompile(`\bparams\s*[!=]=\s*null\b|\bnull\s*[!=]=\s*params\b`)
	// given are the variables that Gatekeeper makes.
	given = regexp.MustCompile(`^variables\s*\.\s*(params|anyObject)$`)
)

// rewritten returns an expression that reads params and object in place of the variables of Gatekeeper, and
// whether it reads params.
func rewritten(expression string) (text string, reads bool, err error) {
	if hides := hiding.FindStringSubmatch(expression); hides != nil {
		return "", false, fmt.Errorf("a macro calls its variable %s, as a variable of the policy", hides[1])
	}
	text = token.ReplaceAllStringFunc(expression, func(found string) string {
		switch match := given.FindStringSubmatch(found); {
		case present.MatchString(found):
			return "true"
		case found == "params":
			err = errors.New("it reads params, the whole constraint: read variables.params")
		case match == nil:
		case match[1] == "params":
			reads = true
			return "params"
		default:
			return "object"
		}
		return found
	})
	return text, reads, err
}
