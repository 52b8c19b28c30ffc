// Package delegatedtest tests handlers of [delegated.API]: every resource has to pass [Run].
package delegatedtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Audience is that of the tokens of [Cluster.Token].
const Audience = "usher.dev"

// ServerAudience is the audience of tokens for the API server itself.
const ServerAudience = "https://kubernetes.default.svc"

// anyAudience is that of tokens that are not checked for audiences: those of webhook
// authenticators, in API servers that do not support audiences. They are valid for the API server.
const anyAudience = "*"

// A Cluster is an API server that authenticates and authorizes users. It is an HTTP server, so that
// clients behave as usual.
type Cluster struct {
	Client kubernetes.Interface

	ca    *x509.Certificate
	caKey *ecdsa.PrivateKey

	mu     sync.Mutex
	tokens map[string]identity
	rights []authorizationv1.SubjectAccessReviewSpec
	// hold keeps reviews waiting, down has them refused.
	hold chan struct{}
	down bool
	// asked are the reviews so far, by resource, and waiting those that are held.
	asked         map[string]int
	waiting, most int
}

type identity struct {
	user      authenticationv1.UserInfo
	audiences []string
}

// NewCluster starts one. Nobody has any rights in it.
func NewCluster(t *testing.T) *Cluster {
	t.Helper()
	c := &Cluster{tokens: map[string]identity{}, asked: map[string]int{}}
	c.ca, c.caKey = newCA(t)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /apis/authentication.k8s.io/v1/tokenreviews", c.reviewToken)
	mux.HandleFunc("POST /apis/authorization.k8s.io/v1/subjectaccessreviews", c.reviewAccess)
	mux.HandleFunc("GET /api/v1/namespaces/kube-system/configmaps", c.configMaps)
	server := httptest.NewServer(mux)
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	client, err := kubernetes.NewForConfig(&rest.Config{
		Host: server.URL, QPS: -1,
		ContentConfig: rest.ContentConfig{ContentType: "application/json", AcceptContentTypes: "application/json"},
	})
	if err != nil {
		t.Fatal(err)
	}
	c.Client = client
	return c
}

// Token returns a token of the user, for the audiences.
func (c *Cluster) Token(user string, audiences ...string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	token := rand.Text()
	c.tokens[token] = identity{user: authenticationv1.UserInfo{Username: user, Groups: []string{"system:authenticated"}}, audiences: audiences}
	return token
}

// Revoke makes a token invalid.
func (c *Cluster) Revoke(token string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.tokens, token)
}

// Grant allows an action to a user: in the namespace, or everywhere if it is empty.
func (c *Cluster) Grant(user, verb, resource, namespace string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rights = append(c.rights, authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: &authorizationv1.ResourceAttributes{
		Verb: verb, Group: "usher.dev", Resource: resource, Namespace: namespace,
	}})
}

// GrantPath allows a user to get a path.
func (c *Cluster) GrantPath(user, path string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rights = append(c.rights, authorizationv1.SubjectAccessReviewSpec{
		User: user, NonResourceAttributes: &authorizationv1.NonResourceAttributes{Verb: "get", Path: path},
	})
}

// Deny removes all rights of a user.
func (c *Cluster) Deny(user string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rights = slices.DeleteFunc(c.rights, func(r authorizationv1.SubjectAccessReviewSpec) bool { return r.User == user })
}

// Down makes the API server respond to reviews with an error, or ends that.
func (c *Cluster) Down(down bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.down = down
}

// Hold keeps all reviews waiting until release is called.
func (c *Cluster) Hold() (release func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	hold := make(chan struct{})
	c.hold = hold
	return sync.OnceFunc(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.hold = nil
		close(hold)
	})
}

// Asked returns how many reviews of a resource there were, and Most the most at the same time while
// they were held.
func (c *Cluster) Asked(resource string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked[resource]
}

// Held returns how many reviews are held, and how many were at most.
func (c *Cluster) Held() (now, most int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.waiting, c.most
}

// begin reports whether a review is answered.
func (c *Cluster) begin(w http.ResponseWriter, r *http.Request, resource string, review any) bool {
	c.mu.Lock()
	c.asked[resource]++
	hold, down := c.hold, c.down
	c.waiting++
	c.most = max(c.most, c.waiting)
	c.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-r.Context().Done():
		}
	}
	c.mu.Lock()
	c.waiting--
	c.mu.Unlock()
	if down || json.NewDecoder(r.Body).Decode(review) != nil {
		http.Error(w, "etcd is away", http.StatusInternalServerError)
		return false
	}
	return true
}

func (c *Cluster) reviewToken(w http.ResponseWriter, r *http.Request) {
	review := &authenticationv1.TokenReview{}
	if !c.begin(w, r, "tokenreviews", review) {
		return
	}
	c.mu.Lock()
	known, ok := c.tokens[review.Spec.Token]
	c.mu.Unlock()
	// As in API servers, a token is valid if it has one of the requested audiences.
	expected := review.Spec.Audiences
	if len(expected) == 0 {
		expected = []string{ServerAudience}
	}
	common := slices.DeleteFunc(slices.Clone(known.audiences), func(a string) bool { return !slices.Contains(expected, a) })
	switch {
	case slices.Contains(known.audiences, anyAudience):
		review.Status = authenticationv1.TokenReviewStatus{Authenticated: true, User: known.user}
	case ok && len(common) > 0:
		review.Status = authenticationv1.TokenReviewStatus{Authenticated: true, User: known.user, Audiences: common}
	default:
		review.Status.Error = "invalid bearer token"
	}
	answer(w, review)
}

func (c *Cluster) reviewAccess(w http.ResponseWriter, r *http.Request) {
	review := &authorizationv1.SubjectAccessReview{}
	if !c.begin(w, r, "subjectaccessreviews", review) {
		return
	}
	asked := review.Spec.ResourceAttributes
	c.mu.Lock()
	review.Status.Allowed = slices.ContainsFunc(c.rights, func(right authorizationv1.SubjectAccessReviewSpec) bool {
		granted := right.ResourceAttributes
		if right.User != review.Spec.User || granted == nil || asked == nil {
			return right.User == review.Spec.User && granted == nil && asked == nil &&
				*right.NonResourceAttributes == *review.Spec.NonResourceAttributes
		}
		return granted.Verb == asked.Verb && granted.Group == asked.Group && granted.Resource == asked.Resource &&
			(granted.Namespace == "" || granted.Namespace == asked.Namespace)
	})
	c.mu.Unlock()
	answer(w, review)
}

// configMaps answers where API servers publish the CA of client certificates.
func (c *Cluster) configMaps(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Get("sendInitialEvents") != "" {
		// Clients list, then.
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnprocessableEntity)
		_ = json.NewEncoder(w).Encode(metav1.Status{
			TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
			Reason: metav1.StatusReasonInvalid, Code: http.StatusUnprocessableEntity,
		})
		return
	}
	if r.URL.Query().Get("watch") != "" {
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		return
	}
	answer(w, &corev1.ConfigMapList{
		TypeMeta: metav1.TypeMeta{Kind: "ConfigMapList", APIVersion: "v1"},
		ListMeta: metav1.ListMeta{ResourceVersion: "1"},
		Items: []corev1.ConfigMap{{
			ObjectMeta: metav1.ObjectMeta{Name: "extension-apiserver-authentication", Namespace: metav1.NamespaceSystem, ResourceVersion: "1"},
			Data:       map[string]string{"client-ca-file": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.ca.Raw}))},
		}},
	})
}

func answer(w http.ResponseWriter, object any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(object)
}

// Certificate returns a client certificate of the user.
func (c *Cluster) Certificate(t *testing.T, user string) tls.Certificate {
	t.Helper()
	return sign(t, user, c.ca, c.caKey)
}

// OtherCertificate is one of a CA that the cluster does not trust.
func OtherCertificate(t *testing.T, user string) tls.Certificate {
	t.Helper()
	ca, key := newCA(t)
	return sign(t, user, ca, key)
}

func newCA(t *testing.T) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "cluster"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	return create(t, template, template, &key.PublicKey, key), key
}

func sign(t *testing.T, user string, ca *x509.Certificate, caKey *ecdsa.PrivateKey) tls.Certificate {
	t.Helper()
	key := newKey(t)
	leaf := create(t, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: user, Organization: []string{"system:authenticated"}},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, ca, &key.PublicKey, caKey)
	return tls.Certificate{Certificate: [][]byte{leaf.Raw}, PrivateKey: key}
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func create(t *testing.T, template, parent *x509.Certificate, key *ecdsa.PublicKey, signer *ecdsa.PrivateKey) *x509.Certificate {
	t.Helper()
	raw, err := x509.CreateCertificate(rand.Reader, template, parent, key, signer)
	if err != nil {
		t.Fatal(err)
	}
	made, err := x509.ParseCertificate(raw)
	if err != nil {
		t.Fatal(err)
	}
	return made
}
