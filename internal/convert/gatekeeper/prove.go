package gatekeeper

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/convert"
	"github.com/usher-dev/usher/internal/convert/proof"
	"github.com/usher-dev/usher/internal/policytest"
	"github.com/usher-dev/usher/internal/stall"
)

// IsSuite reports whether an object has tests of gator.
func IsSuite(object map[string]any) bool { return groupOf(object) == suites }

// suite is a Suite of gator.
type suite struct {
	Tests []struct {
		Name       string      `json:"name"`
		Template   string      `json:"template"`
		Constraint string      `json:"constraint"`
		Expansion  string      `json:"expansion"`
		Invalid    bool        `json:"invalid"`
		Skip       bool        `json:"skip"`
		Cases      []suiteCase `json:"cases"`
	} `json:"tests"`
}

type suiteCase struct {
	Name       string      `json:"name"`
	Object     string      `json:"object"`
	Inventory  []string    `json:"inventory"`
	Skip       bool        `json:"skip"`
	Assertions []assertion `json:"assertions"`
}

// An assertion is about the violations whose message matches.
type assertion struct {
	// Violations are yes, no or how many there are; yes if absent.
	Violations json.RawMessage `json:"violations"`
	Message    string          `json:"message"`
}

// Prove runs the tests of a Suite on what its templates become: each with its constraint, whose action is kept.
func Prove(ctx context.Context, of *convert.Foreign, read proof.Read, o Options) []proof.Row {
	var s suite
	if err := decode(of.Object, &s, false); err != nil {
		return []proof.Row{{File: of.File, Outcome: proof.Unjudged, Why: err.Error()}}
	}
	o.Enforce, o.Partial = true, false
	p := prover{Options: o, file: of.File, read: read}
	for i := range s.Tests {
		t := &s.Tests[i]
		before := len(p.rows)
		stall.Of(ctx).At(of.File + " " + t.Name)
		p.name = t.Name
		switch {
		case t.Skip:
			continue
		case t.Invalid:
			p.add("", proof.Row{Outcome: proof.Unjudged, Why: "it is about a constraint that Gatekeeper refuses"})
		case t.Expansion != "":
			p.add("", proof.Row{Outcome: proof.Unjudged, Why: "it has an ExpansionTemplate"})
		default:
			p.test(ctx, t.Template, t.Constraint, t.Cases)
		}
		for n := before; n < len(p.rows); n++ {
			p.rows[n].Policy, p.rows[n].Object = p.of, p.object
		}
	}
	return p.rows
}

// A prover runs the tests of one suite.
type prover struct {
	Options

	file, name string
	read       proof.Read
	// of and object are the template of the test.
	of     usher.PolicyRef
	object map[string]any
	rows   []proof.Row
}

func (p *prover) add(name string, r proof.Row) {
	r.File, r.Name = p.file, strings.Trim(p.name+"/"+name, "/")
	p.rows = append(p.rows, r)
}

// beside reads a file that the suite names.
func (p *prover) beside(file string) ([]map[string]any, []*admissionv1.AdmissionRequest, error) {
	return p.read(filepath.Join(filepath.Dir(p.file), file))
}

func (p *prover) test(ctx context.Context, template, constraint string, cases []suiteCase) {
	var foreign []convert.Foreign
	for _, file := range []string{template, constraint} {
		objects, _, err := p.beside(file)
		if err != nil {
			p.add("", proof.Row{Outcome: proof.Unjudged, Why: err.Error()})
			return
		}
		for _, o := range objects {
			foreign = append(foreign, convert.Foreign{Object: o, File: file})
		}
	}
	if len(foreign) > 0 {
		p.of, p.object = foreign[0].Ref(), foreign[0].Object
	}
	var policies []map[string]any
	for _, i := range Policies(ctx, foreign, p.Options) {
		for _, left := range i.Left {
			p.add("", proof.Row{Outcome: proof.Unjudged, Why: "the template is left out: " + left.What})
			return
		}
		documents, err := convert.Documents(i.To)
		if err != nil {
			p.add("", proof.Row{Outcome: proof.Unjudged, Why: err.Error()})
			return
		}
		policies = append(policies, documents...)
	}
	for i := range cases {
		if c := &cases[i]; !c.Skip {
			p.add(c.Name, p.judge(ctx, policies, c))
		}
	}
}

// judge runs one case.
func (p *prover) judge(ctx context.Context, policies []map[string]any, of *suiteCase) proof.Row {
	c := policytest.Case{Name: strings.Trim(p.name+" "+of.Name, " "), Phase: usher.Validate, Policies: policies, Limits: p.Limits}
	objects, reviews, err := p.beside(of.Object)
	switch {
	case err != nil:
	case len(objects) == 1 && len(reviews) == 0:
		c.Request.Operation, c.Request.Object = usher.Create, objects[0]
	case len(objects) == 0 && len(reviews) == 1:
		err = request(&c.Request, reviews[0])
	default:
		err = fmt.Errorf("expected one object in %s", of.Object)
	}
	for _, file := range of.Inventory {
		var more []map[string]any
		if err == nil {
			more, _, err = p.beside(file)
		}
		c.Objects = append(c.Objects, more...)
	}
	if err == nil {
		c.Expect, err = expected(of.Assertions)
	}
	if err != nil {
		return proof.Row{Outcome: proof.Unjudged, Why: err.Error()}
	}
	metadata, _ := c.Request.Object["metadata"].(map[string]any)
	c.Request.Namespace, _ = metadata["namespace"].(string)
	settled, report := c.RunStrictly(ctx)
	return proof.Of(settled, report.Status == policytest.Passed, report.Message)
}

// request fills in the request of an AdmissionReview.
func request(r *policytest.Request, of *admissionv1.AdmissionRequest) error {
	r.Operation = usher.Operation(of.Operation)
	if r.Operation != usher.Create && r.Operation != usher.Update {
		return fmt.Errorf("it is about the operation %q, for which the webhook is not asked", of.Operation)
	}
	r.User.Name, r.User.Groups = of.UserInfo.Username, of.UserInfo.Groups
	if err := decode(of.Object, &r.Object, false); err != nil || r.Operation == usher.Create {
		return err
	}
	if of.OldObject.Raw == nil {
		// Gatekeeper's tests leave it out.
		r.OldObject = r.Object
		return nil
	}
	return decode(of.OldObject, &r.OldObject, false)
}

// expected returns the answer that assertions expect; without any, there are no violations.
func expected(all []assertion) (*policytest.Expect, error) {
	e := &policytest.Expect{Allowed: new(bool)}
	*e.Allowed = true
	for _, a := range all {
		text := strings.Trim(string(a.Violations), `"`)
		none := slices.Contains([]string{"no", "false", "0"}, text)
		if none && a.Message == "" {
			continue
		}
		if a.Message != "" && (none || strings.ReplaceAll(regexp.QuoteMeta(a.Message), `\.`, ".") != a.Message) {
			return nil, fmt.Errorf("it expects the message %q, a pattern", a.Message)
		}
		*e.Allowed = false
		e.MessageContains = cmp.Or(a.Message, e.MessageContains)
	}
	return e, nil
}
