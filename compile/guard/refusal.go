package guard

import (
	"net/http"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/compile"
	"github.com/usher-dev/usher/rule"
)

// A refusal is why the write of a policy is refused; the zero refusal refuses nothing.
type refusal struct {
	why string
	// unknown says that another attempt may succeed: something could not be found out.
	unknown bool
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
		return refusal{why: sentence(errs[0]), unknown: c.Pending()}
	}
	return refusal{}
}

// code is the HTTP status of the denial.
func (r refusal) code() int32 {
	if r.unknown {
		return http.StatusServiceUnavailable
	}
	return http.StatusForbidden
}

// denial denies the write of a policy because of the field of the finding.
func (r refusal) denial(finding usher.Finding) usher.Decision {
	finding.Outcome, finding.Message = usher.Rejected, r.why
	d := usher.Denied("%s: %s", finding.Policy, r.why)
	d.Code, d.Reason = r.code(), d.Message
	d.Findings = []usher.Finding{finding}
	return d
}
