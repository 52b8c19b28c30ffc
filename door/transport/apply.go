package transport

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	usher "github.com/usher-dev/usher"
)

var errApply = errors.New("the policies change more than this apply request can carry: " +
	"they remove what others have applied, or want another change each time that they are asked")

// apply decides a server-side apply. Only the server knows its result, so it is dry-run there; what
// policies change about the result is merged into the applied configuration.
func (x *exchange) apply() (*http.Response, error) {
	applied, err := x.tree()
	if err != nil {
		return nil, err
	}
	kind, err := kindOf(applied)
	if err != nil {
		return nil, err
	}
	if !x.concerns(kind, usher.Create, usher.Update) {
		return x.pass()
	}
	theirs := text(applied, "resourceVersion") != ""
	return x.conditionally(!theirs, func(old map[string]any) (*http.Response, error) {
		intent := applied
		if version := text(old, "resourceVersion"); !theirs && version != "" {
			intent = with(applied, "resourceVersion", version)
		}
		result, err := x.try(x.request.URL, mediaApplyYAML, intent)
		if err != nil {
			return asReply(err)
		}
		r, err := x.applying(old, result)
		if err != nil {
			return nil, err
		}
		changed, err := x.mutate(r)
		if err != nil {
			return nil, err
		}
		to := x.request.URL
		if changed {
			// The client's own fields caused no conflict: only those of the policies are forced.
			to = x.query(url.Values{"force": {"true"}})
			if intent, r, err = x.grafted(to, intent, old, result, r); err != nil {
				return asReply(err)
			}
		}
		if err := x.validate(r); err != nil {
			return nil, err
		}
		body, err := encode(intent)
		if err != nil {
			return nil, err
		}
		return x.send(to, withType(x.request.Header, mediaApplyYAML), body)
	})
}

// asReply turns an error of the server into a response to the client, so that a conflict can be
// retried.
func asReply(err error) (*http.Response, error) {
	if given, ok := errors.AsType[reply](err); ok {
		return given.Response, nil
	}
	return nil, err
}

// try asks the server for the result of a patch. The error is a reply if the server rejects it.
func (s *server) try(to *url.URL, mediaType string, intent map[string]any) (map[string]any, error) {
	body, err := encode(intent)
	if err != nil {
		return nil, err
	}
	query := to.Query()
	query.Set("dryRun", metav1.DryRunAll)
	code, answer, err := s.call(http.MethodPatch, to.Path, query, http.Header{"Content-Type": {mediaType}}, body)
	if err != nil {
		return nil, err
	}
	if !isOK(code) {
		status := &metav1.Status{}
		if err := json.Unmarshal(answer, status); err != nil || status.Code == 0 {
			return nil, errors.New("try the patch out: " + problem(code, answer))
		}
		response, err := s.respond(status) //nolint:bodyclose // The client closes it.
		if err != nil {
			return nil, err
		}
		return nil, reply{response}
	}
	return usher.RawObject(answer).Tree()
}

// applying is the request for the result of an apply.
func (x *exchange) applying(old, result map[string]any) (*usher.Request, error) {
	if old == nil {
		return x.creation(result)
	}
	kind, err := kindOf(result)
	if err != nil {
		return nil, err
	}
	return x.change(old, result, kind)
}

// grafted merges the policies' changes of result into the applied configuration, and checks that
// the object that follows from it is not changed again.
func (x *exchange) grafted(to *url.URL, intent, old, result map[string]any, r *usher.Request) (map[string]any, *usher.Request, error) {
	wanted, err := r.Object.Tree()
	if err != nil {
		return nil, nil, err
	}
	intent = mergeApplied(intent, result, wanted, owners(result))
	if result, err = x.try(to, mediaApplyYAML, intent); err != nil {
		return nil, nil, err
	}
	if r, err = x.applying(old, result); err != nil {
		return nil, nil, err
	}
	changed, err := x.mutate(r)
	if err == nil && changed {
		err = errApply
	}
	return intent, r, err
}
