// Package authz writes what API servers need to ask Usher for authorization, and says what
// is wrong with what others have written: the AuthorizationConfiguration of kube-apiserver,
// and the kubeconfigs that it names.
//
// There are two webhooks rather than one. The first only denies, and comes before all that
// allows; the last only allows, and is asked about what nobody has allowed. What RBAC
// allows goes on when Usher does not.
package authz

import (
	"cmp"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiserverv1 "k8s.io/apiserver/pkg/apis/apiserver/v1"
	clientcmdv1 "k8s.io/client-go/tools/clientcmd/api/v1"
	"sigs.k8s.io/yaml"

	"github.com/usher-dev/usher/internal/rule/authz"
	"github.com/usher-dev/usher/internal/webhookconfig/credential"
)

// Options say where the webhooks are and what an API server shows them. Only Server is
// needed.
type Options struct {
	// Server is the URL of usher serve --authorization-address, without path.
	Server string
	// Dir is where the kubeconfigs are going to be on the hosts of the API servers;
	// /etc/kubernetes/usher if empty. Other names of files, unless they begin with a
	// slash, are relative to it.
	Dir string
	// CAFile is the CA of the server. Client authenticates the API server.
	CAFile string
	Client credential.Credential

	// FailurePolicy is how to handle requests that the first webhook cannot decide: NoOpinion, also
	// if it is empty, or Deny.
	FailurePolicy string
	// Timeout is how long API servers wait for an answer, at most 30 seconds; 0 means one
	// second.
	Timeout time.Duration
	// AuthorizedTTL is how long API servers cache that a request is allowed, and UnauthorizedTTL
	// that it is not: 0 means 30 and 10 seconds, negative that they do not cache.
	AuthorizedTTL, UnauthorizedTTL time.Duration
	// Self is the user of Usher at its API server, whose requests are not sent.
	Self string
	// Rules are those in force. Only requests that they may deny are sent to the webhook
	// that denies, which has to be written again when they change. Any sends all, and does not.
	Rules []*authz.Rule
	Any   bool
}

// Timeouts of the webhooks. A denial, or the end of one, takes effect when the API servers' cached
// decisions expire.
const (
	defaultTimeout = time.Second
	maxTimeout     = 30 * time.Second
	// DefaultAuthorizedTTL and DefaultUnauthorizedTTL are how long API servers cache decisions.
	DefaultAuthorizedTTL   = 30 * time.Second
	DefaultUnauthorizedTTL = 10 * time.Second
)

// configurationVersion is that of the AuthorizationConfiguration that is written.
const configurationVersion = "apiserver.config.k8s.io/v1"

// The names of the webhooks, which are in metrics of API servers.
const (
	denyName  = "deny.usher.dev"
	allowName = "allow.usher.dev"
)

// The names of the files.
const (
	ConfigurationFile = "authorization.yaml"
	denyFile          = "deny.kubeconfig"
	allowFile         = "allow.kubeconfig"
	legacyFile        = "webhook.kubeconfig"
)

// Generate returns the files for --authorization-config, that first.
func Generate(o Options) ([]credential.File, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	c := apiserverv1.AuthorizationConfiguration{
		TypeMeta: metav1.TypeMeta{APIVersion: configurationVersion, Kind: "AuthorizationConfiguration"},
		Authorizers: []apiserverv1.AuthorizerConfiguration{
			{Type: "Node", Name: "node"},
			{Type: "Webhook", Name: denyName, Webhook: o.webhook(denyFile, o.FailurePolicy, o.conditions())},
			{Type: "RBAC", Name: "rbac"},
			{Type: "Webhook", Name: allowName, Webhook: o.webhook(allowFile, apiserverv1.FailurePolicyNoOpinion, []apiserverv1.WebhookMatchCondition{})},
		},
	}
	configuration, err := yaml.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("encode AuthorizationConfiguration: %w", err)
	}
	files := []credential.File{{Name: ConfigurationFile, Content: configuration}}
	for _, webhook := range []struct{ file, path string }{{denyFile, "/authorize/deny"}, {allowFile, "/authorize/allow"}} {
		file, err := o.kubeconfig(webhook.file, webhook.path)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	return files, nil
}

// Legacy returns the file for --authorization-webhook-config-file, with which an API server calls
// one webhook for everything.
func Legacy(o Options) (credential.File, error) {
	o, err := o.withDefaults()
	if err != nil {
		return credential.File{}, err
	}
	return o.kubeconfig(legacyFile, "/authorize")
}

func (o Options) withDefaults() (Options, error) {
	u, err := url.Parse(o.Server)
	if err != nil || u.Scheme != "https" || u.Host == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
		return o, fmt.Errorf("server %q: expected https://, a host and a port, such as https://127.0.0.1:8444", o.Server)
	}
	o.Server = "https://" + u.Host
	if o.Dir, err = credential.Dir(o.Dir); err != nil {
		return o, err
	}
	if o.Timeout = cmp.Or(o.Timeout, defaultTimeout); o.Timeout < 0 || o.Timeout > maxTimeout {
		return o, fmt.Errorf("timeout %s: expected more than 0 and at most %s", o.Timeout, maxTimeout)
	}
	o.AuthorizedTTL, o.UnauthorizedTTL = cmp.Or(o.AuthorizedTTL, DefaultAuthorizedTTL), cmp.Or(o.UnauthorizedTTL, DefaultUnauthorizedTTL)
	switch o.FailurePolicy = cmp.Or(o.FailurePolicy, apiserverv1.FailurePolicyNoOpinion); {
	case o.FailurePolicy != apiserverv1.FailurePolicyNoOpinion && o.FailurePolicy != apiserverv1.FailurePolicyDeny:
		return o, fmt.Errorf("failure policy %q: use NoOpinion or Deny", o.FailurePolicy)
	case o.FailurePolicy == apiserverv1.FailurePolicyDeny && !isLoopback(u.Hostname()):
		return o, fmt.Errorf("failure policy Deny with the server %s: a network between API server and webhook would lock everybody out; run usher on the hosts of the API servers, at 127.0.0.1", u.Host)
	}
	return o, o.Client.Check()
}

func isLoopback(host string) bool {
	if address, err := netip.ParseAddr(host); err == nil {
		return address.IsLoopback()
	}
	return host == "localhost"
}

func (o Options) webhook(file, failurePolicy string, conditions []apiserverv1.WebhookMatchCondition) *apiserverv1.WebhookConfiguration {
	location := credential.Path(o.Dir, file)
	return &apiserverv1.WebhookConfiguration{
		AuthorizedTTL:                            metav1.Duration{Duration: max(o.AuthorizedTTL, 0)},
		CacheAuthorizedRequests:                  caches(o.AuthorizedTTL),
		UnauthorizedTTL:                          metav1.Duration{Duration: max(o.UnauthorizedTTL, 0)},
		CacheUnauthorizedRequests:                caches(o.UnauthorizedTTL),
		Timeout:                                  metav1.Duration{Duration: o.Timeout},
		SubjectAccessReviewVersion:               "v1",
		MatchConditionSubjectAccessReviewVersion: "v1",
		FailurePolicy:                            failurePolicy,
		ConnectionInfo:                           apiserverv1.WebhookConnectionInfo{Type: apiserverv1.AuthorizationWebhookConnectionInfoTypeKubeConfigFile, KubeConfigFile: &location},
		MatchConditions:                          conditions,
	}
}

// caches returns false for decisions that must not be cached, since API servers take a TTL of 0 for
// their default, and nil otherwise.
func caches(ttl time.Duration) *bool {
	if ttl < 0 {
		return new(bool)
	}
	return nil
}

// kubeconfig is one as API servers read it to find webhooks: cluster is the webhook, and user
// is the API server.
func (o Options) kubeconfig(name, path string) (credential.File, error) {
	return credential.Kubeconfig(name, clientcmdv1.Config{
		CurrentContext: "usher",
		Clusters:       []clientcmdv1.NamedCluster{{Name: "usher", Cluster: clientcmdv1.Cluster{Server: o.Server + path, CertificateAuthority: credential.Path(o.Dir, o.CAFile)}}},
		AuthInfos:      []clientcmdv1.NamedAuthInfo{{Name: "kube-apiserver", AuthInfo: o.Client.User(o.Dir)}},
		Contexts:       []clientcmdv1.NamedContext{{Name: "usher", Context: clientcmdv1.Context{Cluster: "usher", AuthInfo: "kube-apiserver"}}},
	})
}
