package replica

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/usher-dev/usher/cmd/usher/internal/user"
	"github.com/usher-dev/usher/internal/delegated"
	"github.com/usher-dev/usher/internal/printable"
)

const (
	// tokenLife is for how long a token is requested; a new one is requested at the half of it.
	tokenLife = time.Hour
)

// credentials prove to replicas who the user is. The token of a kubeconfig is never sent: who
// receives it can use it at the API server.
type credentials struct {
	// config has the client certificate; nil if there is none.
	config *tls.Config
	// file has the token, if it is not empty.
	file string
	// kube requests tokens of a ServiceAccount, if it is not nil.
	kube            kubernetes.Interface
	namespace, name string

	mu    sync.Mutex
	token string
	until time.Time
}

// newCredentials chooses the credentials.
func (s *Set) newCredentials(ctx context.Context) (*credentials, error) {
	if s.flags.TokenFile != "" {
		return &credentials{file: s.flags.TokenFile}, nil
	}
	account := s.flags.ServiceAccount
	if account == "" {
		config, err := rest.TLSConfigFor(s.config)
		if err != nil {
			return nil, fmt.Errorf("read client certificate of the kubeconfig: %w", err)
		}
		// The certificate is that of the user who impersonates somebody, as whom replicas cannot be asked.
		if config != nil && s.config.Impersonate.UserName == "" && (config.GetClientCertificate != nil || len(config.Certificates) > 0) {
			return &credentials{config: config}, nil
		}
		if account, err = s.own(ctx); err != nil {
			return nil, err
		}
	}
	namespace, name, ok := strings.Cut(account, "/")
	if !ok || namespace == "" || name == "" || strings.Contains(name, "/") {
		return nil, fmt.Errorf("--service-account %s: expected NAMESPACE/NAME", account)
	}
	return &credentials{kube: s.kube, namespace: namespace, name: name}, nil
}

// own returns the ServiceAccount that the user of the kubeconfig is.
func (s *Set) own(ctx context.Context) (string, error) {
	self, err := user.Self(ctx, s.kube)
	if err != nil {
		return "", err
	}
	namespace, name, err := serviceaccount.SplitUsername(self.Name)
	if err != nil && s.config.Impersonate.UserName != "" {
		return "", fmt.Errorf("the kubeconfig has you act as %s (as:), and replicas can be asked with the credentials of a user alone: "+
			"use a client certificate of %[1]s, --service-account NAMESPACE/NAME, or --token-file", printable.Line(self.Name))
	}
	if err != nil {
		return "", fmt.Errorf("user %s of the kubeconfig has no client certificate, and its token is for the API server only: "+
			"use --service-account NAMESPACE/NAME, or --token-file with a token for the audience %s", printable.Line(self.Name), delegated.Group)
	}
	return namespace + "/" + name, nil
}

// add adds the token to a request, if the user has no client certificate.
func (c *credentials) add(ctx context.Context, r *http.Request) error {
	token, err := c.current(ctx)
	if err == nil && token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return err
}

func (c *credentials) current(ctx context.Context) (string, error) {
	switch {
	case c.file != "":
		text, err := os.ReadFile(c.file)
		if err != nil {
			return "", fmt.Errorf("--token-file: %w", err)
		}
		token := strings.TrimSpace(string(text))
		if token == "" || strings.ContainsAny(token, " \t\r\n") {
			return "", fmt.Errorf("--token-file %s: expected one token", c.file)
		}
		return token, nil
	case c.kube == nil:
		return "", nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Now().Before(c.until) {
		return c.token, nil
	}
	seconds := int64(tokenLife / time.Second)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{delegated.Group}, ExpirationSeconds: &seconds}}
	answer, err := c.kube.CoreV1().ServiceAccounts(c.namespace).CreateToken(ctx, c.name, request, metav1.CreateOptions{})
	if err != nil {
		return "", c.noToken(err)
	}
	if answer.Status.Token == "" {
		return "", errors.New("request token: the API server returned none")
	}
	c.token, c.until = answer.Status.Token, time.Now().Add(time.Until(answer.Status.ExpirationTimestamp.Time)/2)
	return c.token, nil
}

// A NoToken is why the API server gives no token for replicas. They have not been asked, and trying again does not help.
type NoToken struct{ why string }

func (e *NoToken) Error() string { return e.why }

// noToken returns the error for one of the API server, of the request for a token.
func (c *credentials) noToken(err error) error {
	requested := fmt.Errorf("request token of ServiceAccount %s/%s: %w", c.namespace, c.name, err)
	switch {
	case apierrors.IsNotFound(err):
		return &NoToken{fmt.Sprintf("there is no ServiceAccount %s/%s", c.namespace, c.name)}
	case apierrors.IsForbidden(err):
		return &NoToken{fmt.Sprintf("%v; you need the verb create on serviceaccounts/token in namespace %s", requested, c.namespace)}
	case apierrors.IsUnauthorized(err), apierrors.IsBadRequest(err), apierrors.IsInvalid(err):
		return &NoToken{requested.Error()}
	}
	return requested
}
