package enforce

import "github.com/usher-dev/usher/cmd/internal/cli"

// flagGroups are the groups of flags in the help of serve.
func flagGroups() []cli.FlagGroup {
	return []cli.FlagGroup{
		{Title: "Policies", Flags: []string{"policies", "facts", "fact-ttl", "failure-policy", "rule-timeout", "admission-policies", "kube-version", "max-exemption-duration", "pre-cache-resources", "write-specs", "compat-label"}},
		{Title: "What policies may do", Flags: []string{"http-facts", "allow-local-facts", "namespaced-*", "namespace-*", "cue-*"}},
		{Title: "Cluster", Flags: []string{"kubeconfig", "context", "in-cluster", "namespace", "identity", "kube-api-*", "proof-secret", "denial-events"}},
		{Title: "Webhook configurations", Flags: []string{"manage-webhook-configurations", "webhook-*", "service", "service-port", "path-secret"}},
		{Title: "Server", Flags: []string{"bind-address", "port", "client-*", "token-file", "request-timeout", "max-body-bytes", "max-in-flight", "shutdown-grace"}},
		{Title: "Certificates", Flags: []string{"tls-*", "cert-*"}},
		{Title: "Authorization webhooks", Flags: []string{"authorization-*"}},
		{Title: "API", Flags: []string{"api-*", "record-*"}},
		{Title: "Audit", Flags: []string{"audit", "audit-*", "reports", "report-*"}},
		{Title: "Logs, metrics and traces", Flags: []string{"log-*", "trace-*", "tracing-config-file", "metrics-*", "enable-pprof"}},
	}
}
