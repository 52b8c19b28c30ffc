package delegated

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/usher-dev/usher/internal/limit"
)

// guardInFlight is how many callers a [Guard] serves at the same time: a few programs that read
// metrics, and now and again a person.
const guardInFlight = 16

// A Guard lets those read a path that may get it in the cluster, as components of Kubernetes do with
// their metrics: with a bearer token that is valid for the API server, and a right on a
// nonResourceURL.
type Guard struct {
	*reviewer

	limits *limit.Limiter
}

// NewGuard returns a guard. It ignores the handlers of the options and what is for watches. Without
// audiences, tokens need that of the API server.
func NewGuard(o Options) (*Guard, error) {
	o = o.withDefaults()
	r, err := newReviewer(o, nil)
	if err != nil {
		return nil, err
	}
	slots := cmp.Or(o.MaxInFlight, guardInFlight)
	return &Guard{r, limit.New(limit.Options{Slots: slots, Bytes: int64(slots) * memoryOfOneCaller, Log: o.Log})}, nil
}

// Require returns a handler that passes on the requests of callers who may get a path, which need not
// be that of the requests.
func (g *Guard) Require(path string, next http.Handler) http.Handler {
	return g.limits.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if err := g.check(r, path); err != nil {
			WriteStatus(w, err)
			return
		}
		next.ServeHTTP(w, r)
	}))
}

func (g *Guard) check(r *http.Request, path string) error {
	if len(r.Header.Values("Authorization")) > 1 || impersonates(r.Header) {
		return apierrors.NewBadRequest("send one Authorization header, and no impersonation")
	}
	if err := enter(r); err != nil {
		return err
	}
	// As in API.serve, a caller who goes away keeps the slot.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), reviewTimeout)
	defer cancel()
	who, err := g.authenticate(ctx, r)
	if err != nil {
		return err
	}
	allowed, reason, err := g.allowed(ctx, authorizer.AttributesRecord{User: who, Verb: "get", Path: path})
	if err != nil || allowed {
		return err
	}
	return forbiddenPath(who, path, reason)
}

// forbiddenPath is the status of a denied request, with the text of API servers.
func forbiddenPath(who user.Info, path, reason string) error {
	text := fmt.Sprintf("User %q cannot get path %q", who.GetName(), path)
	if reason != "" {
		text += ": " + reason
	}
	return apierrors.NewForbidden(schema.GroupResource{}, "", errors.New(text))
}
