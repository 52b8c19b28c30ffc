package enforce

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/pflag"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/usher-dev/usher/cmd/usher/internal/cluster"
	"github.com/usher-dev/usher/internal/paths"
	"github.com/usher-dev/usher/internal/proof"
	"github.com/usher-dev/usher/internal/serve"
	"github.com/usher-dev/usher/internal/webhookconfig"
)

// clusterFlags configure how a server takes part in a cluster.
type clusterFlags struct {
	cluster.Flags

	manageWebhookConfigs bool
	name                 string
	service              string
	port                 int32
	url                  string

	failurePolicy     string
	timeoutSeconds    int32
	namespaceSelector string
	objectSelector    string
	compat            bool
	writeSpecs        bool

	certSecret  string
	pathSecret  string
	proofSecret string
	identity    string
	watch       []string
	admission   string
	denials     bool
}

func (f *clusterFlags) registerIn(flags *pflag.FlagSet) {
	f.Flags.Register(flags)
	flags.BoolVar(&f.manageWebhookConfigs, "manage-webhook-configurations", true, "in a cluster, create and update the webhook configurations that make API servers call this server")
	flags.StringVar(&f.name, "webhook-configuration-name", "", "name of the webhook configurations (default: usher)")
	flags.StringVar(&f.service, "service", "", "Service in --namespace by which API servers reach this server (default with --in-cluster: usher)")
	flags.Int32Var(&f.port, "service-port", 443, "port of --service")
	flags.StringVar(&f.url, "webhook-url", "", "HTTPS URL at which API servers reach this server, if it is not behind a Service")
	flags.StringVar(&f.failurePolicy, "webhook-failure-policy", string(admissionv1.Ignore), "what API servers do when no server answers: Ignore lets the request pass, Fail denies it")
	flags.Int32Var(&f.timeoutSeconds, "webhook-timeout-seconds", 5, "timeout of API servers for an answer, from 1 to 30; at least 20 for writes of policies")
	flags.StringVar(&f.namespaceSelector, "webhook-namespace-selector", "", "label selector of the namespaces whose objects API servers send, such as 'env in (test, prod)'")
	flags.StringVar(&f.objectSelector, "webhook-object-selector", "", "label selector of the objects that API servers send; it applies to policies, too, which are checked only if they match")
	flags.BoolVar(&f.compat, "compat-label", false, "make API servers send only objects with the label kinitiras.kcloudlabs.io/webhook: enabled")
	flags.BoolVar(&f.writeSpecs, "write-specs", false, "when policies are written, fill in renderedCue and affectMode, as kinitiras does; GitOps tools report that as drift (default with --compat-label: true)")
	flags.StringVar(&f.certSecret, "cert-secret", "", "Secret in --namespace in which replicas keep the CA and certificate that they share (default with --in-cluster: usher-cert)")
	flags.StringVar(&f.pathSecret, "path-secret", paths.DefaultSecret, "Secret in --namespace with the keys of the URL paths; replicas share it, so that nobody else can guess the paths")
	flags.StringVar(&f.proofSecret, "proof-secret", proof.DefaultSecret, "Secret in --namespace with the keys of policy proofs; without a proof, policies of namespaces, authorization policies and exemptions are not in force")
	flags.StringVar(&f.identity, "identity", "", "unique name of this replica (default: $POD_NAME, or derived from the host name)")
	flags.StringVar(&f.admission, "admission-policies", string(serve.ReadAdmissionPolicies), "what to do with the admission policies of Kubernetes that the cluster has: read leaves them to the API server, enforce is for API servers that do not enforce them, off ignores them")
	flags.BoolVar(&f.denials, "denial-events", false, "in a cluster, write Events about requests that policies deny: for each policy and namespace one at once, then one a minute, with a count")
	flags.StringSliceVar(&f.watch, "pre-cache-resources", nil, "kinds to watch from the start, as Kind/version or Kind/group/version; others are watched when policies first need them")
}

// writesSpecs reports whether specs of policies are filled in; given says that the flag is set.
func (f *clusterFlags) writesSpecs(given bool) bool {
	if given {
		return f.writeSpecs
	}
	return f.compat
}

// complete turns the flags into the configuration of the cluster; nil if the server does not use
// one. ownCert reports whether the certificate is in files.
func (f *clusterFlags) complete(ownCert bool, log *slog.Logger) (*serve.Cluster, error) {
	if err := f.Flags.Complete(); err != nil {
		return nil, err
	}
	if !f.Given() {
		if f.url != "" || f.service != "" || f.certSecret != "" {
			return nil, errors.New("--webhook-url, --service and --cert-secret need a cluster: name it with --kubeconfig or --in-cluster")
		}
		return nil, nil
	}
	registration, err := f.registration(log)
	if err != nil {
		return nil, err
	}
	kinds, err := parseKinds(f.watch)
	if err != nil {
		return nil, err
	}
	admission := serve.AdmissionPolicies(f.admission)
	switch admission {
	case serve.ReadAdmissionPolicies, serve.EnforceAdmissionPolicies, serve.IgnoreAdmissionPolicies:
	default:
		return nil, fmt.Errorf("--admission-policies %s: use read, enforce or off", f.admission)
	}
	secret := cmp.Or(f.certSecret, os.Getenv("SECRET"))
	switch {
	case ownCert && f.certSecret != "":
		return nil, errors.New("--cert-secret and --tls-cert-file exclude each other")
	case ownCert:
		secret = ""
	case secret == "" && f.InCluster:
		secret = "usher-cert"
	}
	clients, err := f.Connect()
	if err != nil {
		return nil, err
	}
	return &serve.Cluster{
		Clients: clients, Namespace: f.Namespace, Identity: f.replica(), CertSecret: secret, PathSecret: f.pathSecret, ProofSecret: f.proofSecret,
		WebhookConfig: registration, ManageWebhookConfig: f.manageWebhookConfigs, Watch: kinds,
		AdmissionPolicies: admission, DenialEvents: f.denials,
	}, nil
}

// registration returns the options of the webhook configurations, from the flags and the
// environment variables of kinitiras.
func (f *clusterFlags) registration(log *slog.Logger) (webhookconfig.Options, error) {
	o := webhookconfig.Options{
		Name: f.name, Service: f.service, Port: f.port, URL: f.url, TimeoutSeconds: f.timeoutSeconds, Compat: f.compat,
	}
	if o.Name == "" {
		mutating, validating := os.Getenv("MUTATING_CONFIG"), os.Getenv("VALIDATING_CONFIG")
		o.Name = cmp.Or(mutating, validating)
		if mutating != "" && validating != "" && mutating != validating {
			o.Name = ""
			log.Warn("MUTATING_CONFIG and VALIDATING_CONFIG differ and are ignored: both configurations have one name",
				"do", "use --webhook-configuration-name")
		}
	}
	if o.Service == "" && o.URL == "" {
		o.Service = os.Getenv("SERVICE_NAME")
		if o.Service == "" && f.InCluster {
			o.Service = "usher"
		}
	}
	switch o.FailurePolicy = admissionv1.FailurePolicyType(f.failurePolicy); o.FailurePolicy {
	case admissionv1.Fail, admissionv1.Ignore:
	default:
		return o, fmt.Errorf("--webhook-failure-policy %s: use Fail or Ignore", f.failurePolicy)
	}
	if f.timeoutSeconds < 1 || f.timeoutSeconds > 30 {
		return o, fmt.Errorf("--webhook-timeout-seconds %d: not between 1 and 30", f.timeoutSeconds)
	}
	var err error
	if o.NamespaceSelector, err = parseSelector("--webhook-namespace-selector", f.namespaceSelector); err != nil {
		return o, err
	}
	if o.ObjectSelector, err = parseSelector("--webhook-object-selector", f.objectSelector); err != nil {
		return o, err
	}
	return o, f.checkAddress(o)
}

func (f *clusterFlags) checkAddress(o webhookconfig.Options) error {
	if f.service != "" && f.url != "" {
		return errors.New("--service and --webhook-url exclude each other")
	}
	if o.Service == "" && o.URL == "" && f.manageWebhookConfigs {
		return errors.New("API servers need an address for this server: set --webhook-url or --service, or disable webhook configurations with --manage-webhook-configurations=false")
	}
	if o.URL == "" {
		return nil
	}
	u, err := url.Parse(o.URL)
	if err != nil || u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("--webhook-url %s: not of the form https://HOST:PORT", o.URL)
	}
	return nil
}

// replica returns the name of this replica. A host may run several replicas, a pod runs one.
func (f *clusterFlags) replica() string {
	if name := cmp.Or(f.identity, os.Getenv("POD_NAME")); name != "" {
		return name
	}
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "usher"
	}
	if f.InCluster {
		return host
	}
	return fmt.Sprintf("%s-%d", host, os.Getpid())
}

func parseSelector(flag, text string) (*metav1.LabelSelector, error) {
	if text == "" {
		return nil, nil
	}
	selector, err := metav1.ParseToLabelSelector(text)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", flag, text, err)
	}
	return selector, nil
}

// parseKinds reads kinds in the notation of kinitiras.
func parseKinds(texts []string) ([]schema.GroupVersionKind, error) {
	var kinds []schema.GroupVersionKind
	for _, text := range texts {
		parts := strings.Split(text, "/")
		for _, part := range parts {
			if part == "" {
				parts = nil
			}
		}
		switch len(parts) {
		case 2:
			kinds = append(kinds, schema.GroupVersionKind{Kind: parts[0], Version: parts[1]})
		case 3:
			kinds = append(kinds, schema.GroupVersionKind{Kind: parts[0], Group: parts[1], Version: parts[2]})
		default:
			return nil, fmt.Errorf("--pre-cache-resources %s: not of the form Kind/version or Kind/group/version", text)
		}
	}
	return kinds, nil
}
