package policies

import (
	"github.com/spf13/cobra"

	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/rule"
)

// Limits are the flags that limit what policies may do.
type Limits struct {
	http, namespacedHTTP, kinds, references []string
	release                                 string
}

// Register adds the flags.
func (l *Limits) Register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringSliceVar(&l.http, "http-facts", []string{"*"}, "hosts that cluster policies may ask for facts, such as cmdb.example, cmdb.example:8443 or *.example; * for all, off for none")
	flags.StringSliceVar(&l.namespacedHTTP, "namespaced-http-facts", []string{"off"}, "hosts that policies of a namespace may ask for facts, as in --http-facts")
	flags.StringSliceVar(&l.kinds, "namespaced-kinds", nil, "kinds that policies of a namespace may act on although they are RBAC, policies, Secrets or ServiceAccounts, such as Secret or RoleBinding.rbac.authorization.k8s.io")
	flags.StringSliceVar(&l.references, "namespaced-references", nil, "kinds whose objects policies of a namespace may read outside of it, such as ConfigMap, *.example.com or *")
	flags.StringVar(&l.release, "kube-version", "", "version of Kubernetes whose functions the expressions of admission policies may use, such as 1.30 (default: the newest that Usher knows)")
	var releases []string
	for _, r := range rule.Releases() {
		releases = append(releases, r.String())
	}
	cli.Offer(cmd, "kube-version", releases...)
}

// Limits returns the limits that the flags set.
func (l *Limits) Limits() (rule.Limits, error) {
	limits, err := rule.ParseLimits(l.http, l.namespacedHTTP, l.kinds, l.references)
	if err != nil {
		return limits, err
	}
	limits.Kubernetes, err = rule.ParseRelease(l.release)
	return limits, err
}
