package policytest

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/json"

	usher "github.com/usher-dev/usher"
	responses "github.com/usher-dev/usher/internal/answer"
)

// faults lists the differences between the response and e.
func (e *Expect) faults(a answer) []string {
	if e.Panics {
		return nil
	}
	faults := e.statusFaults(a.decision)
	faults = append(faults, e.noteFaults(a.decision)...)
	if e.NoMatch && a.applied() {
		faults = append(faults, "expected that no rule matches"+ran(a.decision))
	}
	if e.Unchanged && len(a.decision.Patch) > 0 {
		faults = append(faults, fmt.Sprintf("expected no patch, got %s", text(a.decision.Patch)))
	}
	if e.PatchedObject != nil {
		faults = append(faults, diffTrees("", e.PatchedObject, a.patched)...)
	}
	for i := range e.Fields {
		if fault := e.Fields[i].fault(a.patched); fault != "" {
			faults = append(faults, fault)
		}
	}
	return faults
}

func (e *Expect) statusFaults(d usher.Decision) []string {
	var faults []string
	allowed := d.Verdict != usher.Deny
	switch {
	case e.expectsAllowed() && !allowed:
		faults = append(faults, fmt.Sprintf("expected the request to be allowed, it is denied (code %d): %s", code(d), cmp.Or(d.Message, d.Reason)))
	case e.Allowed != nil && !*e.Allowed && allowed:
		faults = append(faults, "expected the request to be denied, it is allowed"+ran(d))
	}
	if e.Code != nil && !sameCode(*e.Code, d) {
		faults = append(faults, fmt.Sprintf("code: expected %d, got %d: %s", *e.Code, code(d), cmp.Or(d.Message, d.Reason)))
	}
	if fault := e.messageFault(d); fault != "" {
		faults = append(faults, fault)
	}
	if !strings.Contains(d.Reason, e.ReasonContains) {
		faults = append(faults, fmt.Sprintf("reason: expected it to contain %q, got %q", e.ReasonContains, d.Reason))
	}
	return faults
}

// noteFaults compares what is told besides the answer.
func (e *Expect) noteFaults(d usher.Decision) []string {
	var faults []string
	if e.Warnings != nil {
		want, got := slices.Sorted(slices.Values(e.Warnings)), slices.Sorted(slices.Values(d.Warnings))
		if !slices.Equal(want, got) {
			faults = append(faults, fmt.Sprintf("warnings: expected %s, got %s", list(want), list(got)))
		}
	}
	if got := Causes(d); e.Causes != nil && !slices.Equal(e.Causes, got) {
		faults = append(faults, fmt.Sprintf("causes: expected %s, got %s", list(e.Causes), list(got)))
	}
	for _, key := range slices.Sorted(maps.Keys(e.AuditAnnotations)) {
		want := e.AuditAnnotations[key]
		got, present := d.Audit[key]
		switch {
		case want == nil && present:
			faults = append(faults, fmt.Sprintf("auditAnnotations[%s]: expected to be absent, got %q", key, got))
		case want != nil && !present:
			faults = append(faults, fmt.Sprintf("auditAnnotations[%s]: expected %q, is absent; there are %s", key, *want, list(slices.Sorted(maps.Keys(d.Audit)))))
		case want != nil && *want != got:
			faults = append(faults, fmt.Sprintf("auditAnnotations[%s]: expected %q, got %q", key, *want, got))
		}
	}
	return faults
}

// Causes are the parts of rules that deny the request, with their fields.
func Causes(d usher.Decision) []string {
	var all []string
	for i := range d.Findings {
		for _, check := range d.Findings[i].Checks {
			if !slices.Contains(check.Actions, usher.ActDeny) || d.Findings[i].Outcome != usher.Rejected {
				continue
			}
			if check.Field != "" {
				check.Message = check.Field + ": " + check.Message
			}
			all = append(all, check.Message)
		}
	}
	return all
}

// list is a list of texts as JSON; it may be nil.
func list(texts []string) string { return text(append([]string{}, texts...)) }

// messageFault is the only comparison of messages.
func (e *Expect) messageFault(d usher.Decision) string {
	if want := e.MessageEquals; want != nil {
		if got := messageFor(*want, &d); got != *want {
			return fmt.Sprintf("message: expected %q, got %q", *want, got)
		}
	}
	if got := messageFor(e.MessageContains, &d); !strings.Contains(got, e.MessageContains) {
		return fmt.Sprintf("message: expected it to contain %q, got %q", e.MessageContains, got)
	}
	return ""
}

// messageFor returns the message of a decision to compare with an expected one. If that names a policy behind a finding, it is
// the message that clients get.
func messageFor(expected string, d *usher.Decision) string {
	names := func(f usher.Finding) bool { return strings.Contains(expected, "("+f.Policy.String()) }
	if strings.Contains(d.Message, expected) || !slices.ContainsFunc(d.Findings, names) {
		return d.Message
	}
	status, err := responses.Denial(&usher.Request{}, *d)
	if err != nil || status == nil {
		return d.Message
	}
	return status.Message
}

// expectsAllowed reports whether e expects the request to be allowed, explicitly or by describing the
// resulting object.
func (e *Expect) expectsAllowed() bool {
	if e.Allowed != nil {
		return *e.Allowed
	}
	return e.expectsEffect() || e.Unchanged || e.NoMatch
}

func (e *Expect) expectsCode(code int32) bool { return e.Code != nil && *e.Code == code }

// expectsBroken reports whether the point of e is that a policy does not compile.
func (e *Expect) expectsBroken() bool {
	// Kubernetes' own policies then deny with this text.
	const compilation = "compilation error"
	return e.expectsCode(500) || strings.Contains(e.MessageContains, compilation) ||
		e.MessageEquals != nil && strings.Contains(*e.MessageEquals, compilation)
}

// code is the code in a webhook's response.
func code(d usher.Decision) int32 {
	if d.Verdict != usher.Deny {
		return 200
	}
	return d.Code
}

// sameCode accepts 0 for 400: an API server turns a denial without a code into 400.
func sameCode(want int32, d usher.Decision) bool {
	got := code(d)
	return want == got || got == 0 && want == 400
}

// ran lists the rules that ran, for messages.
func ran(d usher.Decision) string {
	if len(d.Findings) == 0 {
		return "; no policy matched"
	}
	var b strings.Builder
	for i := range d.Findings {
		f := &d.Findings[i]
		b.WriteString([]string{"; ", ", "}[min(i, 1)])
		fmt.Fprintf(&b, "%s %s %s", f.Policy, f.Rule, done(f))
		if f.PodOf != "" {
			fmt.Fprintf(&b, " (the pod of %s)", f.PodOf)
		}
	}
	return b.String()
}

// done says what a rule did, of one that turned out not to be for the request why, and of one that failed without
// denying the request which field keeps it from that.
func done(f *usher.Finding) string {
	switch {
	case f.Outcome == usher.Skipped && f.Message != "":
		return "skipped: " + f.Message
	case f.Outcome != usher.Passed || len(f.Checks) == 0:
		return string(f.Outcome)
	}
	var actions []string
	for i := range f.Checks {
		if f.Checks[i].PodsDenied {
			return "warned, and did not deny (podTemplates: Warn)"
		}
		for _, a := range f.Checks[i].Actions {
			actions = append(actions, string(a))
		}
	}
	did := "audited"
	if slices.Contains(actions, string(usher.ActWarn)) {
		did = "warned"
	}
	slices.Sort(actions)
	return fmt.Sprintf("%s, and did not deny (validationActions: [%s])", did, strings.Join(slices.Compact(actions), ", "))
}

func (f *Field) fault(tree map[string]any) string {
	got, present := lookup(tree, f.Path)
	switch {
	case f.Absent:
		if present {
			return fmt.Sprintf("%s: expected to be absent, got %s", place(f.Path), text(got))
		}
		return ""
	case !present:
		return fmt.Sprintf("%s: expected %s, is absent", place(f.Path), f.wanted())
	case f.NonEmpty:
		if empty(got) {
			return fmt.Sprintf("%s: expected not to be empty, got %s", place(f.Path), text(got))
		}
		return ""
	case f.Matches != "":
		matched, err := regexp.MatchString(f.Matches, scalar(got))
		if err != nil || !matched {
			return fmt.Sprintf("%s: expected %s, got %s", place(f.Path), f.wanted(), text(got))
		}
		return ""
	}
	var want any
	if err := json.UnmarshalCaseSensitivePreserveInts(f.Value, &want); err != nil {
		return fmt.Sprintf("%s: the expected value: %v", place(f.Path), err)
	}
	return strings.Join(diffTrees(f.Path, want, got), "\n")
}

func (f *Field) wanted() string {
	switch {
	case f.NonEmpty:
		return "something that is not empty"
	case f.Matches != "":
		return fmt.Sprintf("something that matches %q", f.Matches)
	}
	return string(f.Value)
}

func empty(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return false
}

// scalar is the text that a regular expression is matched with.
func scalar(value any) string {
	if s, ok := value.(string); ok {
		return s
	}
	return text(value)
}
