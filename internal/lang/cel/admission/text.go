package admission

import (
	"context"
	"errors"
	"strings"

	celconfig "k8s.io/apiserver/pkg/apis/cel"
)

// errNoText is the error of a text that cannot be shown: it is empty, too long or has several lines.
var errNoText = errors.New("the text is empty, longer than 5 KiB or has several lines")

// errNotEvaluated is the error of a text that was not evaluated, since the ones before had used up the cost.
var errNotEvaluated = errors.New("it was not evaluated: those of the validations before have used up the cost limit")

// Text evaluates one of the texts of the source for a request and one object of params. It sees what
// message expressions see. The error is [*fact.Missing], that of a fact, that of ctx, or that of the
// expression.
func (p *Program) Text(ctx context.Context, in *Input, index int) (string, error) {
	in.context = ctx
	a := in.activation(p, withNamespace)
	defer a.release()
	a.explain()
	value, _, err := a.evaluate(ctx, &p.texts[index], celconfig.RuntimeCELCostBudget)
	if stop := interrupted(ctx, a); stop != nil {
		return "", stop
	}
	if err != nil {
		return "", err
	}
	return textOf(&value)
}

// textOf returns the text that an expression gives, as it is shown.
func textOf(o *outcome) (string, error) {
	if o.err != nil {
		return "", o.err
	}
	if o.value == nil {
		return "", errNotEvaluated
	}
	text, _ := o.value.Value().(string)
	if text = strings.TrimSpace(text); text == "" || len(text) > celconfig.MaxEvaluatedMessageExpressionSizeBytes || strings.Contains(text, "\n") {
		return "", errNoText
	}
	return text, nil
}
