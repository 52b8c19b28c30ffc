package admission

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/rule"
)

// An Evaluation is what a policy says about a request.
type Evaluation struct {
	Skipping
	// Denials are the validations that deny the request, in order.
	Denials []Denial
	// Annotations are for the audit log; Refused are errors of annotations, each of which denies
	// the request whatever the binding says.
	Annotations []Published
	Refused     []string
	// Ignored are failures from which nothing follows, since the failure policy is Ignore.
	Ignored []Denial
}

// A Skipping says why a policy is not for a request.
type Skipping struct {
	// Skipped is empty if the policy is for it.
	Skipped string
	// Condition names the match condition that is false, if that is why.
	Condition string
}

// A Denial is what one validation says that denies a request.
type Denial struct {
	// Index is that of the validation. An error of all of them has the index 0, and is Whole: it is one
	// of the part of the policy at Place.
	Index   int
	Whole   bool
	Place   string
	Message string
	// Unmade says why the Message is not that of the messageExpression, and which one it is; empty if it is.
	Unmade string
	// Reason is empty for an error.
	Reason string
	// Failed says that evaluating the validation gave an error, which is the Message, and Absent that the error
	// is that an object of data does not exist: no field of the request is at fault.
	Failed, Absent bool
}

// A Published is a value for the audit log.
type Published struct{ Key, Value string }

// Evaluate evaluates the policy for a request and one object of params. The error is
// [*fact.Missing], that of a fact, or that of ctx.
//
// It is Validate of k8s.io/apiserver/pkg/admission/plugin/policy/validating, quirks included.
func (p *Program) Evaluate(ctx context.Context, in *Input) (Evaluation, error) {
	in.context = ctx
	a := in.activation(p, withAuthorizer|asConditions)
	defer a.release()
	if skipping, failure, err := a.match(ctx); err != nil {
		return Evaluation{}, err
	} else if failure != "" {
		r := p.failed("spec.matchConditions", failure)
		r.Skipping = skipping
		return r, nil
	} else if skipping.Skipped != "" {
		return Evaluation{Skipping: skipping}, nil
	}
	a.enter(withNamespace | withAuthorizer)
	values, left, err := a.evaluateInto(ctx, a.few[:0], p.validations, celconfig.RuntimeCELCostBudget)
	var r Evaluation
	if (a.counted == nil || p.source.LazyMessages) && a.stop == nil && err == nil && hold(values) {
		// To ask a context that has a deadline for the time takes longer than many expressions.
		return r, a.annotate(ctx, &r)
	}
	if stop := interrupted(ctx, a); stop != nil {
		return Evaluation{}, stop
	}
	if err != nil {
		return p.failed("spec.validations", err.Error()), nil
	}
	a.enter(withNamespace)
	a.explain()
	messages, messagesErr := a.messages(ctx, values, left)
	if stop := interrupted(ctx, a); stop != nil {
		return Evaluation{}, stop
	}
	for i := range values {
		p.decide(&r, i, &values[i], messages, messagesErr)
	}
	return r, a.annotate(ctx, &r)
}

// hold reports whether all conditions or validations hold.
func hold(values []outcome) bool {
	for i := range values {
		if values[i].err != nil || values[i].value != types.True {
			return false
		}
	}
	return true
}

// messages evaluates messages. API servers do so even for validations that hold, which costs; where
// costs do not count, or [Code.LazyMessages] is set, it is done for those that deny the request.
func (a *activation) messages(ctx context.Context, values []outcome, budget int64) ([]outcome, error) {
	if a.counted != nil && !a.program.source.LazyMessages {
		outcomes, _, err := a.evaluateAll(ctx, a.program.messages, budget)
		return outcomes, err
	}
	var outcomes []outcome
	for i := range values {
		if values[i].err != nil || values[i].value == types.True || a.program.messages[i].text == "" {
			continue
		}
		if outcomes == nil {
			outcomes = make([]outcome, len(values))
		}
		var err error
		if outcomes[i], budget, err = a.evaluate(ctx, &a.program.messages[i], budget); err != nil {
			outcomes[i].err = err
			return outcomes, nil //nolint:nilerr // A denial does not depend on its message.
		}
		if a.stop != nil {
			return nil, nil //nolint:nilerr // Callers return a.stop.
		}
	}
	return outcomes, nil
}

// interrupted returns why an evaluation could not go on, or nil: a fact is missing, or ctx has
// ended.
func interrupted(ctx context.Context, a *activation) error {
	if a.stop != nil {
		return a.stop
	}
	if ctx.Err() != nil {
		return fmt.Errorf("evaluate expression: %w", context.Cause(ctx))
	}
	return nil
}

// failed is the result of a policy that cannot be evaluated.
func (p *Program) failed(place, message string) (r Evaluation) {
	p.fail(&r, Denial{Whole: true, Place: place, Message: message})
	return r
}

// fail adds a failure to r.
func (p *Program) fail(r *Evaluation, d Denial) {
	d.Failed = true
	if p.source.Ignore {
		r.Ignored = append(r.Ignored, d)
	} else {
		r.Denials = append(r.Denials, d)
	}
}

// match evaluates the conditions. It returns why the policy is skipped, or what went wrong: both if the
// failure policy is Ignore.
func (a *activation) match(ctx context.Context) (skipping Skipping, failure string, err error) {
	p := a.program
	if len(p.conditions) == 0 {
		return Skipping{}, "", nil
	}
	values, _, budget := a.evaluateInto(ctx, a.few[:0], p.conditions, celconfig.RuntimeCELCostBudgetMatchConditions)
	if a.stop == nil && budget == nil && hold(values) {
		return Skipping{}, "", nil
	}
	if stop := interrupted(ctx, a); stop != nil {
		return Skipping{}, "", stop
	}
	const noValue = "matchConditions have no value, and failurePolicy is Ignore"
	var errs []error
	if budget != nil {
		errs = append(errs, budget)
	}
	for i := range values {
		if values[i].err != nil {
			errs = append(errs, values[i].err)
		} else if values[i].value == types.False {
			name := p.source.Conditions[i].Name
			return Skipping{fmt.Sprintf("matchConditions[%s] is false", name), name}, "", nil
		}
	}
	if p.source.Ignore {
		skipping.Skipped = noValue
	}
	return skipping, aggregate(errs), nil
}

// aggregate is the text of an Aggregate of k8s.io/apimachinery/pkg/util/errors.
func aggregate(errs []error) string {
	var texts []string
	seen := map[string]bool{}
	for _, err := range errs {
		if text := err.Error(); !seen[text] {
			seen[text] = true
			texts = append(texts, text)
		}
	}
	if len(texts) == 1 {
		return texts[0]
	}
	return "[" + strings.Join(texts, ", ") + "]"
}

// decide adds what one validation says to r.
func (p *Program) decide(r *Evaluation, i int, v *outcome, messages []outcome, messagesErr error) {
	switch {
	case v.err != nil:
		_, absent := errors.AsType[*fact.NotFound](v.err)
		p.fail(r, Denial{Index: i, Message: v.err.Error(), Absent: absent})
	case errors.Is(messagesErr, apiservercel.ErrInternal) || errors.Is(messagesErr, apiservercel.ErrOutOfBudget):
		p.fail(r, Denial{Index: i, Message: fmt.Sprintf("failed messageExpression: %s", messagesErr)})
	case v.value != types.True:
		reason := p.source.Validations[i].Reason
		if reason == "" {
			reason = "Invalid"
		}
		message, err := p.message(i, messages, v.said)
		d := Denial{Index: i, Message: message, Reason: reason}
		if err != nil {
			d.Unmade = unmade(p, i, err)
		}
		r.Denials = append(r.Denials, d)
	}
}

// message tells why a validation denies a request. The error is why that is not what its messageExpression says.
// What a program has said is told if nothing else is.
func (p *Program) message(i int, messages []outcome, said string) (message string, err error) {
	v := &p.source.Validations[i]
	if i < len(messages) && v.MessageExpression != "" {
		if message, err = textOf(&messages[i]); err == nil {
			return message, nil
		}
	}
	if text := strings.TrimSpace(v.Message); text != "" {
		return text, err
	}
	if v.Program != nil {
		return cmp.Or(said, "failed CUE program: it gives no reason"), err
	}
	return "failed expression: " + strings.TrimSpace(v.Expression), err
}

// unmade says that the messageExpression of a validation failed, and what the message is in its place.
func unmade(p *Program, i int, err error) string {
	v, used := &p.source.Validations[i], "there is no message, and the expression is used"
	switch {
	case strings.TrimSpace(v.Message) != "":
		used = fmt.Sprintf("spec.validations[%d].message is used", i)
	case v.Program != nil:
		used = "what the CUE program says is used"
	}
	return "messageExpression failed: " + because(err) + ": " + used
}

// because returns why an expression failed, without its text.
func because(err error) string {
	const before = "' resulted in error: "
	text := err.Error()
	if at := strings.LastIndex(text, before); at >= 0 {
		return text[at+len(before):]
	}
	return text
}

// annotate adds the audit annotations to r.
func (a *activation) annotate(ctx context.Context, r *Evaluation) error {
	p := a.program
	if len(p.annotations) == 0 {
		return nil
	}
	a.enter(withNamespace)
	values, _, err := a.evaluateAll(ctx, p.annotations, celconfig.RuntimeCELCostBudget)
	if stop := interrupted(ctx, a); stop != nil {
		return stop
	}
	if err != nil {
		*r = p.failed("spec.auditAnnotations", err.Error())
		return nil
	}
	for i := range values {
		source := &p.source.Annotations[i]
		switch v := &values[i]; {
		case v.err != nil:
			if p.source.Ignore {
				p.fail(r, Denial{Whole: true, Place: "spec.auditAnnotations", Message: v.err.Error()})
			} else {
				r.Refused = append(r.Refused, v.err.Error())
			}
		case v.value.Type() == types.StringType:
			if text := strings.TrimSpace(v.value.Value().(string)); text != "" {
				r.Annotations = append(r.Annotations, Published{source.Key, text})
			}
		case v.value.Type() != types.NullType:
			r.Refused = append(r.Refused, fmt.Sprintf("valueExpression '%v' resulted in unsupported return type: %v. "+
				"Return type must be either string or null.", source.ValueExpression, v.value.Type()))
		}
	}
	return nil
}

// An outcome is the value of an expression, or an error; neither if there is no expression.
type outcome struct {
	value ref.Val
	err   error
	// said is the message of a program of another language.
	said string
}

// evaluateAll evaluates expressions one after the other and returns what is left of the budget.
// The error is that the budget is exceeded.
func (a *activation) evaluateAll(ctx context.Context, expressions []expression, budget int64) ([]outcome, int64, error) {
	return a.evaluateInto(ctx, make([]outcome, 0, len(expressions)), expressions, budget)
}

// evaluateInto is evaluateAll that appends the outcomes to others.
func (a *activation) evaluateInto(ctx context.Context, outcomes []outcome, expressions []expression, budget int64) ([]outcome, int64, error) {
	for i := range expressions {
		one, left, err := a.evaluate(ctx, &expressions[i], budget)
		if err != nil {
			return nil, -1, err
		}
		outcomes, budget = append(outcomes, one), left
		if a.stop != nil {
			return nil, -1, nil //nolint:nilerr // Callers return a.stop.
		}
	}
	return outcomes, budget, nil
}

func invalid(format string, args ...any) *apiservercel.Error {
	return &apiservercel.Error{Type: apiservercel.ErrorTypeInvalid, Detail: fmt.Sprintf(format, args...)}
}

func outOfBudget() error {
	err := invalid("validation failed due to running out of cost budget, no further validation rules will be run")
	err.Cause = apiservercel.ErrOutOfBudget
	return err
}

// evaluate evaluates one expression and returns what is left of the budget.
func (a *activation) evaluate(ctx context.Context, e *expression, budget int64) (outcome, int64, error) {
	switch {
	case e.err != nil:
		return outcome{err: invalid("compilation error: %v", e.err)}, budget, nil //nolint:nilerr // The outcome has it.
	case e.other != nil:
		return a.judge(ctx, e.other), budget, nil
	case e.program == nil:
		return outcome{}, budget, nil
	}
	a.meter.Context = ctx //nolint:fatcontext // expressions have the context of the decision, one after the other
	value, cost, err := a.run(e)
	spent := a.variables.takeCost()
	if spent > budget {
		return outcome{}, -1, outOfBudget()
	}
	budget -= spent
	if cost > math.MaxInt64 || int64(cost) > budget {
		return outcome{}, -1, outOfBudget()
	}
	budget -= int64(cost)
	switch {
	case err == nil:
		return outcome{value: value}, budget, nil
	case a.glances:
		return outcome{err: errGlanced}, budget, nil
	}
	return outcome{err: a.in.because(a.program, e.text, err)}, budget, nil
}

// judge runs a program of another language.
func (a *activation) judge(ctx context.Context, p rule.Program) outcome {
	said, err := p.Run(ctx, a.in.Rule())
	switch {
	case err == nil:
		return outcome{value: types.Bool(said.Verdict != usher.Deny), said: strings.TrimSpace(said.Message)}
	case endsEvaluation(ctx, err):
		a.end(err)
	}
	return outcome{err: err}
}
