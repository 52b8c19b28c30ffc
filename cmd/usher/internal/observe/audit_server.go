package observe

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/format"
	"github.com/usher-dev/usher/cmd/usher/internal/replica"
	"github.com/usher-dev/usher/cmd/usher/internal/served"
	"github.com/usher-dev/usher/internal/audit/judge"
	"github.com/usher-dev/usher/internal/audit/result"
	"github.com/usher-dev/usher/internal/auditapi"
)

// auditServer returns the results of the replica that audits the cluster.
func (f *auditFlags) auditServer(cmd *cobra.Command, s cli.Streams) (*format.Report, error) {
	var warnings []string
	f.replicas.Warn = func(text string) { warnings = append(warnings, text) }
	set, err := f.replicas.Connect(cmd.Context())
	if err != nil && f.replicas.Kubeconfig == "" && len(f.replicas.Servers) == 0 {
		return nil, fmt.Errorf("%w; 'usher audit -p POLICIES FILES' audits files, without a cluster", err)
	}
	if err != nil {
		return nil, err
	}
	all, err := set.Find(cmd.Context())
	if err != nil {
		return nil, f.withoutServer(err)
	}
	results, pages := &served.Results{Namespace: f.namespace, Policy: f.policy}, []auditapi.List(nil)
	err = results.Ask(all, func(r *replica.Replica) (err error) {
		pages, err = results.All(cmd.Context(), r)
		return err
	})
	switch {
	case apierrors.IsServiceUnavailable(err), apierrors.IsNotFound(err):
		return nil, f.withoutServer(err)
	case err != nil:
		return nil, err
	}
	report := f.reportOf(pages)
	if len(warnings) > 0 && len(report.Results) == 0 {
		return nil, &cli.UsageError{Command: cmd.CommandPath(), Err: fmt.Errorf("--policy: %s", strings.Join(warnings, "; "))}
	}
	for _, text := range warnings {
		cli.Notef(cmd, s, "warning", "%s", text)
	}
	if len(report.Results) == 0 {
		if err := set.NoNamespace(cmd.Context(), f.namespace); err != nil {
			return nil, fmt.Errorf("-n: %w", err)
		}
	}
	return report, nil
}

// withoutServer adds what works if no server audits.
func (f *auditFlags) withoutServer(err error) error {
	return fmt.Errorf("%w; 'usher audit --from-cluster%s' audits without a server", err, served.In(f.namespace))
}

// reportOf returns the report of all pages. Of policies without results the server says nothing.
func (f *auditFlags) reportOf(pages []auditapi.List) *format.Report {
	r := &format.Report{Objects: -1, Results: []format.Result{}, Policies: []result.PolicySummary{}, Partial: true, Namespace: f.namespace}
	counts := result.Counts{}
	for i := range pages {
		r.Kinds = append(r.Kinds, pages[i].Kinds...)
		r.Summary.Merge(pages[i].Summary)
		for _, one := range pages[i].Items {
			if one.Status == result.Skip && one.Object.Name == "" {
				r.AddNotJudged(judge.Unjudged{Policy: one.Policy, Rule: one.Rule, Reason: one.Message})
			} else {
				r.Results = append(r.Results, format.Result{Result: one})
			}
		}
		for _, policy := range pages[i].Policies {
			counts.Add(policy.PolicyRef, policy.Summary)
		}
	}
	if f.namespace == "" {
		r.Objects = 0
		for _, kind := range r.Kinds {
			r.Objects += kind.Objects
		}
	}
	if f.policy != "" {
		// The summary of the server is that of all policies.
		r.Objects, r.Summary = -1, counts.Total()
	}
	for ref, summary := range counts {
		r.Policies = append(r.Policies, result.PolicySummary{PolicyRef: ref, Summary: summary})
	}
	r.Sort()
	return r
}
