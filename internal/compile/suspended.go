package compile

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/usher-dev/usher/api"
	usherv1alpha1 "github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/internal/printable"
	"github.com/usher-dev/usher/internal/rule"
)

// mostWho limits what is repeated of the annotation, in bytes: anybody may write it while Usher is not
// asked.
const mostWho = 300

// Suspended returns the sentence that says of a policy that it is suspended, and by whom if that is
// known; empty if it is not suspended.
func Suspended(policy api.Object) string {
	if policy == nil || !api.Suspended(policy) {
		return ""
	}
	what, effect := "the policy", "decides"
	if kind, _ := api.KindOf(policy); kind.Exempts {
		what, effect = "the exemption", "exempts"
	}
	by := ""
	if who := printable.Words(policy.GetAnnotations()[api.AnnotationSuspended]); who != "" {
		by = " by " + printable.Cut(who, mostWho)
	}
	return fmt.Sprintf("%s is suspended%s: it %s nothing", what, by, effect)
}

// suspended leaves nothing of a policy that is suspended but what it would be in force, with a warning: it must
// not look as if it decided something. It warns as well of an annotation that does not suspend the policy.
func (c *Compiled) suspended() []rule.Problem {
	if c.Policy.Object == nil {
		return nil
	}
	if what := Suspended(c.Policy.Object); what != "" {
		resumed := *c
		c.clear()
		c.Resumed = &resumed
		field, do := api.SuspendField(c.Policy.Object), "set it to false to put it into force again"
		if field != "spec.suspend" {
			do = "remove the annotation to put it into force again"
		}
		return append(NotSuspending(c.Policy.Object), rule.Problem{Severity: rule.Warning, Field: field, What: what, Do: do})
	}
	return NotSuspending(c.Policy.Object)
}

// NotSuspending returns the problem with an annotation that is meant to suspend a policy, and does not. It is a warning:
// the annotation may be written while Usher is not asked, and must not keep the policy from being changed.
func NotSuspending(policy api.Object) []rule.Problem {
	written, suspended := misspelled(policy.GetAnnotations()), api.Suspended(policy)
	field, annotation, value := api.SuspendField(policy), api.AnnotationSuspend, policy.GetAnnotations()[written]
	if written == "" || suspended && (written != annotation || field != "spec.suspend") {
		return nil
	}
	kind, _ := api.KindOf(policy)
	p := rule.Problem{Severity: rule.Warning, Field: "metadata.annotations[" + written + "]"}
	switch {
	case written != annotation:
		p.What, p.Do = "it does not suspend the policy, which is in force", "did you mean spec.suspend?"
		if field != "spec.suspend" {
			p.Do = "did you mean " + annotation + "?"
		}
	case kind.Candidate:
		p.What, p.Do = "a candidate is not suspended by it", "delete the candidate, which decides nothing"
	case kind.Foreign:
		p.What, p.Do = "a policy of Kubernetes is not suspended by it", "delete its bindings"
	case field == "spec.suspend":
		p.What, p.Do = "it suspends policies of kinitiras, and not this one", "remove the annotation: "+removal(policy, annotation)
		if !suspended {
			p.Do = "set spec.suspend, and " + p.Do
		}
	case value == "false":
		return nil
	default:
		p.What, p.Do = fmt.Sprintf("%q does not suspend the policy, which is in force", value), `write "true" to suspend it, or remove the annotation`
	}
	return []rule.Problem{p}
}

// removal returns the command that removes an annotation of a policy.
func removal(policy api.Object, annotation string) string {
	command := "kubectl annotate " + strings.ToLower(Ref(policy).Kind) + " " + policy.GetName()
	if namespace := policy.GetNamespace(); namespace != "" {
		command += " -n " + namespace
	}
	return command + " " + annotation + "-"
}

// misspelled returns the annotation that suspends policies as it is written; empty if there is none. The one by which
// Usher says who has suspended a policy is as similar as a slip.
func misspelled(annotations map[string]string) string {
	if _, ok := annotations[api.AnnotationSuspend]; ok {
		return api.AnnotationSuspend
	}
	for _, name := range slices.Sorted(maps.Keys(annotations)) {
		if strings.HasPrefix(name, usherv1alpha1.GroupVersion.Group+"/") && rule.Nearest(name, []string{api.AnnotationSuspend}) != "" {
			return name
		}
	}
	return ""
}
