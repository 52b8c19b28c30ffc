package authz

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	apiserverv1 "k8s.io/apiserver/pkg/apis/apiserver/v1"
	clientcmdv1 "k8s.io/client-go/tools/clientcmd/api/v1"
	"sigs.k8s.io/yaml"

	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/rule/authz"
)

// A Lint is what an AuthorizationConfiguration is compared with.
type Lint struct {
	// ReadFile reads a kubeconfig of the configuration. One that cannot be read is not checked: it
	// is on another host.
	ReadFile func(name string) ([]byte, error)
	// Rules are the rules to enforce; nil if unknown.
	Rules []*authz.Rule
}

// Check checks an AuthorizationConfiguration: for what stops an API server or makes it fail, and
// for what makes Usher's responses come too late.
func (l Lint) Check(configuration []byte) []rule.Problem {
	var c apiserverv1.AuthorizationConfiguration
	if err := yaml.UnmarshalStrict(configuration, &c); err != nil {
		return []rule.Problem{{Severity: rule.Error, What: err.Error(), Do: refused}}
	}
	k := &check{lint: l, configuration: &c}
	k.head()
	for i := range c.Authorizers {
		k.at = fmt.Sprintf("authorizers[%d]", i)
		k.authorizer(i)
	}
	k.order()
	k.shape(configuration)
	rule.SortProblems(k.problems)
	return k.problems
}

// check gathers problems.
type check struct {
	lint          Lint
	configuration *apiserverv1.AuthorizationConfiguration
	// at is the field that is checked.
	at       string
	problems []rule.Problem
	// endpoints are the paths of the webhooks, by place; empty if unknown.
	endpoints map[int]string
}

func (k *check) fail(field, what, do string) { k.add(rule.Error, field, what, do) }

func (k *check) warn(field, what, do string) { k.add(rule.Warning, field, what, do) }

func (k *check) add(severity rule.Severity, field, what, do string) {
	if k.at != "" && field != "" {
		field = k.at + "." + field
	} else if k.at != "" {
		field = k.at
	}
	k.problems = append(k.problems, rule.Problem{Severity: severity, Field: field, What: what, Do: do})
}

func (k *check) head() {
	c := k.configuration
	if c.Kind != "AuthorizationConfiguration" {
		k.fail("kind", fmt.Sprintf("%q is not AuthorizationConfiguration", c.Kind), "write kind: AuthorizationConfiguration")
	}
	if group, version, _ := strings.Cut(c.APIVersion, "/"); group != "apiserver.config.k8s.io" {
		k.fail("apiVersion", fmt.Sprintf("%q is not known", c.APIVersion), "write apiVersion: "+configurationVersion)
	} else if version != "v1" {
		k.warn("apiVersion", version+" is an old version", "write apiVersion: "+configurationVersion)
	}
}

func (k *check) authorizer(i int) {
	a := &k.configuration.Authorizers[i]
	switch {
	case a.Type == "Webhook" && a.Webhook != nil:
		k.webhook(i, a.Webhook)
	case a.Type == "AlwaysAllow":
		k.fail("type", "everything is allowed that was not denied before", "remove it")
	case a.Type != "Webhook" && types().Has(a.Type) && a.Name != strings.ToLower(a.Type):
		k.fail("name", fmt.Sprintf("an authorizer of the type %s is called %q", a.Type, a.Name), "call it "+strings.ToLower(a.Type)+": API servers insist on it")
	}
}

func (k *check) webhook(i int, w *apiserverv1.WebhookConfiguration) {
	if t := w.Timeout.Duration; t > 5*time.Second {
		k.warn("webhook.timeout", fmt.Sprintf("every request waits up to %s for a webhook that hangs", t), "write 1s")
	}
	if w.SubjectAccessReviewVersion == "v1beta1" {
		k.warn("webhook.subjectAccessReviewVersion", "v1beta1 is deprecated, and many servers lose the groups of the user in it", "write v1")
	}
	k.conditions(w)
	k.ttls(w)
	k.connection(i, w)
	k.target(i, w)
}

func (k *check) conditions(w *apiserverv1.WebhookConfiguration) {
	for i, condition := range w.MatchConditions {
		field := fmt.Sprintf("webhook.matchConditions[%d]", i)
		if strings.Contains(condition.Expression, "request.user.") {
			k.fail(field, "request.user is a name and has no fields", "write request.groups, request.uid or request.extra")
		}
		what, can := canFail(condition.Expression)
		switch {
		case !can:
		case w.FailurePolicy == apiserverv1.FailurePolicyDeny:
			k.fail(field, what+", and with failurePolicy Deny that refuses them with an error", "begin the condition with a test, such as !has(request.resourceAttributes) ||")
		default:
			k.warn(field, what, "begin the condition with a test, such as !has(request.resourceAttributes) ||")
		}
	}
}

// canFail returns for which requests an expression fails, as far as its text shows.
func canFail(expression string) (string, bool) {
	for _, attributes := range []struct{ name, of string }{
		{"resourceAttributes", "paths"}, {"nonResourceAttributes", "resources"},
	} {
		used := strings.Index(expression, "request."+attributes.name+".")
		tested := strings.Index(expression, "has(request."+attributes.name+")")
		// A request has one or the other, and the generated conditions test only for one.
		other := strings.Index(expression, "has(request.resourceAttributes) ?")
		if used >= 0 && (tested < 0 || tested > used) && (other < 0 || other > used) {
			return "it fails for requests for " + attributes.of, true
		}
	}
	if strings.Contains(expression, "request.extra[") && !strings.Contains(expression, " in request.extra") {
		return "it fails for users without that extra key", true
	}
	return "", false
}

func (k *check) ttls(w *apiserverv1.WebhookConfiguration) {
	cached := func(flag *bool) bool { return flag == nil || *flag }
	if w.AuthorizedTTL.Duration == 0 && cached(w.CacheAuthorizedRequests) {
		k.warn("webhook.authorizedTTL", "0 means 5m, not that nothing is remembered", "write cacheAuthorizedRequests: false, or a time")
	}
	if w.UnauthorizedTTL.Duration == 0 && cached(w.CacheUnauthorizedRequests) {
		k.warn("webhook.unauthorizedTTL", "0 means 30s, not that nothing is remembered", "write cacheUnauthorizedRequests: false, or a time")
	}
	if t := w.AuthorizedTTL.Duration; t > time.Minute && cached(w.CacheAuthorizedRequests) {
		k.warn("webhook.authorizedTTL", fmt.Sprintf("what is taken away stays allowed for %s", t), "write 30s")
	}
}

func (k *check) connection(i int, w *apiserverv1.WebhookConfiguration) {
	switch c := w.ConnectionInfo; {
	case c.Type == apiserverv1.AuthorizationWebhookConnectionInfoTypeInCluster:
		k.fail("webhook.connectionInfo.type", "kube-apiserver 1.36 and before crash with InClusterConfig, also when they read the file again", "use KubeConfigFile")
	case c.KubeConfigFile != nil:
		k.kubeconfig(i, *c.KubeConfigFile)
	}
}

// kubeconfig checks a webhook's kubeconfig, if it can be read.
func (k *check) kubeconfig(i int, name string) {
	if k.lint.ReadFile == nil {
		return
	}
	content, err := k.lint.ReadFile(name)
	if err != nil {
		return
	}
	var c clientcmdv1.Config
	if err := yaml.Unmarshal(content, &c); err != nil {
		k.fail("webhook.connectionInfo.kubeConfigFile", name+": "+err.Error(), "mend the file")
		return
	}
	found := slices.IndexFunc(c.Contexts, func(n clientcmdv1.NamedContext) bool { return n.Name == c.CurrentContext })
	if c.CurrentContext == "" || found < 0 {
		k.fail("webhook.connectionInfo.kubeConfigFile", name+": no current-context", "name the context that says where the webhook is")
		return
	}
	pair := c.Contexts[found].Context
	at := slices.IndexFunc(c.Clusters, func(n clientcmdv1.NamedCluster) bool { return n.Name == pair.Cluster })
	if at < 0 {
		k.fail("webhook.connectionInfo.kubeConfigFile", fmt.Sprintf("%s: there is no cluster %q", name, pair.Cluster), "write one: the cluster is the webhook")
		return
	}
	k.server(i, name, c.Clusters[at].Cluster)
}

func (k *check) server(i int, name string, c clientcmdv1.Cluster) {
	u, err := url.Parse(c.Server)
	if err != nil {
		k.fail("webhook.connectionInfo.kubeConfigFile", fmt.Sprintf("%s: server: %v", name, err), "mend it")
		return
	}
	switch {
	case u.Scheme == "http" && !isLoopback(u.Hostname()):
		k.fail("webhook.connectionInfo.kubeConfigFile", name+": the connection does not use TLS: an attacker on the network can answer", "use https")
	case u.Scheme == "http":
		k.warn("webhook.connectionInfo.kubeConfigFile", name+": the server is asked without TLS", "use https")
	}
	if c.InsecureSkipTLSVerify {
		k.fail("webhook.connectionInfo.kubeConfigFile", name+": insecure-skip-tls-verify: an attacker on the network can answer", "use certificate-authority")
	}
	if u.RawQuery != "" {
		k.warn("webhook.connectionInfo.kubeConfigFile", name+": API servers drop what follows the ? in the server", "remove it")
	}
	k.endpoint(i, u.Path)
}

func (k *check) endpoint(i int, path string) {
	if k.endpoints == nil {
		k.endpoints = map[int]string{}
	}
	k.endpoints[i] = path
}

// target compares the conditions of the webhook that denies with the policies.
func (k *check) target(i int, w *apiserverv1.WebhookConfiguration) {
	if k.endpoints[i] != "/authorize/deny" && k.endpoints[i] != "/authorize" {
		return
	}
	excluded := func(who string) bool {
		return slices.ContainsFunc(w.MatchConditions, func(c apiserverv1.WebhookMatchCondition) bool { return strings.Contains(c.Expression, who) })
	}
	if !excluded("system:nodes") || !excluded("system:kube-controller-manager") {
		k.warn("webhook.matchConditions", "the control plane waits for this webhook, too", "leave its users out: usher authz config writes the conditions")
	}
	for j, condition := range w.MatchConditions {
		if k.lint.Rules == nil || !strings.HasPrefix(condition.Expression, "has(request.resourceAttributes) ? ") {
			continue
		}
		if condition.Expression != Target(k.lint.Rules) {
			k.fail(fmt.Sprintf("webhook.matchConditions[%d]", j), "it was written for other policies: what they deny now may not be asked about", "run usher authz config again, or write conditions that do not depend on policies with --match all")
		}
	}
}

// order checks the order of authorizers.
func (k *check) order() {
	k.at = "authorizers"
	place := func(kind string) int {
		return slices.IndexFunc(k.configuration.Authorizers, func(a apiserverv1.AuthorizerConfiguration) bool { return a.Type == kind })
	}
	node, rbac := place("Node"), place("RBAC")
	if node < 0 {
		k.warn("", "there is no Node: kubelets can do what RBAC allows them, which is nothing", "put it first")
	} else if node > 0 {
		k.warn("", "Node is not the first: what kubelets ask goes through others before", "put it first")
	}
	if rbac < 0 {
		k.warn("", "there is no RBAC: controllers can do nothing that Usher does not allow", "add it")
	}
	for i := range k.configuration.Authorizers {
		k.at = fmt.Sprintf("authorizers[%d]", i)
		switch path := k.endpoints[i]; {
		case path == "/authorize/deny" && rbac >= 0 && i > rbac:
			k.warn("", "it denies what RBAC has allowed before", "put it before RBAC")
		case path == "/authorize" && rbac >= 0 && i > rbac:
			k.warn("", "its denials come after RBAC has allowed", "use two webhooks: usher authz config writes them")
		case path == "/authorize/allow" && rbac >= 0 && i < rbac:
			k.warn("", "what RBAC allows waits for it", "put it behind RBAC")
		}
	}
}
