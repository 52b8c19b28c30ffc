package write

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/packs"
	"github.com/usher-dev/usher/cmd/usher/internal/policies"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/trial/lockout"
	"github.com/usher-dev/usher/internal/webhookconfig"
)

// A lockoutFlag says whether to try policies on the requests without which a cluster cannot recover, and how
// these reach Usher.
type lockoutFlag struct {
	on                bool
	namespaceSelector string
	infrastructure    []string
}

func (f *lockoutFlag) register(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.on, "lockout", false, "also try the policies on the requests without which a cluster cannot recover; part of --strict")
	cmd.Flags().StringSliceVar(&f.infrastructure, packs.InfrastructureFlag, nil, packs.Infrastructure+", for --lockout in place of the namespaces of its samples")
	cmd.Flags().StringVar(&f.namespaceSelector, "webhook-namespace-selector", "", "label selector of the namespaces whose objects API servers send, for --lockout")
}

// options are those of a cluster in which the chart has installed Usher, and API servers enforce
// admission policies.
func (f *lockoutFlag) options() (lockout.Options, error) {
	o := lockout.Options{Registered: webhookconfig.Options{Namespace: "usher-system"}, Upstream: true}
	if err := packs.CheckInfrastructure(f.infrastructure); err != nil {
		return o, err
	}
	o.Infrastructure = f.infrastructure
	if f.namespaceSelector == "" {
		return o, nil
	}
	selector, err := metav1.ParseToLabelSelector(f.namespaceSelector)
	if err != nil {
		return o, fmt.Errorf("--webhook-namespace-selector: %w", err)
	}
	o.Registered.NamespaceSelector = selector
	return o, nil
}

// try returns the findings about the policies that compile, and in which no error was found as they were
// tried, and the problems that these are. None of their rules may take longer than timeout for a request.
func (f *lockoutFlag) try(ctx context.Context, timeout time.Duration, compiled []compile.Compiled, found []rule.Problem) ([]lockout.Finding, []rule.Problem, error) {
	o, err := f.options()
	if err != nil {
		return nil, nil, err
	}
	wrong := rule.Errors(rule.Written(found))
	sound := slices.DeleteFunc(slices.Clone(compiled), func(c compile.Compiled) bool {
		return len(rule.Errors(rule.Written(c.Problems))) > 0 || slices.ContainsFunc(wrong, func(p rule.Problem) bool { return p.Policy == c.Ref })
	})
	results, err := policies.Within(ctx, timeout, "try policies", func(ctx context.Context) ([]lockout.Report, error) {
		return lockout.All(ctx, sound, o)
	})
	if err != nil {
		return nil, nil, fmt.Errorf("check lock-out: %w", err)
	}
	var findings []lockout.Finding
	var problems []rule.Problem
	for _, result := range results {
		findings = append(findings, result.Findings...)
		for _, p := range lockout.Problems(result.Findings) {
			problems = append(problems, placed(p, sound))
		}
	}
	return findings, problems, nil
}

// placed returns a problem with the place of its policy.
func placed(p rule.Problem, compiled []compile.Compiled) rule.Problem {
	for i := range compiled {
		if compiled[i].Ref == p.Policy {
			return compiled[i].Place(p)
		}
	}
	return p
}

// printLockout lists each request that would be refused, and why the others do not count.
func (r *checkReport) printLockout(s cli.Streams, p cli.Palette) error {
	for i := range r.Lockout {
		f := &r.Lockout[i]
		label, note := cli.Paint(p.Red, string(f.Effect)+":"), f.Message
		if f.Suspended {
			label = cli.Paint(p.Yellow, string(f.Effect)+" once in force:")
		}
		if f.Unreached != "" {
			label, note = cli.Paint(p.Yellow, "out of reach:"), f.Unreached
		}
		if _, err := fmt.Fprintf(s.Out, "%s %s: %s: %s: %s\n", label, f.Policy, f.Rule, f, note); err != nil {
			return fmt.Errorf("print: %w", err)
		}
	}
	return nil
}
