package delegated

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/group"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	"k8s.io/apiserver/pkg/authentication/request/union"
	"k8s.io/apiserver/pkg/authentication/request/x509"
	"k8s.io/apiserver/pkg/authentication/token/cache"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/kubernetes"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"

	"github.com/usher-dev/usher/internal/ratelog"
)

// clientCA is the CA for client certificates of the API server, kept current. API servers publish
// it for servers like this one.
func clientCA(client kubernetes.Interface) (*dynamiccertificates.ConfigMapCAController, error) {
	return dynamiccertificates.NewDynamicCAFromConfigMapController(
		"client-ca", metav1.NamespaceSystem, "extension-apiserver-authentication", "client-ca-file", client)
}

// A reviewer asks the API server who callers are and what they may do.
type reviewer struct {
	options Options
	callers authenticator.Request
	rights  authorizer.Authorizer
	log     *ratelog.Logger
}

// newReviewer returns a reviewer of bearer tokens and, if there is a CA, client certificates.
func newReviewer(o Options, ca *dynamiccertificates.ConfigMapCAController) (*reviewer, error) {
	rights, err := authorizerfactory.DelegatingAuthorizerConfig{
		SubjectAccessReviewClient: o.Client.AuthorizationV1(),
		AllowCacheTTL:             o.TTL, DenyCacheTTL: o.TTL,
		// The caller tries again.
		WebhookRetryBackoff: &wait.Backoff{Steps: 1},
	}.New()
	if err != nil {
		return nil, fmt.Errorf("delegate authorization: %w", err)
	}
	return &reviewer{options: o, callers: newAuthenticator(o, ca), rights: rights, log: ratelog.New(o.Log)}, nil
}

// newAuthenticator is authenticatorfactory without features that are not needed: front proxies,
// tokens in WebSocket headers, anonymous callers.
func newAuthenticator(o Options, ca *dynamiccertificates.ConfigMapCAController) authenticator.Request {
	reviewed := &tokens{reviews: o.Client.AuthenticationV1().TokenReviews(), audiences: o.Audiences}
	var all []authenticator.Request
	if ca != nil {
		all = append(all, x509.NewDynamic(ca.VerifyOptions, x509.CommonNameUserConversion))
	}
	all = append(all, bearertoken.New(cache.New(reviewed, false, o.TTL, o.TTL)))
	return group.NewAuthenticatedGroupAdder(union.New(all...))
}

// errUnavailable marks errors that say nothing of the token.
var errUnavailable = errors.New("token review")

// tokens authenticates tokens at the API server. The one of apiserver cannot distinguish an invalid
// token from an API server that does not respond, and accepts tokens for the API server if that
// ignores audiences.
type tokens struct {
	reviews   authenticationclient.TokenReviewInterface
	audiences authenticator.Audiences
}

// AuthenticateToken implements [authenticator.Token].
func (t *tokens) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: t.audiences}}
	answer, err := t.reviews.Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return nil, false, fmt.Errorf("%w: %w", errUnavailable, err)
	}
	audiences := t.audiences.Intersect(answer.Status.Audiences)
	if !answer.Status.Authenticated || len(audiences) == 0 && len(t.audiences) > 0 {
		return nil, false, nil
	}
	who := answer.Status.User
	extra := map[string][]string{}
	for key, values := range who.Extra {
		extra[key] = values
	}
	return &authenticator.Response{
		User:      &user.DefaultInfo{Name: who.Username, UID: who.UID, Groups: who.Groups, Extra: extra},
		Audiences: audiences,
	}, true, nil
}

// authenticate returns the user who sends the request, or the status for requests without
// credentials.
func (a *reviewer) authenticate(ctx context.Context, r *http.Request) (user.Info, error) {
	response, ok, err := a.callers.AuthenticateRequest(r.Clone(ctx))
	switch {
	case ok:
		return response.User, nil
	case errors.Is(err, errUnavailable), err != nil && ctx.Err() != nil:
		return nil, a.unavailable(ctx, "token review", err)
	case err != nil:
		a.refuse(r, WrongCredentials)
		return nil, apierrors.NewUnauthorized("the certificate or token is not valid here: a token needs the audience " + a.audience())
	}
	a.refuse(r, NoCredentials)
	if len(a.options.Audiences) == 0 {
		return nil, apierrors.NewUnauthorized("no credentials: send a bearer token of the cluster")
	}
	return nil, apierrors.NewUnauthorized(fmt.Sprintf("no credentials: send a bearer token with the audience %s, or use a client certificate of the cluster", a.audience()))
}

// audience names an audience that tokens need.
func (a *reviewer) audience() string {
	if len(a.options.Audiences) == 0 {
		return "of the API server"
	}
	return strconv.Quote(a.options.Audiences[0])
}

func (a *reviewer) refuse(r *http.Request, reason Reason) {
	if a.options.Refused != nil {
		a.options.Refused(reason)
	}
	a.log.Warn(r.Context(), string(reason), "caller of the API refused", "from", r.RemoteAddr)
}

// allowed reports whether a caller may do something.
func (a *reviewer) allowed(ctx context.Context, asked authorizer.Attributes) (allowed bool, reason string, err error) {
	decision, reason, err := a.rights.Authorize(ctx, asked)
	if err != nil {
		return false, "", a.unavailable(ctx, "access review", err)
	}
	return decision == authorizer.DecisionAllow, reason, nil
}

// unavailable is the status if the API server does not respond. Only the log has the reason.
func (a *reviewer) unavailable(ctx context.Context, what string, err error) error {
	a.log.Warn(ctx, what, "API server does not answer, request refused", "error", err)
	status := apierrors.NewServiceUnavailable("the API server, which knows who may do what, does not answer: try again later")
	status.ErrStatus.Details = &metav1.StatusDetails{RetryAfterSeconds: 1}
	return status
}
