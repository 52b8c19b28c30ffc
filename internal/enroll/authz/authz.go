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
	"path"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiserverv1 "k8s.io/apiserver/pkg/apis/apiserver/v1"
	"sigs.k8s.io/yaml"

	"github.com/usher-dev/usher/rule/authz"
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
	// CAFile vouches for the server. ClientCertFile and ClientKeyFile, or TokenFile, show
	// the server who asks.
	CAFile                        string
	ClientCertFile, ClientKeyFile string
	TokenFile                     string

	// FailurePolicy is what becomes of requests that the first webhook cannot decide:
	// NoOpinion, also if it is empty, or Deny.
	FailurePolicy string
	// Timeout is how long API servers wait for an answer, at most 30 seconds; 0 means one
	// second.
	Timeout time.Duration
	// Self is the user that Usher is to its API server, whose requests are not sent.
	Self string
	// Rules are those in force. Only requests that they may deny are sent to the webhook
	// that denies, which has to be written anew when they change. Any sends all, and does not.
	Rules []*authz.Rule
	Any   bool
}

// Timeouts of the webhooks. A denial, and a new one, takes as long to be noticed as API
// servers remember that there was none.
const (
	defaultTimeout = time.Second
	maxTimeout     = 30 * time.Second
	allowedTTL     = 30 * time.Second
	undecidedTTL   = 10 * time.Second
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

// A File is one to be written.
type File struct {
	Name    string
	Content []byte
}

// Generate returns the files for --authorization-config, that first.
func Generate(o Options) ([]File, error) {
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
	files := []File{{ConfigurationFile, configuration}}
	for _, webhook := range []struct{ file, path string }{{denyFile, "/authorize/deny"}, {allowFile, "/authorize/allow"}} {
		file, err := o.kubeconfig(webhook.file, webhook.path)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	return files, nil
}

// Legacy returns the file for --authorization-webhook-config-file, by which an API server
// asks one webhook for everything.
func Legacy(o Options) (File, error) {
	o, err := o.withDefaults()
	if err != nil {
		return File{}, err
	}
	return o.kubeconfig(legacyFile, "/authorize")
}

func (o Options) withDefaults() (Options, error) {
	u, err := url.Parse(o.Server)
	if err != nil || u.Scheme != "https" || u.Host == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
		return o, fmt.Errorf("server %q: https://, a host and a port are wanted, such as https://127.0.0.1:8444", o.Server)
	}
	o.Server = "https://" + u.Host
	o.Dir = cmp.Or(o.Dir, "/etc/kubernetes/usher")
	if !path.IsAbs(o.Dir) {
		return o, fmt.Errorf("folder %q: API servers want a path that begins with /", o.Dir)
	}
	if o.Timeout = cmp.Or(o.Timeout, defaultTimeout); o.Timeout < 0 || o.Timeout > maxTimeout {
		return o, fmt.Errorf("timeout %s: API servers want more than 0 and at most %s", o.Timeout, maxTimeout)
	}
	switch o.FailurePolicy = cmp.Or(o.FailurePolicy, apiserverv1.FailurePolicyNoOpinion); {
	case o.FailurePolicy != apiserverv1.FailurePolicyNoOpinion && o.FailurePolicy != apiserverv1.FailurePolicyDeny:
		return o, fmt.Errorf("failure policy %q: use NoOpinion or Deny", o.FailurePolicy)
	case o.FailurePolicy == apiserverv1.FailurePolicyDeny && !isLoopback(u.Hostname()):
		return o, fmt.Errorf("failure policy Deny with the server %s: a network between API server and webhook would lock everybody out; run usher on the hosts of the API servers, at 127.0.0.1", u.Host)
	case (o.ClientCertFile == "") != (o.ClientKeyFile == ""):
		return o, fmt.Errorf("client certificate %q and key %q: they come together", o.ClientCertFile, o.ClientKeyFile)
	}
	return o, nil
}

func isLoopback(host string) bool {
	if address, err := netip.ParseAddr(host); err == nil {
		return address.IsLoopback()
	}
	return host == "localhost"
}

func (o Options) webhook(file, failurePolicy string, conditions []apiserverv1.WebhookMatchCondition) *apiserverv1.WebhookConfiguration {
	location := o.file(file)
	return &apiserverv1.WebhookConfiguration{
		AuthorizedTTL:                            metav1.Duration{Duration: allowedTTL},
		UnauthorizedTTL:                          metav1.Duration{Duration: undecidedTTL},
		Timeout:                                  metav1.Duration{Duration: o.Timeout},
		SubjectAccessReviewVersion:               "v1",
		MatchConditionSubjectAccessReviewVersion: "v1",
		FailurePolicy:                            failurePolicy,
		ConnectionInfo:                           apiserverv1.WebhookConnectionInfo{Type: apiserverv1.AuthorizationWebhookConnectionInfoTypeKubeConfigFile, KubeConfigFile: &location},
		MatchConditions:                          conditions,
	}
}

// file is where a file is on the hosts of the API servers.
func (o Options) file(name string) string {
	if name == "" || path.IsAbs(name) {
		return name
	}
	return path.Join(o.Dir, name)
}

// A kubeconfig as API servers read it to find webhooks: cluster is the webhook, and user
// is the API server.
type kubeconfig struct {
	APIVersion     string         `json:"apiVersion"`
	Kind           string         `json:"kind"`
	Clusters       []namedCluster `json:"clusters"`
	Users          []namedUser    `json:"users"`
	Contexts       []namedContext `json:"contexts"`
	CurrentContext string         `json:"current-context"`
}

type namedCluster struct {
	Name    string  `json:"name"`
	Cluster cluster `json:"cluster"`
}

type cluster struct {
	Server                   string `json:"server"`
	CertificateAuthority     string `json:"certificate-authority,omitempty"`
	CertificateAuthorityData string `json:"certificate-authority-data,omitempty"`
	InsecureSkipTLSVerify    bool   `json:"insecure-skip-tls-verify,omitempty"`
}

type namedUser struct {
	Name string `json:"name"`
	User user   `json:"user"`
}

type user struct {
	ClientCertificate     string `json:"client-certificate,omitempty"`
	ClientCertificateData string `json:"client-certificate-data,omitempty"`
	ClientKey             string `json:"client-key,omitempty"`
	Token                 string `json:"token,omitempty"`
	TokenFile             string `json:"tokenFile,omitempty"`
	Exec                  any    `json:"exec,omitempty"`
}

type namedContext struct {
	Name    string      `json:"name"`
	Context contextPair `json:"context"`
}

type contextPair struct {
	Cluster string `json:"cluster"`
	User    string `json:"user"`
}

func (o Options) kubeconfig(name, path string) (File, error) {
	content, err := yaml.Marshal(kubeconfig{
		APIVersion: "v1", Kind: "Config", CurrentContext: "usher",
		Clusters: []namedCluster{{"usher", cluster{Server: o.Server + path, CertificateAuthority: o.file(o.CAFile)}}},
		Users: []namedUser{{"kube-apiserver", user{
			ClientCertificate: o.file(o.ClientCertFile), ClientKey: o.file(o.ClientKeyFile), TokenFile: o.file(o.TokenFile),
		}}},
		Contexts: []namedContext{{"usher", contextPair{"usher", "kube-apiserver"}}},
	})
	if err != nil {
		return File{}, fmt.Errorf("encode kubeconfig: %w", err)
	}
	return File{name, content}, nil
}
