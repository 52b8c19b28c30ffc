package prove

import (
	"fmt"
	"slices"
	"strings"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/convert"
	"github.com/usher-dev/usher/internal/convert/kyverno/interpret"
	"github.com/usher-dev/usher/internal/convert/kyverno/syntax"
	"github.com/usher-dev/usher/internal/policytest"
)

// expect sets what a case expects. The answer of a rule has to be the one that Kyverno gives to this very request: its
// command says that what no rule is for is as expected, and makes up what a request does not have.
func (p *prover) expect(c *policytest.Case, only *convert.Foreign, r *result, asked *interpret.Request) error {
	allowed := r.Result != "fail"
	switch r.Result {
	case "pass", "skip", "fail", "warn":
	default:
		return fmt.Errorf("it expects %q", r.Result)
	}
	c.Expect = &policytest.Expect{Allowed: &allowed}
	if of := only.Object["apiVersion"]; of != "kyverno.io/v1" && of != "kyverno.io/v2beta1" {
		return nil
	}
	answers, read := p.answers(only, asked)
	if !read {
		return nil
	}
	if len(answers) == 0 {
		return fmt.Errorf("no rule is for the object, so that it holds whatever it expects")
	}
	for name, status := range answers {
		if (status == interpret.Fail || status == interpret.Error) == allowed && (status == interpret.Error || r.Rule == "" || slices.Contains(versions(strings.TrimPrefix(strings.TrimPrefix(r.Rule, "autogen-cronjob-"), "autogen-")), name)) {
			return fmt.Errorf("it expects %s, and a webhook of Kyverno would answer %s to this request", r.Result, status)
		}
	}
	return nil
}

// answers returns what Kyverno answers, and whether the policy can be read for that.
func (p *prover) answers(of *convert.Foreign, r *interpret.Request) (map[string]interpret.Status, bool) {
	policy, err := interpreterOf(of, p.exceptions)
	if err != nil {
		return nil, false
	}
	answers, err := policy.Answers(r)
	return answers, err == nil
}

// interpreterOf returns what answers as Kyverno does.
func interpreterOf(of *convert.Foreign, known []convert.Foreign) (*interpret.Policy, error) {
	policy, wrong := syntax.Decode(of.Object)
	if len(wrong) > 0 {
		return nil, &wrong[0]
	}
	var exceptions []*syntax.Exception
	for i := range known {
		e, wrong := syntax.DecodeException(known[i].Object)
		if len(wrong) > 0 {
			return nil, &wrong[0]
		}
		exceptions = append(exceptions, e)
	}
	return interpret.Of(policy, exceptions), nil
}

// expectPatch sets the object that a mutation makes.
func (p *prover) expectPatch(c *policytest.Case, r *result) error {
	c.Phase, c.ValidationActions = usher.Mutate, nil
	allowed := true
	c.Expect = &policytest.Expect{Allowed: &allowed}
	file := r.PatchedResource + r.PatchedResources
	switch {
	case r.Result == "skip":
		// A patch that changes nothing is none.
		c.Expect.PatchedObject = c.Request.Object
		return nil
	case r.Result != "pass" || file == "":
		return fmt.Errorf("it expects %q of a mutation", r.Result)
	}
	objects, err := p.objects(file)
	if err != nil {
		return err
	}
	for _, o := range objects {
		if o["kind"] == c.Request.Object["kind"] && text(o, "name") == text(c.Request.Object, "name") {
			c.Expect.PatchedObject = placed(o, text(c.Request.Object, "namespace"))
			return nil
		}
	}
	return fmt.Errorf("there is no %s in %s", text(c.Request.Object, "name"), file)
}
