package policies

import (
	"github.com/spf13/pflag"

	"github.com/usher-dev/usher/rule"
)

// Limits are the flags that limit what policies may do.
type Limits struct{ http, namespacedHTTP, kinds, references []string }

// Register adds the flags.
func (l *Limits) Register(flags *pflag.FlagSet) {
	flags.StringSliceVar(&l.http, "http-facts", []string{"*"}, "hosts that cluster policies may ask for facts, such as cmdb.example, cmdb.example:8443 or *.example; * for all, off for none")
	flags.StringSliceVar(&l.namespacedHTTP, "namespaced-http-facts", []string{"off"}, "hosts that policies of a namespace may ask for facts, as in --http-facts")
	flags.StringSliceVar(&l.kinds, "namespaced-kinds", nil, "kinds that policies of a namespace may act on although they are RBAC, policies, Secrets or ServiceAccounts, such as Secret or RoleBinding.rbac.authorization.k8s.io")
	flags.StringSliceVar(&l.references, "namespaced-references", nil, "kinds whose objects policies of a namespace may read outside of it, such as ConfigMap, *.example.com or *")
}

// Limits returns the limits that the flags set.
func (l *Limits) Limits() (rule.Limits, error) {
	return rule.ParseLimits(l.http, l.namespacedHTTP, l.kinds, l.references)
}
