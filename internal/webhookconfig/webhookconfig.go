// Package webhookconfig registers Usher with an API server: it keeps one mutating and one
// validating webhook configuration, with only the entries that the policies in force need.
//
//	e := webhookconfig.New(kube, mapper, webhookconfig.Options{Namespace: "usher-system", Service: "usher"})
//	err := e.Apply(ctx, rule.Cover(rules), caBundle)
//
// What a cluster needs to recover is never sent, regardless of policies and options: see the
// conditions in conditions.go. Users who may delete a webhook configuration can always turn Usher
// off, since API servers do not send writes of webhook configurations to webhooks.
package webhookconfig

import (
	"cmp"
	"log/slog"
	"sync"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// DefaultName is the name of the webhook configurations unless [Options] have another.
const DefaultName = "usher"

// Options say how Usher is registered. Only what leads to the server is needed: Service
// with Namespace, or URL.
type Options struct {
	// Name is that of both configurations; empty means [DefaultName].
	Name string

	// Namespace is the one that Usher runs in: its objects, other than policies, are never sent. Service is
	// the name of its Service there, Port that of the Service; 0 means 443.
	Namespace string
	Service   string
	Port      int32
	// URL is where the paths of the entries are, for a server outside the cluster. It wins
	// over Service.
	URL string
	// Path tells the URL path of an entry, such as mutate, each time that the registration
	// is made; nil means a slash and the name.
	Path func(entry string) string

	// FailurePolicy is what API servers do when they get no answer; empty means Ignore.
	FailurePolicy admissionv1.FailurePolicyType
	// TimeoutSeconds is how long they wait; 0 means 5.
	TimeoutSeconds int32
	// ReviewVersions are in order of preference; none means v1, v1beta1.
	ReviewVersions []string
	// Reinvocation says whether to be asked again about what later webhooks have
	// changed; empty means Never.
	Reinvocation admissionv1.ReinvocationPolicyType

	// NamespaceSelector and ObjectSelector narrow down what is sent further. Policies are
	// sent when they are written, whatever these select.
	NamespaceSelector, ObjectSelector *metav1.LabelSelector
	// Compat asks, as the original's manifests do, only for objects that carry the label
	// kinitiras.kcloudlabs.io/webhook: enabled. That is a choice made object by object,
	// so that nothing in kube-system is exempt from it.
	Compat bool

	// Log is slog.Default if nil.
	Log *slog.Logger
}

// An Applier writes the webhook configurations. It is safe for concurrent use.
type Applier struct {
	kube   kubernetes.Interface
	mapper meta.RESTMapper
	o      Options

	mu sync.Mutex
	// told are the kinds that were last logged as never sent.
	told string
}

// New returns an Applier. The mapper maps kinds to resources; it should ask the API
// server again about kinds that it does not know.
func New(kube kubernetes.Interface, mapper meta.RESTMapper, o Options) *Applier {
	o.Name = cmp.Or(o.Name, DefaultName)
	o.Port = cmp.Or(o.Port, 443)
	o.FailurePolicy = cmp.Or(o.FailurePolicy, admissionv1.Ignore)
	o.TimeoutSeconds = cmp.Or(o.TimeoutSeconds, 5)
	o.Reinvocation = cmp.Or(o.Reinvocation, admissionv1.NeverReinvocationPolicy)
	if len(o.ReviewVersions) == 0 {
		o.ReviewVersions = []string{"v1", "v1beta1"}
	}
	if o.Path == nil {
		o.Path = func(entry string) string { return "/" + entry }
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return &Applier{kube: kube, mapper: mapper, o: o}
}
