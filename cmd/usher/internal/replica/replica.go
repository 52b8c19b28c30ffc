// Package replica reaches the API that each replica of Usher serves: through the API server of the
// cluster, as kubectl port-forward does, or at URLs.
package replica

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/cluster"
	"github.com/usher-dev/usher/internal/delegated"
	"github.com/usher-dev/usher/internal/printable"
)

const (
	// selector selects the pods of Usher, and port is the name of the port of the API.
	selector = "app.kubernetes.io/name=usher"
	port     = "api"
	// answerTimeout is how long a replica may take to begin its answer.
	answerTimeout = 30 * time.Second
)

// Flags select the replicas that a command talks to, and the credentials for them.
type Flags struct {
	Servers             []string
	CAFile, TokenFile   string
	ServiceAccount      string
	Kubeconfig, Context string
	// Namespace is that of Usher.
	Namespace string
	// Warn, which may be nil, is called once for each different warning of replicas, one call at a time.
	Warn func(text string)
}

// Register adds the flags.
func (f *Flags) Register(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.Servers, "server", nil, "URL of the API of a replica, such as https://127.0.0.1:8445 (repeatable); default: the one that the kubeconfig names, as those of the sandbox do, or all ready pods of Usher, through the API server")
	flags.StringVar(&f.CAFile, "ca-file", "", "PEM file with the CA certificates to trust for --server (default: those of this machine)")
	flags.StringVar(&f.TokenFile, "token-file", "", "file with the bearer token to send (default: the client certificate of the kubeconfig)")
	flags.StringVar(&f.ServiceAccount, "service-account", "", "send a token of this ServiceAccount, as NAMESPACE/NAME, which is requested with the kubeconfig")
	flags.StringVar(&f.Kubeconfig, "kubeconfig", "", "kubeconfig of the cluster (default: $KUBECONFIG, or ~/.kube/config)")
	flags.StringVar(&f.Context, "context", "", "context of the kubeconfig (default: the current one)")
	flags.StringVar(&f.Namespace, "usher-namespace", cluster.DefaultNamespace, "namespace of the pods of Usher")
}

// A Set finds replicas.
type Set struct {
	flags       Flags
	credentials *credentials
	// config and kube are nil if no kubeconfig is needed.
	config *rest.Config
	kube   kubernetes.Interface
	// warned are the warnings that were passed on, and mu guards it.
	mu     sync.Mutex
	warned map[string]bool
}

// Connect returns the replicas that the flags select. It does not talk to them yet.
func (f *Flags) Connect(ctx context.Context) (*Set, error) {
	s, given := &Set{flags: *f, warned: map[string]bool{}}, "--server"
	if len(f.Servers) == 0 {
		server, caFile, err := cluster.ServerOf(f.Kubeconfig, f.Context)
		if err != nil {
			return nil, err
		}
		if server != "" {
			s.flags.Servers, s.flags.CAFile = []string{server}, cmp.Or(f.CAFile, caFile)
			given = "extension usher.dev of the kubeconfig: server"
		}
	}
	for _, server := range s.flags.Servers {
		u, err := url.Parse(server)
		if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || strings.Trim(u.Path, "/") != "" {
			return nil, fmt.Errorf("%s %s: expected https://HOST:PORT", given, server)
		}
	}
	if f.TokenFile != "" && f.ServiceAccount != "" {
		return nil, errors.New("--token-file and --service-account exclude each other")
	}
	if len(s.flags.Servers) == 0 || f.TokenFile == "" {
		var err error
		if s.config, err = cluster.Find(f.Kubeconfig, f.Context); err != nil {
			return nil, err
		}
		if s.kube, err = kubernetes.NewForConfig(s.config); err != nil {
			return nil, fmt.Errorf("connect to API server: %w", err)
		}
	}
	var err error
	s.credentials, err = s.newCredentials(ctx)
	return s, err
}

// Named reports whether the replicas were named: there are no others.
func (s *Set) Named() bool { return len(s.flags.Servers) > 0 }

// A Replica is the API of one replica.
type Replica struct {
	// Name is that of the pod, or the URL.
	Name string

	base        string
	client      *http.Client
	credentials *credentials
	warn        func(http.Header)
}

// NoNamespace returns the error of the API server if it has no namespace of that name; nil if it cannot be asked.
func (s *Set) NoNamespace(ctx context.Context, name string) error {
	if s.config == nil {
		return nil
	}
	client, err := dynamic.NewForConfig(s.config)
	if err != nil {
		return fmt.Errorf("connect to API server: %w", err)
	}
	return cluster.NoNamespace(ctx, client, name)
}

// warn passes on the warnings in the header of a response.
func (s *Set) warn(header http.Header) {
	if s.flags.Warn == nil {
		return
	}
	// What is malformed is left out.
	warnings, _ := utilnet.ParseWarningHeaders(header["Warning"])
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range warnings {
		if !s.warned[w.Text] {
			s.warned[w.Text] = true
			s.flags.Warn(printable.Line(w.Text))
		}
	}
}

// Find returns the replicas that are ready now, sorted by name. There is at least one.
func (s *Set) Find(ctx context.Context) ([]*Replica, error) {
	var all []*Replica
	for _, server := range s.flags.Servers {
		r, err := s.at(server)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	if len(all) > 0 {
		return all, nil
	}
	pods, err := Pods(ctx, s.kube, s.flags.Namespace)
	if err != nil {
		if !apierrors.IsForbidden(err) {
			return nil, err
		}
		return nil, fmt.Errorf("%w; %s", err, s.noRight())
	}
	unserved := 0
	for i := range pods {
		pod := &pods[i]
		if !Ready(pod) {
			continue
		}
		number := Port(pod, port)
		if number == 0 {
			unserved++
			continue
		}
		r, err := s.in(pod, number)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	switch {
	case len(all) > 0:
	case unserved > 0:
		return nil, fmt.Errorf("the %s in namespace %s serve no API: install the chart with api.enabled=true", cli.Count(unserved, "replica", "replicas"), s.flags.Namespace)
	default:
		return nil, fmt.Errorf("no pod of Usher is ready in namespace %s: name its namespace with --usher-namespace, or replicas with --server, such as those of the sandbox: "+
			"they serve this with --api-address", s.flags.Namespace)
	}
	slices.SortFunc(all, func(a, b *Replica) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// Pods returns the pods of Usher in a namespace, ready or not.
func Pods(ctx context.Context, kube kubernetes.Interface, namespace string) ([]corev1.Pod, error) {
	pods, err := kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, fmt.Errorf("find replicas: %w", err)
	}
	return pods.Items, nil
}

// Ready reports whether requests are sent to a pod.
func Ready(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// Port returns the port of a name in a pod, such as webhooks; 0 if there is none.
func Port(pod *corev1.Pod, name string) int32 {
	for i := range pod.Spec.Containers {
		for _, p := range pod.Spec.Containers[i].Ports {
			if p.Name == name {
				return p.ContainerPort
			}
		}
	}
	return 0
}

// noRight says what a user needs who may not connect to pods.
func (s *Set) noRight() string {
	return fmt.Sprintf("name the replicas with --server URL, where they serve --api-address, or have an administrator give you the Role usher-connect: "+
		"kubectl create rolebinding NAME --role usher-connect --user YOU -n %s (docs/watch.md#access)", s.flags.Namespace)
}

// Path returns the path of a resource: of one namespace, or of all if it is empty.
func Path(namespace, resource string) string {
	if namespace == "" {
		return delegated.Root + "/" + resource
	}
	return delegated.Root + "/namespaces/" + url.PathEscape(namespace) + "/" + resource
}

// Get sends a request for a path and returns the response, whose status is 200. Other ones are
// errors of the form of those of an API server. Close the body.
func (r *Replica) Get(ctx context.Context, path string, query url.Values, header http.Header) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.base+path, nil)
	if err != nil {
		return nil, err
	}
	request.URL.RawQuery = query.Encode()
	maps.Copy(request.Header, header)
	if err := r.credentials.add(ctx, request); err != nil {
		return nil, err
	}
	response, err := r.client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", r.Name, err)
	}
	if response.StatusCode == http.StatusOK {
		r.warn(response.Header)
		return response, nil
	}
	defer func() { _ = response.Body.Close() }()
	return nil, statusOf(response)
}

// statusOf returns the error that a response is.
func statusOf(response *http.Response) error {
	status := metav1.Status{}
	body, err := io.ReadAll(io.LimitReader(response.Body, 64<<10))
	if err == nil {
		err = json.Unmarshal(body, &status)
	}
	if err != nil || status.Message == "" {
		status = metav1.Status{Message: "it answers " + response.Status, Reason: metav1.StatusReasonUnknown}
	}
	status.Code = int32(response.StatusCode)
	return &apierrors.StatusError{ErrStatus: status}
}

// Hint returns what to do about an error of [Replica.Get] for a resource in a namespace; empty if
// nothing is known.
func Hint(err error, verb, resource, namespace string) string {
	switch {
	case apierrors.IsForbidden(err) && namespace == "":
		return fmt.Sprintf("name a namespace with -n; or have an administrator grant you %s on %s.%s in all namespaces", verb, resource, delegated.Group)
	case apierrors.IsForbidden(err):
		role := "edit"
		switch resource {
		case delegated.AuditResults:
			role = "view"
		case delegated.Recordings:
			role = "admin"
		}
		return fmt.Sprintf("have an administrator grant you %s on %s.%s in namespace %s: the ClusterRole %s has it if Usher was installed with the chart, and not with api.aggregateRoles=false", verb, resource, delegated.Group, namespace, role)
	case apierrors.IsUnauthorized(err):
		return "use a client certificate of the cluster, --service-account NAMESPACE/NAME, or --token-file with a token such as 'kubectl create token NAME --audience usher.dev' prints"
	case apierrors.IsNotFound(err):
		return "this replica is older than this command"
	}
	if _, untrusted := errors.AsType[*tls.CertificateVerificationError](err); untrusted {
		return "name the CA of the server's certificate with --ca-file, or leave out --server, and the certificate is checked by what the cluster knows of it"
	}
	return ""
}
