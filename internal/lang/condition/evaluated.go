package condition

import (
	"context"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	"github.com/usher-dev/usher/internal/lang/reference"
	"github.com/usher-dev/usher/internal/rule"
)

// Evaluated returns a program that evaluates the result of [Render] for t like t itself: a rendered
// program only reports whether the condition holds, and the affect mode is applied here. Stored
// programs of kinitiras are the same.
func Evaluated(t *v1alpha1.ValidateRuleTemplate, program rule.Program) rule.Program {
	if t.Type != v1alpha1.TemplateCondition || t.Condition == nil || t.Condition.AffectMode != v1alpha1.AffectAllow {
		return program
	}
	return allowing{program, reference.ParseText(t.Condition.Message)}
}

// allowing is a rendered program in affect mode allow, with its message.
type allowing struct {
	rule.Program

	message reference.Text
}

// Run allows a hit and rejects everything else.
func (a allowing) Run(ctx context.Context, in *rule.Input) (rule.Outcome, error) {
	outcome, err := a.Program.Run(ctx, in)
	if err != nil {
		return rule.Outcome{}, err
	}
	return allowHit(outcome.Verdict == usher.Deny, &a.message, in), nil
}

// DependsOn implements [rule.Dependent].
func (a allowing) DependsOn(operation usher.Operation) rule.Dependencies {
	return rule.DependenciesOf(a.Program, operation)
}

// String is the program in one line.
func (a allowing) String() string { return "allow if " + a.Program.String() }

// SlowPath returns why the program runs slowly, if it does.
func (a allowing) SlowPath() string {
	if program, ok := a.Program.(rule.SlowPath); ok {
		return program.SlowPath()
	}
	return ""
}
