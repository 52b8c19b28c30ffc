package policies

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/cmd/usher/internal/cluster"
	"github.com/usher-dev/usher/internal/answer"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/compile/guard"
	engine "github.com/usher-dev/usher/internal/engine/authz"
	index "github.com/usher-dev/usher/internal/index/authz"
	"github.com/usher-dev/usher/internal/printable"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/rule/authz"
	"github.com/usher-dev/usher/internal/trial/lockout"
	"github.com/usher-dev/usher/internal/webhookconfig"
)

// longestAdmission is how long a rule of a policy that is about to be written may take. It may come from a
// candidate of somebody who has fewer rights.
const longestAdmission = 10 * time.Second

// Admit decides a policy that is about to be written as policy admission does, also if Usher does not run: it
// returns an error for a policy that has errors or keeps administrators from their cluster, and passes on warnings,
// also of requests without which a cluster cannot recover. API servers that ask Usher repeat these word for word.
// What depends on the flags of the server, on rights and on other objects is left to it.
func Admit(ctx context.Context, warnings rest.WarningHandlerWithContext, object, old *unstructured.Unstructured) error {
	d, err := Within(ctx, longestAdmission, "try policies", func(ctx context.Context) (usher.Decision, error) {
		r, err := written(object, old)
		if err != nil {
			return usher.Decision{}, err
		}
		limits, err := rule.ParseLimits([]string{"*"}, []string{"*"}, []string{"*"}, []string{"*"})
		if err != nil {
			return usher.Decision{}, err
		}
		allow := func(context.Context, *usher.Request) (usher.Decision, error) { return usher.Decision{}, nil }
		return guard.Wrap(usher.DeciderFunc(allow), guard.Options{
			Compile: compile.Options{Limits: limits},
			Judge:   func(rules []*authz.Rule) usher.Decider { return engine.New(index.New(rules), engine.Options{}) },
			Trial: func(_ context.Context, c compile.Compiled) []rule.Problem {
				return lockedOut(ctx, c)
			},
		}).Decide(ctx, r)
	})
	if err != nil {
		return err
	}
	for _, text := range answer.Warnings(d.Warnings) {
		warnings.HandleWarningHeaderWithContext(cluster.Writes(ctx, object.GetName()), 299, "-", text)
	}
	if d.Verdict == usher.Deny {
		return errors.New(printable.Line(d.Message))
	}
	return nil
}

// lockedOut warns of requests without which a cluster cannot recover.
func lockedOut(ctx context.Context, c compile.Compiled) []rule.Problem {
	report, err := lockout.Check(ctx, c.Rules, lockout.Options{Registered: webhookconfig.Options{Namespace: cluster.DefaultNamespace}})
	if err != nil {
		return []rule.Problem{{Policy: c.Ref, Severity: rule.Error, What: fmt.Sprintf("not tried on the requests without which a cluster cannot recover: %v", err)}}
	}
	problems := lockout.Problems(report.Findings)
	for i := range problems {
		problems[i].Severity = rule.Warning
	}
	return problems
}

// written returns the request that writes a policy.
func written(object, old *unstructured.Unstructured) (*usher.Request, error) {
	r := &usher.Request{
		Phase: usher.Validate, Operation: usher.Create, Namespace: object.GetNamespace(), Name: object.GetName(),
		Kind: object.GroupVersionKind(),
	}
	text, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("encode policy: %w", err)
	}
	r.Object = usher.RawObject(text)
	if old != nil {
		if text, err = json.Marshal(old); err != nil {
			return nil, fmt.Errorf("encode policy: %w", err)
		}
		r.Operation, r.OldObject = usher.Update, usher.RawObject(text)
	}
	return r, nil
}
