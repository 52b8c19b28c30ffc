package guard

import (
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/rule"
)

// A refusal is why the write of a policy is refused; the zero refusal refuses nothing.
type refusal struct {
	why string
	// unknown says that another attempt may succeed: something could not be found out.
	unknown bool
	// invalid says that the policy has mistakes, which rights do not excuse.
	invalid bool
}

// because returns the refusal for a reason; none if it is empty.
func because(why string) refusal { return refusal{why: why} }

// unless returns the refusal for the reason or the error of a check.
func unless(why string, err error) refusal {
	if err != nil {
		return refusal{why: err.Error(), unknown: true}
	}
	return refusal{why: why}
}

// broken returns the refusal of a policy that does not compile; none if it does.
func broken(c *compile.Compiled) refusal {
	if errs := rule.Errors(c.Problems); len(errs) > 0 {
		return refusal{why: sentence(errs[0]), unknown: c.Pending(), invalid: true}
	}
	return refusal{}
}

// code is the HTTP status of the denial.
func (r refusal) code() int32 {
	switch {
	case r.unknown:
		return http.StatusServiceUnavailable
	case r.invalid:
		return http.StatusUnprocessableEntity
	}
	return http.StatusForbidden
}

// denial denies the write of a policy because of the field of the finding.
func (r refusal) denial(finding usher.Finding) usher.Decision {
	finding.Outcome, finding.Message = usher.Rejected, r.why
	d := usher.Denied("%s: %s", finding.Policy, r.why)
	d.Findings = []usher.Finding{finding}
	return coded(d, r.code())
}

// coded returns a denial of a policy, which its findings name, with a code. Its reason is that of the code, which
// kubectl prints beside the message; for kinitiras' kinds it is the message, and what is invalid is forbidden, as
// kinitiras answers.
func coded(d usher.Decision, code int32) usher.Decision {
	reason := metav1.StatusReasonForbidden
	switch kind, _ := api.KindCalled(d.Findings[0].Policy.Kind); {
	case kind.Group == v1alpha1.GroupVersion.Group:
		reason = metav1.StatusReason(d.Message)
		if code == http.StatusUnprocessableEntity {
			code = http.StatusForbidden
		}
	case code == http.StatusUnprocessableEntity:
		reason = metav1.StatusReasonInvalid
	case code == http.StatusServiceUnavailable:
		reason = metav1.StatusReasonServiceUnavailable
	case code == http.StatusInternalServerError:
		reason = metav1.StatusReasonInternalError
	}
	d.Code, d.Reason = code, string(reason)
	return d
}
