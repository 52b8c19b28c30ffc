package simulate

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	reviewv1 "k8s.io/api/admission/v1"
	reviewv1beta1 "k8s.io/api/admission/v1beta1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/webhook"
	webhookerrors "k8s.io/apiserver/pkg/admission/plugin/webhook/errors"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules"
	webhookrequest "k8s.io/apiserver/pkg/admission/plugin/webhook/request"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/paths"
	"github.com/usher-dev/usher/internal/yamldiff"
)

// A hooking follows the webhooks of a plugin after the plugin ran, and reports each result. The
// calls show what the plugin did; its own predicates, on the object at that webhook's turn, show
// why it made no other calls.
type hooking struct {
	*passage

	chain  *chain
	plugin string
	// current is the object as the webhooks so far have left it, calls those not yet
	// accounted for.
	current runtime.Object
	calls   []*call
	// ended tells that a webhook has ended the request.
	ended bool
}

func (c *chain) explainWebhooks(ctx context.Context, p *passage, plugin string, hooks []webhook.WebhookAccessor) {
	if len(hooks) > 0 && rules.IsExemptAdmissionConfigurationResource(p.attributes) {
		p.add(Step{Plugin: plugin, Outcome: Skipped, Why: "API servers send no webhook configurations and admission policies to webhooks"}, p.round)
		return
	}
	h := &hooking{passage: p, chain: c, plugin: plugin, current: p.object, calls: p.calls}
	for _, hook := range hooks {
		p.add(h.step(ctx, hook), p.round)
	}
}

func (h *hooking) step(ctx context.Context, hook webhook.WebhookAccessor) Step {
	name := hookName{hook.GetConfigurationName(), hook.GetName()}
	s := Step{Plugin: h.plugin, Name: name.configuration + "/" + name.webhook, Outcome: Skipped}
	made := h.take(name)
	if made == nil && h.ended {
		s.Outcome, s.Why = Unreached, "the request had ended"
		return s
	}
	a := &withObject{h.attributes, h.current}
	found := h.chain.judge(a, h.interfaces, hookCriteria(hook.GetNamespaceSelector(), hook.GetObjectSelector(), hook.GetRules(), hook.GetMatchPolicy()))
	s.Why = found.why
	if !found.matched {
		return s
	}
	if found.err != nil {
		return h.fail(s, found.err)
	}
	if found.kind != a.GetKind() {
		s.SentAs = kindText(found.kind)
	}
	if checks, stop, fails := h.chain.conditions(ctx, hook, a, h.interfaces, found); len(checks) > 0 {
		s.Checks = checks
		if stop != "" && made == nil {
			s.Why = stop
			if h.err != nil && fails {
				return h.fail(s, h.err)
			}
			return s
		}
	}
	if made == nil {
		return h.uncalled(s, hook, name)
	}
	h.invoked[name] = true
	return h.called(s, hook, made)
}

// take is the call that was made for a webhook, nil if there was none. Those of mutating
// webhooks were made in order.
func (h *hooking) take(name hookName) *call {
	for i, c := range h.calls {
		if c.hook == name {
			h.calls = append(h.calls[:i:i], h.calls[i+1:]...)
			return c
		}
		if h.phase == usher.Mutate {
			return nil
		}
	}
	return nil
}

// fail makes s the step that ended the request.
func (h *hooking) fail(s Step, err error) Step {
	status := statusOf(err)
	s.Outcome, s.Message, s.Code = Failed, paths.Redact(status.Message), status.Code
	h.ended = true
	return s
}

// uncalled says why a webhook that everything spoke for was not called.
func (h *hooking) uncalled(s Step, hook webhook.WebhookAccessor, name hookName) Step {
	if h.round > 0 {
		m, _ := hook.GetMutatingWebhook()
		switch {
		case !h.invoked[name]:
			s.Why = "it was not called in the first round, and the second one calls none for the first time"
		case m == nil || m.ReinvocationPolicy == nil || *m.ReinvocationPolicy == admissionv1.NeverReinvocationPolicy:
			s.Why = "reinvocationPolicy is Never"
		default:
			s.Why = "nothing has changed the object since it was called"
		}
		return s
	}
	if h.err != nil {
		if h.attributes.IsDryRun() && !quiet(hook.GetSideEffects()) {
			s.Why = "the request is a dry run, and sideEffects is neither None nor NoneOnDryRun"
		}
		return h.fail(s, h.err)
	}
	s.Why = "the API server did not say why"
	return s
}

func quiet(effects *admissionv1.SideEffectClass) bool {
	return effects != nil && (*effects == admissionv1.SideEffectClassNone || *effects == admissionv1.SideEffectClassNoneOnDryRun)
}

// called says what a webhook answered, and what the API server made of it.
func (h *hooking) called(s Step, hook webhook.WebhookAccessor, c *call) Step {
	s.Called, s.Outcome = true, Passed
	s.URL, s.By, s.Took = paths.Redact(c.url), c.by, c.took
	response, err := verified(c, h.phase == usher.Mutate)
	if err != nil {
		s.Message = paths.Redact(err.Error())
		s.Outcome = Failed
		if policy := hook.GetFailurePolicy(); policy != nil && *policy == admissionv1.Ignore {
			s.Outcome = Ignored
		} else {
			h.ended = h.phase == usher.Mutate
		}
		return s
	}
	s.Warnings, s.Audit = response.Warnings, response.AuditAnnotations
	if !response.Allowed {
		status := webhookerrors.ToStatusErr(hook.GetName(), response.Result).Status()
		s.Outcome, s.Message, s.Code = Denied, status.Message, status.Code
		h.ended = h.phase == usher.Mutate
		return s
	}
	s.Patch = response.Patch
	if h.err != nil && c.after == nil && len(h.calls) == 0 && changes(response.Patch) {
		return h.fail(s, h.err)
	}
	h.change(&s, c.after)
	return s
}

// changes reports whether a patch has operations.
func changes(patch []byte) bool {
	operations, err := jsonpatch.DecodePatch(patch)
	return err == nil && len(operations) > 0
}

// change notes what the object has become.
func (h *hooking) change(s *Step, after runtime.Object) {
	if after == nil {
		return
	}
	s.Diff = diffOf(h.current, after)
	if s.Diff != "" {
		s.Outcome = Changed
	}
	h.current = after
}

// diffOf is what differs between two objects.
func diffOf(before, after runtime.Object) string {
	old, err := treeOf(before)
	if err != nil {
		return err.Error()
	}
	changed, err := treeOf(after)
	if err != nil {
		return err.Error()
	}
	diff, err := yamldiff.Of(old, changed)
	if err != nil {
		return err.Error()
	}
	return diff
}

// verified is the answer to a call, if the API server takes it for one.
func verified(c *call, mutating bool) (*webhookrequest.AdmissionResponse, error) {
	if c.err != nil {
		return nil, c.err
	}
	if c.code < http.StatusOK || c.code >= http.StatusMultipleChoices {
		return nil, fmt.Errorf("HTTP status %d: %s", c.code, strings.TrimSpace(string(c.response)))
	}
	var sent struct {
		APIVersion string `json:"apiVersion"`
		Request    struct {
			UID types.UID `json:"uid"`
		} `json:"request"`
	}
	if err := json.Unmarshal(c.request, &sent); err != nil {
		return nil, fmt.Errorf("decode review: %w", err)
	}
	var review runtime.Object = &reviewv1.AdmissionReview{}
	if sent.APIVersion == reviewv1beta1.SchemeGroupVersion.String() {
		review = &reviewv1beta1.AdmissionReview{}
	}
	if err := json.Unmarshal(c.response, review); err != nil {
		return nil, fmt.Errorf("decode answer: %w", err)
	}
	response, err := webhookrequest.VerifyAdmissionResponse(sent.Request.UID, mutating, review)
	if err != nil {
		return nil, fmt.Errorf("received invalid webhook response: %w", err)
	}
	if len(response.Patch) > 0 {
		if _, err := jsonpatch.DecodePatch(response.Patch); err != nil {
			return nil, fmt.Errorf("received undecodable patch in webhook response: %w", err)
		}
	}
	return response, nil
}

// withObject is a request with another object.
type withObject struct {
	admission.Attributes

	object runtime.Object
}

// GetObject implements [admission.Attributes].
func (w *withObject) GetObject() runtime.Object { return w.object }
