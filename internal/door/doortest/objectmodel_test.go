package doortest_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/usher-dev/usher/internal/policytest"
)

// erroneous is an expression that fails on every pod of the matrix, and says what users are told.
const (
	erroneous      = `object.spec.nodeName == "a"`
	erroneousSays  = `expression 'object.spec.nodeName == "a"' resulted in error: no such key: nodeName`
	noParamsSays   = "no params found for policy binding with `Deny` parameterNotFoundAction"
	policyOfMatrix = "ClusterObjectPolicy p"
)

// A failing is what an object policy finds wrong with a request.
type failing struct{ name, field, message string }

// model is the truth table of the matrix: what the documentation says of each feature, in the order
// in which the features take effect.
func model(c combination, w writer) policytest.Expect {
	wrong := c.wrong(w)
	if c[podTemplates] == "Deployment: Off" || c[subjects] == "zoe" ||
		c[subjects] == "jane" && w.user != "jane" || c[subjects] == "not jane" && w.user == "jane" {
		// The policy is not for the request.
		wrong = nil
	}
	if len(wrong) == 0 {
		return said{}.expect(true)
	}
	left, nearly := c.exempt(w, wrong)
	s := said{audit: map[string]string{}}
	if nearly == "" && c[exemption] != "no exemption" {
		s.audit["exempted-by"] = "ClusterPolicyExemption x: " + c.rule()
	}
	if c[exemption] == "with Warn" {
		s.warnings = append(s.warnings, "exempt from "+policyOfMatrix+" until 2026-06-02T00:00:00Z (ClusterPolicyExemption x)")
	}
	for _, f := range left {
		c.say(&s, f, c.actions(w))
	}
	if len(s.denials) == 0 && s.audit["exempted-by"] == "" && c[failure] == "error: Ignore" {
		s.audit["failed-by"] = c.rule()
	}
	if len(s.denials) > 0 {
		s.audit["denied-by"] = c.rule()
		if nearly != "" {
			// Only users who are denied are told.
			s.warnings = append(s.warnings, "ClusterPolicyExemption x does not exempt from "+policyOfMatrix+": "+nearly)
		}
	}
	return s.expect(false)
}

// wrong returns what is wrong with every request, since the pod has the host's network and images of
// all registries.
func (c combination) wrong(w writer) []failing {
	switch {
	case c[params] == "missing: Allow", c[params] == "missing: Deny" && c[failure] == "error: Ignore":
		// Without params there is nothing to evaluate, and failures are ignored.
		return nil
	case c[params] == "missing: Deny":
		// Each binding that is for the request has failed, and no expression has been evaluated.
		all := []failing{{"spec.bindings[0].paramRef", "", noParamsSays}}
		if len(c.bindings()) == 2 && w.production {
			all = append(all, failing{"spec.bindings[1].paramRef", "", noParamsSays})
		}
		return all
	}
	prefix := map[string]string{"no params": "bad/", "in place": "worse/", "found": "other/"}[c[params]]
	all := []failing{{"image", "spec.containers", "images of " + prefix}}
	switch c[failure] {
	case "no error":
		all = append(all, failing{"host", "spec.hostNetwork", "no host network"})
	case "error: Fail":
		all = append(all, failing{"host", "spec.hostNetwork", erroneousSays})
	}
	return all
}

// exempt returns what an exemption leaves of what is wrong, or why it does not apply.
func (c combination) exempt(w writer, wrong []failing) (left []failing, nearly string) {
	image := func(f failing) bool { return f.name == "image" }
	switch c[exemption] {
	case "from the policy", "with Warn":
		return nil, ""
	case "from a validation":
		if !slices.ContainsFunc(wrong, image) {
			return wrong, "it exempts from other validations of the policy"
		}
		return slices.DeleteFunc(slices.Clone(wrong), image), ""
	case "for images":
		if !slices.Contains(wrong, failing{"image", "spec.containers", "images of bad/"}) {
			return wrong, "the request is no better without the containers that it exempts"
		}
		return slices.DeleteFunc(slices.Clone(wrong), image), ""
	case "expired":
		return wrong, "it expired 60m ago"
	case "for ann":
		if w.user != "ann" {
			return wrong, `its subjects do not include user "` + w.user + `"`
		}
		return nil, ""
	}
	return wrong, ""
}

// actions are those of the bindings that are for the request. Params that are missing deny whatever
// the actions are, as in API servers.
func (c combination) actions(w writer) []string {
	switch {
	case c[params] == "missing: Deny":
		return []string{"Deny"}
	case c[action] != "Warn everywhere, Deny in production":
		return strings.Split(c[action], "+")
	case w.production:
		return []string{"Deny"}
	}
	return []string{"Warn"}
}

// say does what actions say with something that is wrong.
func (c combination) say(s *said, f failing, actions []string) {
	message, suffix := f.message, ""
	deny, warn := slices.Contains(actions, "Deny"), slices.Contains(actions, "Warn")
	if c[podTemplates] != "Pod" {
		// Users wrote the workload: they are told which of its fields is wrong.
		f.field = strings.TrimSuffix("spec.template."+f.field, ".")
		message = "Deployment shop/web: " + f.field + ": " + f.message
	}
	if deny && c[podTemplates] == "Deployment: Warn" {
		deny, warn, suffix = false, true, "; its pods would be denied"
	}
	if deny {
		s.denials = append(s.denials, message)
		cause := f.message
		if f.field != "" {
			cause = f.field + ": " + f.message
		}
		s.causes = append(s.causes, cause)
	}
	// The bindings that lack params say the same, and users are warned of it once.
	if warning := message + " (" + policyOfMatrix + suffix + ")"; warn && !slices.Contains(s.warnings, warning) {
		s.warnings = append(s.warnings, warning)
	}
	if slices.Contains(actions, "Audit") {
		if s.audit["audited-by"] != "" {
			s.audit["audited-by"] += ", "
		}
		s.audit["audited-by"] += fmt.Sprintf("%s %s: %s", policyOfMatrix, f.name, message)
	}
}

// rule is the rule of the policy that the request meets.
func (c combination) rule() string {
	if c[podTemplates] == "Pod" {
		return policyOfMatrix + " spec.validations"
	}
	return policyOfMatrix + " spec.podTemplates"
}

// A said is what users and the audit log are told.
type said struct {
	denials, causes, warnings []string
	audit                     map[string]string
}

// expect returns all of it as the expectation of a case.
func (s said) expect(noMatch bool) policytest.Expect {
	allowed, message := len(s.denials) == 0, ""
	if !allowed {
		message = s.denials[0]
	}
	if more := len(s.denials) - 1; more > 0 {
		message += fmt.Sprintf(", and %d more", more)
	}
	e := policytest.Expect{
		Allowed: &allowed, MessageEquals: &message, NoMatch: noMatch, Warnings: append([]string{}, s.warnings...), Causes: append([]string{}, s.causes...),
		AuditAnnotations: map[string]*string{},
	}
	for _, key := range []string{"audited-by", "denied-by", "exempted-by", "exempted", "failed-by"} {
		e.AuditAnnotations[key] = nil
		if value, ok := s.audit[key]; ok {
			e.AuditAnnotations[key] = &value
		}
	}
	return e
}
