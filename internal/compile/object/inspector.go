package object

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/compile/spec"
	"github.com/usher-dev/usher/internal/lang/cel/admission"
	"github.com/usher-dev/usher/internal/rule"
)

// maxTold limits the bytes of the warnings of one policy. API servers pass on 4,096 characters.
const maxTold = 16 << 10

// An inspector asks for the objects of a namespace to be inspected when bindings come into force for
// them.
type inspector struct {
	*Policy

	object, old *usher.Paths
}

func newInspector(o *Policy) *inspector {
	i := &inspector{Policy: o}
	i.object, i.old = &usher.Paths{}, &usher.Paths{}
	if o.existing.changes != nil {
		i.object, i.old = o.existing.changes.ReadPaths()
	}
	for _, paths := range []*usher.Paths{i.object, i.old} {
		paths.Add("metadata", "labels")
	}
	i.object.Add("metadata", "deletionTimestamp")
	return i
}

// ReadPaths implements [rule.Selective].
func (i *inspector) ReadPaths() (object, old *usher.Paths) { return i.object, i.old }

// DependsOn implements [rule.Dependent].
func (i *inspector) DependsOn(usher.Operation) rule.Dependencies { return rule.OnAnything }

// String says what the rule does.
func (i *inspector) String() string {
	return fmt.Sprintf("warn of existing %s for which a binding with Deny comes into force", i.existing.resource.Resource)
}

// A coming is a binding that comes into force, with one of its params.
type coming struct {
	*binding

	params map[string]any
}

// Run implements [rule.Program].
func (i *inspector) Run(ctx context.Context, in *rule.Input) (rule.Outcome, error) {
	if metadata, _ := in.Object["metadata"].(map[string]any); metadata["deletionTimestamp"] != nil {
		return rule.Outcome{Skipped: "the namespace is being deleted, with all that is in it"}, nil
	}
	var all []coming
	for k := range i.bindings {
		came, err := i.comings(ctx, in, &i.bindings[k])
		if err != nil {
			return rule.Outcome{}, err
		}
		all = append(all, came...)
	}
	if len(all) == 0 {
		return rule.Outcome{Skipped: "no binding with the action Deny comes into force"}, nil
	}
	namespace, err := in.Request.Object.Tree()
	if err != nil {
		return rule.Outcome{}, fmt.Errorf("read namespace: %w", err)
	}
	name := in.Request.Name
	metadata, _ := namespace["metadata"].(map[string]any)
	if own, _ := metadata["name"].(string); own != "" {
		name = own
	}
	reads, _ := newValidator(i.Policy).ReadPaths()
	policy := usher.Fail
	if i.ignore {
		policy = usher.Ignore
	}
	return rule.Outcome{Inspect: &rule.Inspection{
		Namespace: namespace, Name: name, Creation: i.existing.creation(), FailurePolicy: policy,
		Objects: i.existing.objects(name, maxExisting, reads), Program: &existingValidator{i.Policy, all},
		Tell: func(ctx context.Context, of *rule.Inspected) []string { return i.tell(ctx, name, all[0].params, of) },
	}}, nil
}

// comings returns a binding with each of its params for which it comes into force.
func (i *inspector) comings(ctx context.Context, in *rule.Input, b *binding) ([]coming, error) {
	if b.actions&deny == 0 || !i.selects(b, in.Object) || i.existing.changes == nil && i.selects(b, in.OldObject) {
		return nil, nil
	}
	params, err := b.collect(i.paramKind, in)
	if err != nil {
		return nil, err
	}
	var all []coming
	expressions := spec.Input(in)
	for _, object := range params {
		if i.existing.changes != nil {
			expressions.Params = object
			result, err := i.existing.changes.Evaluate(ctx, expressions)
			if err != nil {
				return nil, err
			}
			if len(result.Denials) > 0 {
				return nil, fmt.Errorf("%s.matchConditions: %s", existingRule, result.Denials[0].Message)
			}
			if result.Skipped != "" {
				continue
			}
		}
		all = append(all, coming{b, object})
	}
	return all, nil
}

// selects reports whether the policy with a binding is for the objects of a namespace.
func (i *inspector) selects(b *binding, namespace map[string]any) bool {
	return i.match.SelectsNamespace(namespace) && (b.match == nil || b.match.SelectsNamespace(namespace))
}

// An existingValidator is the validations of a policy, for objects that exist. Who has created these is
// not known, so that subjects do not count.
type existingValidator struct {
	*Policy

	by []coming
}

// Run implements [rule.Program].
func (v *existingValidator) Run(ctx context.Context, in *rule.Input) (rule.Outcome, error) {
	if why := v.match.Resources.Mismatch(in.Request); why != "" {
		return rule.Outcome{Skipped: why}, nil
	}
	if why, err := v.match.Skips(in); err != nil || why != "" {
		return rule.Outcome{Skipped: why}, err
	}
	var out rule.Outcome
	skipped, evaluated := "no binding is for the object", false
	expressions := spec.Input(in)
	for i := range v.by {
		b := &v.by[i]
		why, err := b.skips(in)
		if err != nil {
			return rule.Outcome{}, err
		}
		if why != "" {
			continue
		}
		expressions.Params = b.params
		result, err := v.validate.Evaluate(ctx, expressions)
		if err != nil {
			return rule.Outcome{}, err
		}
		if result.Skipped != "" {
			skipped = result.Skipped
			continue
		}
		if evaluated = true; out.Verdict == usher.Deny {
			continue
		}
		if err := v.deny(ctx, &out, &result, expressions, in.Exempt); err != nil {
			return rule.Outcome{}, err
		}
	}
	if !evaluated {
		out.Skipped = skipped
	}
	return out, nil
}

// deny adds the validations that fail to an outcome.
func (v *existingValidator) deny(ctx context.Context, out *rule.Outcome, r *admission.Evaluation, in *admission.Input, exempt rule.Validations) error {
	var messages []string
	for i := range r.Denials {
		d := &r.Denials[i]
		check := checkOf(v.Policy, d)
		check.Actions = []usher.Action{usher.ActWarn}
		if exempt.Covers(&check) {
			continue
		}
		out.Checks = append(out.Checks, check)
		if !slices.Contains(messages, check.Message) {
			messages = append(messages, check.Message)
		}
	}
	if len(messages) == 0 {
		return nil
	}
	out.Verdict, out.Message = usher.Deny, strings.Join(messages, "; ")
	if v.existing.message < 0 {
		return nil
	}
	text, err := v.validate.Text(ctx, in, v.existing.message)
	switch _, missing := errors.AsType[*fact.Missing](err); {
	case missing || ctx.Err() != nil:
		return err
	case err == nil:
		out.Message = text
	}
	return nil
}

// tell returns the warnings.
func (i *inspector) tell(ctx context.Context, namespace string, params map[string]any, of *rule.Inspected) []string {
	noun := strings.ToLower(i.existing.resource.Resource)
	if of.Err != nil {
		return []string{fmt.Sprintf("failed to list %s while checking %s", noun, i.existing.requirement)}
	}
	var warnings []string
	if of.Checked < of.Total {
		warnings = append(warnings, fmt.Sprintf("%s only checked against the first %d of %d existing %s", i.existing.requirement, of.Checked, of.Total, noun))
	}
	if len(of.Violations) == 0 {
		return warnings
	}
	header := fmt.Sprintf("existing %s in namespace %q violate %s", noun, namespace, i.existing.requirement)
	if i.existing.header >= 0 {
		expressions := spec.Input(of.First)
		expressions.Params = params
		if text, err := i.validate.Text(ctx, expressions, i.existing.header); err == nil {
			header = text
		}
	}
	return append(append(warnings, header), i.lines(of.Violations)...)
}

// lines returns a line for each message, sorted.
func (i *inspector) lines(all []rule.Violation) []string {
	lines := make([]string, len(all))
	for k, v := range all {
		others := ""
		switch {
		case v.Count == 2:
			others = fmt.Sprintf(" (and 1 other %s)", strings.ToLower(i.existing.kind.Kind))
		case v.Count > 2:
			others = fmt.Sprintf(" (and %d other %s)", v.Count-1, strings.ToLower(i.existing.resource.Resource))
		}
		lines[k] = fmt.Sprintf("%s%s: %s", v.Name, others, v.Message)
	}
	slices.Sort(lines)
	size := 0
	for k := range lines {
		if size += len(lines[k]); size > maxTold {
			return append(lines[:k:k], fmt.Sprintf("and %d more", len(lines)-k))
		}
	}
	return lines
}
