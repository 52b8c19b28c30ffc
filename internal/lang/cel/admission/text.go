package admission

import (
	"context"
	"errors"
	"strings"

	celconfig "k8s.io/apiserver/pkg/apis/cel"
)

// errNoText is the error of a text that cannot be shown: it is empty, too long or has several lines.
var errNoText = errors.New("the text is empty, longer than 5 KiB or has several lines")

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
	if err == nil {
		err = value.err
	}
	if err != nil {
		return "", err
	}
	text, _ := value.value.Value().(string)
	if text = strings.TrimSpace(text); text == "" || len(text) > celconfig.MaxEvaluatedMessageExpressionSizeBytes || strings.Contains(text, "\n") {
		return "", errNoText
	}
	return text, nil
}
