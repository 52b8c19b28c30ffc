package rule

import (
	"context"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/rule/allowance"
)

// A Program is the body of a rule. It does no I/O: if a fact is missing, it returns [*fact.Missing]
// and is run again with that fact. It is safe for concurrent use, keeps no reference to its input,
// and returns when ctx is done.
type Program interface {
	Run(ctx context.Context, in *Input) (Outcome, error)
	// String describes the program in one stable line.
	String() string
}

// A Selective is a [Program] that declares which paths it reads, so that the rest need not be
// decoded.
type Selective interface {
	Program
	// ReadPaths returns the paths that Run reads in Input.Object and in Input.OldObject; nil is
	// none. Values at other paths may be absent. Run does not read the objects of Input.Request.
	ReadPaths() (object, old *usher.Paths)
}

// A SlowPath is a program that may run much slower than others.
type SlowPath interface {
	Program
	// SlowPath returns why, such as "it has a definition (3:1)", or "" if it is not slow.
	SlowPath() string
}

// A Brief program does so little, whatever the objects are, that nobody has to be able to leave it: it runs on the
// goroutine that waits for the decision.
type Brief interface {
	Program
	// Brief reports whether Run takes a fraction of a millisecond at most on any input, needs no facts, and keeps
	// nothing of its input, which the next program gets.
	Brief() bool
}

// A Glancer is a [Program] that may know soon that it has nothing to say.
type Glancer interface {
	Program
	// Glance reports whether Run says nothing, or that the program is not for the request, and what it says then. It
	// does no more than a [Brief] program: it is false if it would take longer to find that out.
	Glance(ctx context.Context, in *Input) (Outcome, bool)
}

// A Skipper is a [Program] that can tell which requests it is not for without what may take long.
type Skipper interface {
	Program
	// Skips returns why it is not for a request, "" if it may be: its conditions are not evaluated. The error is
	// one that Run may return, such as [*fact.Missing].
	Skips(in *Input) (string, error)
}

// A Warner is a [Program] whose policy may do less than deny.
type Warner interface {
	Program
	// IfFailed returns whether the request is denied if Run has no result, and whether the user is warned if not. It takes
	// no longer than Skips of a [Skipper].
	IfFailed(in *Input) (denied, warned bool)
}

// An Input is the input of a program. Everything in it is shared: do not change it.
type Input struct {
	Request *usher.Request
	// Object is the object as the rules before have left it; on Delete, the object that is deleted.
	// Trees are as described at usher.Object.Tree.
	Object map[string]any
	// Unchanged says that Object is that of the request. It is false where that is not known.
	Unchanged bool
	// Matched is the object on which the rules of the pass were matched, for rules that name
	// resources; nil is Object.
	Matched map[string]any
	// OldObject is nil unless the request carries both an object and an old one.
	OldObject map[string]any
	// Workload is the object that the request really writes, if Request and Object are those of the
	// pod that it would make: see [Pod].
	Workload *Workload
	Facts    *fact.Known
	// Allowance is what the program may take together with others; nil is one of its own.
	Allowance *allowance.Allowance
	// Memo, unless nil, is that of Request, Object and OldObject.
	Memo *Memo
	// Exempt are validations that the program leaves out.
	Exempt Validations
}

// An Outcome is the result of a program. The zero Outcome allows the request and changes nothing.
type Outcome struct {
	// Verdict is Deny to deny the request; Message is then the reason, possibly empty.
	Verdict usher.Verdict
	Message string
	// Note is the reason of a rejection that has no Message, because kinitiras gives none:
	// clients are told, and the message of the decision stays empty.
	Note string
	// Reason and Code are the status of a denial, as in usher.Decision.
	Reason string
	Code   int32
	// Skipped, unless empty, says why the program turned out not to be for the request.
	Skipped string
	// Condition names the match condition that is false, if that is why.
	Condition string
	// Patch changes the object; it is applied as one, in order.
	Patch    usher.Patch
	Warnings []string
	// Audit goes into the audit log of the API server.
	Audit []Annotation
	// Checks are the parts of the program that have something to say.
	Checks []usher.Check
	// Inspect, unless nil, has objects judged that exist, if the request is allowed.
	Inspect *Inspection
}

// Silent reports whether it is the zero Outcome.
func (o *Outcome) Silent() bool { return o.Skipped == "" && o.Condition == "" && o.Harmless() }

// Harmless reports whether it neither denies nor changes anything, and tells nobody anything: it may say that the
// program is not for the request.
func (o *Outcome) Harmless() bool {
	return o.Verdict != usher.Deny && len(o.Patch) == 0 && len(o.Checks) == 0 && len(o.Warnings) == 0 && len(o.Audit) == 0 && o.Inspect == nil
}

// An Annotation goes into the audit log.
type Annotation struct {
	Key, Value string
	// Joined says that different values for the key are joined; otherwise the first counts.
	Joined bool
	// Failure says that the annotation tells of a validation that fails.
	Failure bool
}
