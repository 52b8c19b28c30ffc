package authz_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/usher-dev/usher/internal/rule"
	webhookconfig "github.com/usher-dev/usher/internal/webhookconfig/authz"
)

const good = `apiVersion: apiserver.config.k8s.io/v1
kind: AuthorizationConfiguration
authorizers:
- {type: Node, name: node}
- type: Webhook
  name: deny
  webhook:
    authorizedTTL: 30s
    unauthorizedTTL: 10s
    timeout: 1s
    subjectAccessReviewVersion: v1
    matchConditionSubjectAccessReviewVersion: v1
    failurePolicy: Deny
    connectionInfo: {type: KubeConfigFile, kubeConfigFile: /deny}
    matchConditions:
    - expression: "!(request.user in ['system:kube-controller-manager'])"
    - expression: "!('system:nodes' in request.groups)"
- {type: RBAC, name: rbac}
- type: Webhook
  name: allow
  webhook:
    authorizedTTL: 30s
    unauthorizedTTL: 10s
    timeout: 1s
    subjectAccessReviewVersion: v1
    matchConditionSubjectAccessReviewVersion: v1
    failurePolicy: NoOpinion
    connectionInfo: {type: KubeConfigFile, kubeConfigFile: /allow}
`

func kubeconfigTo(server string) string {
	return `{current-context: a, contexts: [{name: a, context: {cluster: b, user: c}}], clusters: [{name: b, cluster: {server: "` + server + `"}}]}`
}

// Each row changes what is good, and hears of it.
func TestLint(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		"/deny": kubeconfigTo("https://127.0.0.1/authorize/deny"), "/allow": kubeconfigTo("https://127.0.0.1/authorize/allow"),
		"/both": kubeconfigTo("https://127.0.0.1/authorize"), "/other": kubeconfigTo("https://other.example/x?y=z"),
		"/http": kubeconfigTo("http://10.0.0.1/x"), "/loopback": kubeconfigTo("http://127.0.0.1:80/x"), "/broken": "{", "/url": kubeconfigTo("https://%zz"),
		"/insecure": strings.Replace(kubeconfigTo("https://10.0.0.1/x"), "server:", "insecure-skip-tls-verify: true, server:", 1),
		"/nothing":  "{}", "/nocluster": `{current-context: a, contexts: [{name: a, context: {cluster: x, user: c}}]}`,
	}
	read := func(name string) ([]byte, error) {
		if text, ok := files[name]; ok {
			return []byte(text), nil
		}
		return nil, errors.New("not here")
	}
	denyConditions := `
    matchConditions:
    - expression: "!(request.user in ['system:kube-controller-manager'])"
    - expression: "!('system:nodes' in request.groups)"`
	for _, row := range []struct {
		reason, old, now string
		// want are parts of the problems, in order.
		want []string
	}{
		{"nothing", "", "", nil},
		{"no YAML", good, "[", []string{"error: error converting YAML"}},
		{"a field that does not exist", "timeout: 1s", "timeouts: 1s", []string{"unknown field"}},
		{"another kind", "kind: Auth", "kind: Other", []string{"error: kind: "}},
		{"another group", "apiVersion: apiserver", "apiVersion: other", []string{"error: apiVersion: "}},
		{"an old version", "k8s.io/v1", "k8s.io/v1beta1", []string{"warning: apiVersion: v1beta1 is an old version"}},
		{"no authorizers", good[strings.Index(good, "- {type: Node"):], "", []string{"error: authorizers: Required value", "there is no Node", "there is no RBAC"}},
		{"a name twice", "name: allow", "name: deny", []string{`authorizers[3].name: Duplicate value: "deny"`}},
		{"a type that does not exist", "type: RBAC", "type: Magic", []string{"there is no RBAC", `authorizers[2].type: Unsupported value: "Magic"`}},
		{"a name of its own", "name: rbac", "name: mine", []string{"authorizers[2].name: an authorizer of the type RBAC is called"}},
		{"everything is allowed", "{type: RBAC, name: rbac}", "{type: AlwaysAllow, name: alwaysallow}", []string{"there is no RBAC", "everything is allowed"}},
		{"RBAC with a webhook", "name: rbac}", "name: rbac, webhook: {timeout: 1s}}", []string{"authorizers[2].webhook: Invalid value"}},
		{"a webhook without", "{type: RBAC, name: rbac}", "{type: Webhook, name: x}", []string{"there is no RBAC", "authorizers[2].webhook: Required value"}},
		{"no timeout", "    timeout: 1s\n", "", []string{"authorizers[1].webhook.timeout: Required value"}},
		{"a long timeout", "timeout: 1s", "timeout: 10s", []string{"every request waits up to 10s"}},
		{"v1beta1", "subjectAccessReviewVersion: v1\n", "subjectAccessReviewVersion: v1beta1\n", []string{"v1beta1 is deprecated"}},
		{"no version", "    subjectAccessReviewVersion: v1\n", "", []string{"authorizers[1].webhook.subjectAccessReviewVersion: Required value"}},
		{"no failure policy", "    failurePolicy: Deny\n", "", []string{"authorizers[1].webhook.failurePolicy: Required value"}},
		{"no version of conditions", "    matchConditionSubjectAccessReviewVersion: v1\n", "", []string{"authorizers[1].webhook.matchConditionSubjectAccessReviewVersion: Required value"}},
		{"the example of the KEP", "'system:nodes' in request.groups", "'system:nodes' in request.user.groups", []string{"request.user is a name"}},
		{"a condition that fails for paths", "!('system:nodes' in request.groups)", "request.resourceAttributes.verb == 'system:nodes'", []string{"error: authorizers[1].webhook.matchConditions[1]: it fails for requests for paths, and with failurePolicy Deny"}},
		{"one that fails openly", "failurePolicy: NoOpinion", "failurePolicy: NoOpinion\n    matchConditions: [{expression: \"request.nonResourceAttributes.verb == ''\"}]", []string{"warning: authorizers[3].webhook.matchConditions[0]: it fails for requests for resources;"}},
		{"one that does not", "!('system:nodes' in request.groups)", "!has(request.resourceAttributes) || request.resourceAttributes.verb == 'system:nodes'", nil},
		{"one that does not compile", "!('system:nodes' in request.groups)", "'system:nodes' in request.group", []string{"error: authorizers[1].webhook.matchConditions[1].expression: Invalid value: \"'system:nodes' in request.group\": compilation failed: ERROR: <input>:1:26: undefined field 'group'; API"}},
		{"one twice", "!('system:nodes' in request.groups)", "!(request.user in ['system:kube-controller-manager'])", []string{"the control plane waits", "error: authorizers[1].webhook.matchConditions[1].expression: Duplicate value"}},
		{"RBAC twice", "{type: RBAC, name: rbac}", "{type: RBAC, name: rbac}\n- {type: RBAC, name: rbac}", []string{"error: authorizers[3].type: Duplicate value"}},
		{"a name with capitals", "name: allow", "name: Allow", []string{"error: authorizers[3].name: Invalid value"}},
		{"time that is negative", "unauthorizedTTL: 10s", "unauthorizedTTL: -1s", []string{"error: authorizers[1].webhook.unauthorizedTTL: Invalid value"}},
		{"a relative kubeconfig", "/allow", "allow", []string{"error: authorizers[3].webhook.connectionInfo.kubeConfigFile: Invalid value: \"allow\": must be an absolute path"}},
		{"a missing extra key", "!('system:nodes' in request.groups)", "request.extra['a'][0] == 'system:nodes'", []string{"users without that extra key"}},
		{"conditions for other policies", denyConditions, denyConditions + "\n    - expression: \"has(request.resourceAttributes) ? false : false\"", []string{"error: authorizers[1].webhook.matchConditions[2]: it was written for other policies"}},
		{"nobody is left out", denyConditions, "", []string{"the control plane waits for this webhook"}},
		{"nothing is to be remembered", "unauthorizedTTL: 10s", "unauthorizedTTL: 0s", []string{"0 means 30s"}},
		{"that is said right", "unauthorizedTTL: 10s", "unauthorizedTTL: 0s\n    cacheUnauthorizedRequests: false", nil},
		{"no time for what is allowed", "authorizedTTL: 30s", "authorizedTTL: 0s", []string{"0 means 5m"}},
		{"much time for what is allowed", "authorizedTTL: 30s", "authorizedTTL: 5m", []string{"stays allowed for 5m0s"}},
		{"the cluster itself", "type: KubeConfigFile, kubeConfigFile: /allow", "type: InClusterConfig", []string{"crash with InClusterConfig"}},
		{"another connection", "type: KubeConfigFile, kubeConfigFile: /allow", "type: Carrier", []string{"authorizers[3].webhook.connectionInfo.type: Unsupported value"}},
		{"no kubeconfig", ", kubeConfigFile: /allow", "", []string{"authorizers[3].webhook.connectionInfo.kubeConfigFile: Required value"}},
		{"a kubeconfig elsewhere", "/allow", "/elsewhere", nil},
		{"a kubeconfig that is none", "/allow", "/broken", []string{"/broken: "}},
		{"no context", "/allow", "/nothing", []string{"no current-context"}},
		{"no cluster", "/allow", "/nocluster", []string{`there is no cluster "x"`}},
		{"no URL", "/allow", "/url", []string{"/url: server: "}},
		{"no TLS", "/allow", "/http", []string{"error: authorizers[3].webhook.connectionInfo.kubeConfigFile: /http: the connection does not use TLS"}},
		{"no TLS at home", "/allow", "/loopback", []string{"warning: authorizers[3].webhook.connectionInfo.kubeConfigFile: /loopback: the server is asked without TLS;"}},
		{"no verification", "/allow", "/insecure", []string{"insecure-skip-tls-verify"}},
		{"a query", "/allow", "/other", []string{"drop what follows the ?"}},
		{"denied too late", "kubeConfigFile: /allow", "kubeConfigFile: /deny", []string{"authorizers[3]: it denies what RBAC has allowed before", "the control plane waits"}},
		{"decided too late", "kubeConfigFile: /allow", "kubeConfigFile: /both", []string{"its denials come after RBAC has allowed", "the control plane waits"}},
		{"allowed too early", "kubeConfigFile: /deny", "kubeConfigFile: /allow", []string{"authorizers[1]: what RBAC allows waits for it"}},
		{"Node comes late", "- {type: Node, name: node}\n", "- {type: AlwaysDeny, name: alwaysdeny}\n- {type: Node, name: node}\n", []string{"Node is not the first"}},
	} {
		t.Run(row.reason, func(t *testing.T) {
			t.Parallel()
			if !strings.Contains(good, row.old) {
				t.Fatalf("there is no %s", row.old)
			}
			lint := webhookconfig.Lint{ReadFile: read, Rules: compiled(t, hideDB)}
			problems := lint.Check([]byte(strings.Replace(good, row.old, row.now, 1)))
			if len(problems) != len(row.want) {
				t.Fatalf("got %d problems, want %d:\n%s", len(problems), len(row.want), lines(problems))
			}
			for i, want := range row.want {
				if !strings.Contains(problems[i].String(), want) {
					t.Errorf("got %s\nwant %s", problems[i], want)
				}
			}
		})
	}
}

func TestTooManyConditions(t *testing.T) {
	t.Parallel()
	text := strings.Replace(good, "    matchConditions:\n", "    matchConditions:\n"+strings.Repeat("    - expression: \"true\"\n", 63), 1)
	problems := webhookconfig.Lint{}.Check([]byte(text))
	if len(problems) != 1 || !strings.Contains(problems[0].What, "Too many: 65: must have at most 64 items") {
		t.Error(lines(problems))
	}
}

func lines(problems []rule.Problem) string {
	var b strings.Builder
	for _, p := range problems {
		b.WriteString(p.String() + "\n")
	}
	return b.String()
}
