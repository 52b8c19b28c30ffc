package fact

import "context"

type tenantKey struct{}

// ForTenant returns a context for the facts that a policy of a namespace asks for. Those who resolve facts limit
// what they do for a namespace.
func ForTenant(ctx context.Context, namespace string) context.Context {
	if namespace == "" {
		return ctx
	}
	return context.WithValue(ctx, tenantKey{}, namespace)
}

// Tenant returns the namespace of the policy that asks, "" if that is one of the cluster.
func Tenant(ctx context.Context) string {
	namespace, _ := ctx.Value(tenantKey{}).(string)
	return namespace
}
