package policies

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/compile/bounded"
	"github.com/usher-dev/usher/internal/rule"
)

// Limits are the flags that limit what policies may do.
type Limits struct {
	http, namespacedHTTP, kinds, references []string
	release                                 string
	timeout                                 time.Duration
}

// Register adds the flags, but not that of the time: servers have limits of their own.
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

// RegisterWithTimeout adds the flags, and that of the time.
func (l *Limits) RegisterWithTimeout(cmd *cobra.Command) {
	l.Register(cmd)
	l.RegisterTimeout(cmd)
}

// RegisterTimeout adds the flag that limits how long policies may take.
func (l *Limits) RegisterTimeout(cmd *cobra.Command) {
	cmd.Flags().DurationVar(&l.timeout, "policy-timeout", 10*time.Second, "how long a policy may take to compile, to be tried, or to decide a request; 0 for any time")
}

// Timeout returns how long a policy may take; 0 is any time.
func (l *Limits) Timeout() time.Duration { return l.timeout }

// Limits returns the limits that the flags set.
func (l *Limits) Limits() (rule.Limits, error) {
	limits, err := rule.ParseLimits(l.http, l.namespacedHTTP, l.kinds, l.references)
	if err != nil {
		return limits, err
	}
	limits.Kubernetes, err = rule.ParseRelease(l.release)
	return limits, err
}

// Compiler returns what compiles policies within the limits that the flags set.
func (l *Limits) Compiler() (bounded.Compiler, error) {
	limits, err := l.Limits()
	return bounded.Compiler{Options: compile.Options{Limits: limits}, Timeout: l.timeout}, err
}
