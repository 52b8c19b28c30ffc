package write

import (
	"context"
	"regexp"
	"slices"
	"strconv"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/cmd/usher/internal/policies"
	"github.com/usher-dev/usher/internal/check"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/convert"
	"github.com/usher-dev/usher/internal/kind"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/trial"
	"github.com/usher-dev/usher/internal/trial/lockout"
)

// sound leaves out what 'usher check --strict' finds errors in. Of a message that is one, only the message is left out.
// To fail on requests without which a cluster cannot recover is an error of policies that are to deny, and others let them
// pass. That policies deny such requests is noted: only their authors know whom to exclude.
func (f *importFlags) sound(ctx context.Context, imports []convert.Import, o convert.Options) error {
	compiled, of, err := f.compiled(ctx, imports, o.Limits)
	if err != nil {
		return err
	}
	try := trial.New(trial.Options{Kinds: func(context.Context, *kind.Set, []schema.GroupVersionKind) *kind.Set { return o.Kinds }})
	found, _, err := check.Try(ctx, f.limits.Timeout(), compiled, try)
	if err != nil {
		return err
	}
	recovery := lockoutFlag{}
	findings, _, err := recovery.try(ctx, f.limits.Timeout(), compiled, nil)
	if err != nil {
		return err
	}
	for _, p := range lockout.Problems(with(lockout.Failed, findings)) {
		if i := of[p.Policy]; i == nil || f.enforce || !lets(i, &p) {
			found = append(found, p)
		}
	}
	for _, p := range lockout.Problems(with(lockout.Refused, findings)) {
		if i := of[p.Policy]; i != nil {
			i.Note(i.Of, "", p.What, p.Do)
		}
	}
	for _, p := range rule.Errors(rule.Written(found)) {
		if i := of[p.Policy]; i != nil && !withoutMessage(i, &p) {
			i.Leave(i.Of, "", p.Field+": "+p.What, p.Do)
		}
	}
	for i := range imports {
		if len(imports[i].Left) > 0 {
			imports[i].To = nil
			rule.SortProblems(imports[i].Left)
		}
	}
	return nil
}

// with returns the findings with an effect.
func with(effect lockout.Effect, findings []lockout.Finding) []lockout.Finding {
	return slices.DeleteFunc(slices.Clone(findings), func(f lockout.Finding) bool { return f.Effect != effect })
}

// compiled compiles what policies became, and returns of which import each policy is.
func (f *importFlags) compiled(ctx context.Context, imports []convert.Import, limits rule.Limits) ([]compile.Compiled, map[usher.PolicyRef]*convert.Import, error) {
	of := map[usher.PolicyRef]*convert.Import{}
	compiled, err := policies.Within(ctx, f.limits.Timeout(), "compile policies", func(ctx context.Context) ([]compile.Compiled, error) {
		var all []compile.Compiled
		for i := range imports {
			for _, o := range imports[i].To {
				c := compile.Options{Limits: limits}.Policy(ctx, api.Policy{Object: o})
				of[c.Ref] = &imports[i]
				all = append(all, c)
			}
		}
		return all, nil
	})
	return compiled, of, err
}

// lets makes errors of a policy with a problem let requests pass, on which it fails and without which a cluster cannot recover: nothing
// that is imported denies. It reports whether it did.
func lets(i *convert.Import, p *rule.Problem) bool {
	for _, o := range i.To {
		spec := (&compile.Compiled{Policy: api.Policy{Object: o}}).ObjectSpec()
		if compile.Ref(o) != p.Policy || spec == nil || spec.FailurePolicy == admissionv1.Ignore {
			continue
		}
		spec.FailurePolicy = admissionv1.Ignore
		i.Note(i.Of, "spec.failurePolicy", "an error lets an object pass as it is, where it was refused: "+strings.Replace(p.What, "fails on, and so refuses,", "fails on", 1), "correct the expression, and write failurePolicy: Fail")
		return true
	}
	return false
}

var ofMessage = regexp.MustCompile(`^spec\.validations\[([0-9]+)\]\.messageExpression$`)

// withoutMessage removes a message expression that has a problem, and reports whether the problem is about one.
func withoutMessage(i *convert.Import, p *rule.Problem) bool {
	at := ofMessage.FindStringSubmatch(p.Field)
	if at == nil {
		return false
	}
	n, err := strconv.Atoi(at[1])
	for _, o := range i.To {
		if compile.Ref(o) != p.Policy || err != nil {
			continue
		}
		spec := (&compile.Compiled{Policy: api.Policy{Object: o}}).ObjectSpec()
		if spec == nil || n >= len(spec.Validations) {
			continue
		}
		spec.Validations[n].MessageExpression = ""
		i.Note(i.Of, p.Field, "the message is not that of the expression, which fails: "+p.What, "correct the expression")
		return true
	}
	return false
}
