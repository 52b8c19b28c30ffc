package policytest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/stall"
)

// A Test is one test in a file, of any format.
type Test struct {
	Name string
	// File is where the test was loaded from.
	File string
	// Skip, if set, is why the test is not run.
	Skip string

	// faults are all the ways in which the test does not hold.
	faults func(context.Context) []string
	// timeout is how long each rule may take; 0 is none.
	timeout time.Duration
	// suite is what the test is one of, if that can tell what its tests exercise; else nil.
	suite *AccessSuite
	// access is the case of a suite, else nil.
	access *AccessCase
	// admission is the case, if it is one of admission, else nil.
	admission *Case
}

// Admission returns the case of a test of admission; false for other tests.
func (t Test) Admission() (*Case, bool) { return t.admission, t.admission != nil }

// WithLimits returns the test for a cluster whose operator says what policies may do.
func (t Test) WithLimits(l rule.Limits) Test {
	if t.admission == nil {
		// Authorization policies have none.
		return t
	}
	c := *t.admission
	c.Limits = l
	return c.Test()
}

// WithRoles returns the test with what answers about access by roles and bindings: see [Case.Roles].
func (t Test) WithRoles(roles func(objects []map[string]any) (usher.Decider, error)) Test {
	if t.admission == nil {
		return t
	}
	c := *t.admission
	c.Roles = roles
	return c.Test()
}

// WithTimeout returns the test with a limit of the time that each rule and policy may take, and after
// which the test fails and names it, whether or not it looks at its context. Zero is none.
func (t Test) WithTimeout(timeout time.Duration) Test {
	if t.admission == nil {
		t.timeout = timeout
		return t
	}
	c := *t.admission
	c.timeout = timeout
	return c.Test()
}

// Run finds out whether the test holds. Several tests can run at the same time.
func (t Test) Run(ctx context.Context) Report {
	result := Report{Name: t.Name, File: t.File, Status: Skipped, Message: t.Skip}
	if t.Skip != "" {
		return result
	}
	start := time.Now()
	ctx, cancel := context.WithTimeout(ctx, caseTimeout)
	defer cancel()
	faults := recovered(ctx, t.timeout, t.faults)
	result.Took = time.Since(start)
	result.Status = Passed
	if len(faults) > 0 {
		result.Status = Failed
		result.Message = strings.Join(faults, "\n")
	}
	return result
}

// recovered turns a panic, and a rule that takes longer than a timeout, into a fault.
func recovered(ctx context.Context, timeout time.Duration, find func(context.Context) []string) []string {
	faults, err := stall.Within(ctx, timeout, func(ctx context.Context) (faults []string, err error) {
		defer func() {
			if r := recover(); r != nil {
				faults = []string{fmt.Sprintf("panic: %v\n%s", r, debug.Stack())}
			}
		}()
		return find(ctx), nil
	})
	if err != nil {
		return []string{err.Error()}
	}
	return faults
}

// A format is a form that documents with tests have. Each is in a file of its own.
type format struct {
	// recognises reports whether a document is of this format. The content of a document decides,
	// and for a list its first item.
	recognises func(head) bool
	// load returns the tests of a document, which is JSON: for admission cases as Kubernetes
	// reads YAML, for other formats so that n and on are texts. File is where it comes
	// from, for the results, and named reads the files that it names.
	load func(document []byte, file string, named *references) ([]Test, error)
}

// formats are tried in order; the last one accepts the rest. The table never changes.
var formats = []format{
	accessFormat,
	caseFormat,
}

// A head is the top-level fields of a document, or of the first item of a list.
type head struct {
	list   bool
	fields map[string]json.RawMessage
}

func headOf(document []byte) head {
	var h head
	if trimmed := bytes.TrimSpace(document); len(trimmed) > 0 && trimmed[0] == '[' {
		var items []json.RawMessage
		if json.Unmarshal(document, &items) != nil || len(items) == 0 {
			return head{list: true}
		}
		h.list, document = true, items[0]
	}
	// Anything but an object has no fields.
	_ = json.Unmarshal(document, &h.fields)
	return h
}

// has reports whether all fields are there.
func (h head) has(fields ...string) bool {
	return !slices.ContainsFunc(fields, func(name string) bool { return h.fields[name] == nil })
}

// load returns the tests of a document.
func load(d Document, named *references) ([]Test, error) {
	h := headOf(d.json)
	i := slices.IndexFunc(formats, func(f format) bool { return f.recognises(h) })
	if i == len(formats)-1 {
		return formats[i].load(d.json, d.File, named)
	}
	plain, err := d.plain()
	if err != nil {
		return nil, err
	}
	return formats[i].load(plain, d.File, named)
}
